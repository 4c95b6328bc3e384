"""The composition root: from a configuration to a running monitor. It knows every wing below it.

parts (everything that is open) -> scoring (evaluators, judges, sampling) -> life (all of it at work, with one
configuration) -> run (one life after another, in one process), reload (when the next life begins, and with what)
"""

from monitor.app.parts import Running
from monitor.app.reload import Reloader
from monitor.app.run import run

__all__ = ["Reloader", "Running", "run"]
