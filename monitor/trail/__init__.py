"""What became of each request, on disk for a day or so, bounded: what `rag-monitor why` tells from."""

from monitor.trail.recorder import Recorder, recording
from monitor.trail.store import Reader

__all__ = ["Reader", "Recorder", "recording"]
