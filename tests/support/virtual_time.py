"""An event loop with virtual time: sleepers wake at once, in the right order. Hours pass in milliseconds."""

from __future__ import annotations

import asyncio
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer whenever there is nothing else to do. For code without threads and sockets."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        loop: Any = self
        waiting = [timer._when for timer in loop._scheduled if not timer._cancelled]
        if not loop._ready and waiting:
            self._now = max(self._now, min(waiting))
        super()._run_once()  # type: ignore[misc]


class LoopClock:
    """A clock that follows the loop. The wall clock can be set apart from it."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.offset = start

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.offset

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
