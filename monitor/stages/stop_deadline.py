"""The time within which a stop is over."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from monitor.clock import Clock, SystemClock

STOP_WITHIN: Final = 7.0
"""Seconds after SIGTERM at which the process ends even with work left. `docker stop` waits ten: a busy machine takes
its time to end a process."""

Step: TypeAlias = Literal["requests", "sinks", "connections"]
_OVER: Final[dict[Step, float]] = {"requests": 4.0, "sinks": 5.0, "connections": 6.0}
"""The seconds after which each step is over. What is left after the last is for the files."""
_HURRY: Final = 0.4


class StopDeadline:
    """The one time limit of a stop. Each step takes what is left until it must be over, even if others took long.

    What a step does not finish is durable where it came from, and goes on after the restart.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._began: float | None = None
        self._part = 1.0

    def begin(self) -> None:
        """Begin the stop now, unless it has begun."""
        if self._began is None:
            self._began = self._clock.monotonic()

    def hurry(self) -> None:
        """Give each step less than half of its time: what stops begins again at once, and senders wait for it."""
        self._part = _HURRY

    def left(self, step: Step) -> float:
        """Return the seconds until `step` must be over, at least 0; all of them before the stop has begun."""
        if self._began is None:
            return self._part * _OVER[step]
        return max(self._began + self._part * _OVER[step] - self._clock.monotonic(), 0.0)
