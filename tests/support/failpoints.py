"""Named points between two durable steps, at which a monitor under test ends at once, as with SIGKILL.

The product does not know of them: they wrap its methods in the process that a test starts.
"""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

import yaml

from tests.support.monitor import MonitorProcess

ENDED: Final = 9
"""The exit status of a monitor that has reached its failpoint."""


class Point(NamedTuple):
    """Before or after a method call for whose arguments `holds` is true."""

    module: str
    method: str
    when: Literal["before", "after"]
    holds: Callable[..., bool] = lambda *_: True


def _stores(_store: Any, batch: Any) -> bool:
    return bool(batch.records)


def _deletes(_store: Any, batch: Any) -> bool:
    return bool(batch.deletes)


_STORE = "monitor.storage.spool.store"
POINTS: Final[dict[str, Point]] = {
    "received": Point(_STORE, "SpoolDatabase.write", "before", _stores),
    "committed": Point(_STORE, "SpoolDatabase.write", "after", _stores),
    "begun": Point("monitor.pipeline.in_flight", "InFlight.begin_next", "after"),
    "scored": Point("monitor.pipeline.publish", "Publisher.all", "before"),
    "published": Point("monitor.pipeline.publish", "Publisher.all", "after"),
    "deleted": Point(_STORE, "SpoolDatabase.write", "after", _deletes),
}
"""In the order in which a request passes them."""


def lay(name: str) -> None:
    """End this process at the point `name`, without any cleanup."""
    point = POINTS[name]
    of, method = point.method.split(".")
    owner = getattr(importlib.import_module(point.module), of)
    whole = getattr(owner, method)

    def here(when: str, *arguments: Any) -> None:
        if when == point.when and point.holds(*arguments):
            os._exit(ENDED)

    async def waited_for(*arguments: Any, **named: Any) -> Any:
        here("before", *arguments)
        found = await whole(*arguments, **named)
        here("after", *arguments)
        return found

    def called(*arguments: Any, **named: Any) -> Any:
        here("before", *arguments)
        found = whole(*arguments, **named)
        here("after", *arguments)
        return found

    setattr(owner, method, waited_for if inspect.iscoroutinefunction(whole) else called)


class Failing(MonitorProcess):
    """A monitor that ends when it reaches `point`; an ordinary one while that is empty."""

    point = ""

    def spawn(self) -> None:
        if not self.point:
            super().spawn()
            return
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(self.config))
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "tests.support.failpoints", self.point, "run", "-c", str(path)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def ended(self) -> int:
        """Wait for its end, and return its exit status."""
        assert self.process is not None
        return self.process.wait(120)


if __name__ == "__main__":
    lay(sys.argv.pop(1))
    importlib.import_module("monitor.__main__").main()
