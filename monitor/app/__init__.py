"""The composition root: from a configuration to a running monitor. It knows every wing below it.

parts (open for the life of the monitor) -> scoring (evaluators, judges, sampling) -> run (all of it at work)
"""

from monitor.app.parts import Running
from monitor.app.run import run

__all__ = ["Running", "run"]
