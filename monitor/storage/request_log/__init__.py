"""The outcome of each request, on disk for a day or so, bounded: the source of `rag-monitor why`."""

from monitor.storage.request_log.recorder import Recorder, recording
from monitor.storage.request_log.store import RequestLogReader

__all__ = ["Recorder", "RequestLogReader", "recording"]
