"""The composition root: from a configuration to a running monitor. The only room that knows all others.

parts (open for the life of the monitor) -> judging (from a case to its results) -> run (all of it at work)
"""

from monitor.app.parts import Running
from monitor.app.run import end_process, run

__all__ = ["Running", "end_process", "run"]
