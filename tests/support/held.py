"""A monitor that pauses once at a named point of its first reload, long enough for a test to do something then.

The product does not know of it: it wraps the product's methods in the process that a test starts.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio

from tests.support.monitor import MonitorProcess
from tests.support.tools import wait_until

_PAUSE: Final = 2.0  # seconds: less than a stop may take


class Point(NamedTuple):
    """Before the call number `call` of a function, from 1."""

    module: str
    function: str
    call: int


POINTS: Final[dict[str, Point]] = {
    "reading": Point("monitor.app.reload", "changes", 1),
    "draining": Point("monitor.pipeline.followers", "Followers.drain", 1),
    "starting": Point("monitor.app.warm_start", "fill", 2),
}
"""In the order in which a reload reaches them."""


def lay(name: str, sign: Path) -> None:
    """Pause this process at the point `name`, and then create the file `sign`."""
    point = POINTS[name]
    owner: Any = importlib.import_module(point.module)
    *classes, method = point.function.split(".")
    for one in classes:
        owner = getattr(owner, one)
    whole, calls = getattr(owner, method), []

    def comes() -> bool:
        calls.append(True)
        if len(calls) != point.call:
            return False
        sign.touch()
        return True

    async def waited_for(*arguments: Any, **named: Any) -> Any:
        if comes():
            await anyio.sleep(_PAUSE)
        return await whole(*arguments, **named)

    def called(*arguments: Any, **named: Any) -> Any:
        if comes():
            time.sleep(_PAUSE)
        return whole(*arguments, **named)

    setattr(owner, method, waited_for if inspect.iscoroutinefunction(whole) else called)


class Held(MonitorProcess):
    """A monitor that pauses at `point` of its first reload; an ordinary one while that is empty."""

    point = ""

    def spawn(self) -> None:
        """See `MonitorProcess`."""
        held = [sys.executable, "-m", "tests.support.held", self.point, str(self._sign)]
        self.around = (lambda command: [*held, *command[3:]]) if self.point else list
        super().spawn()

    def wait_for_pause(self) -> None:
        """Wait until it pauses."""
        wait_until(self._sign.exists, 30, f"the point {self.point!r}")

    @property
    def _sign(self) -> Path:
        return self.folder / f"{self.point}.sign"


if __name__ == "__main__":
    point_named, made = sys.argv[1:3]
    del sys.argv[1:3]
    lay(point_named, Path(made))
    importlib.import_module("monitor.__main__").main()
