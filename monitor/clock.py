"""Time, passed in. Nothing else in the package reads a clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two clocks in one: `now` for what people read, `monotonic` for every timer."""

    def now(self) -> float:
        """Wall-clock seconds since 1970, UTC. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, from an arbitrary start."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        """Wall-clock seconds since 1970, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to: for tests and simulations."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._wall = start
        self._monotonic = 0.0

    def now(self) -> float:
        """Wall-clock seconds since 1970, UTC."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by `seconds` (>= 0)."""
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
        self._wall += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Move only the wall clock, by any amount, as a time server does."""
        self._wall += seconds
