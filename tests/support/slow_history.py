"""A monitor whose history is slow once: its first write for the request `held` is on disk only after the pipeline was
cut off.

The product does not know of it: it wraps the product's methods in the process that a test starts.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from typing import Any, Final

from tests.support.monitor import MonitorProcess

HELD: Final = "held"
_LATER: Final = 0.5  # seconds from the end of the time for requests to the end of the write


def lay() -> None:
    """Hold back the first such write until the time for requests in flight is over."""
    writer = importlib.import_module("monitor.storage.history.writer").Writer
    deadline = importlib.import_module("monitor.stages.stop_deadline").StopDeadline
    write, left = writer.write, deadline.left
    stopping = threading.Event()
    limits: list[float] = []
    held: list[bool] = []

    def left_noted(self: Any, step: str) -> float:
        found: float = left(self, step)
        if step == "requests" and held and not stopping.is_set():
            limits.append(found)
            stopping.set()
        return found

    def write_slowly(self: Any, results: list[Any]) -> None:
        if not held and any(one.case.request_id == HELD for one in results):
            held.append(True)
            stopping.wait()
            time.sleep(limits[0] + _LATER)
        write(self, results)

    writer.write, deadline.left = write_slowly, left_noted


class SlowHistory(MonitorProcess):
    """A monitor with such a history in its first process."""

    def start(self) -> SlowHistory:
        super().start()
        self.around = list
        return self

    def spawn(self) -> None:
        """See `MonitorProcess`."""
        if self.process is None:
            self.around = lambda command: [sys.executable, "-m", "tests.support.slow_history", *command[3:]]
        super().spawn()


if __name__ == "__main__":
    lay()
    importlib.import_module("monitor.__main__").main()
