"""The clock, passed to everything that needs the time. Nothing else reads a clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A wall clock, `now`, for timestamps, and a monotonic clock for timers."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC. May jump."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only increase, from an arbitrary start."""
        ...


class SystemClock:
    """The system's clocks."""

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only increase."""
        return time.monotonic()


class ManualClock:
    """A clock that moves only on request, for tests and simulations."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._wall = start
        self._monotonic = 0.0

    def now(self) -> float:
        """Return seconds since the epoch, UTC."""
        return self._wall

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
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
