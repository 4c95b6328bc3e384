"""The time limit of a stop."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from monitor.clock import Clock, SystemClock

STOP_WITHIN: Final = 7.0
"""Seconds after SIGTERM at which the process ends, even if work is left. `docker stop` waits ten; the rest is margin,
because a busy machine takes a while to end a process."""

Step: TypeAlias = Literal["requests", "sinks", "connections"]
_OVER: Final[dict[Step, float]] = {"requests": 4.0, "sinks": 5.0, "connections": 6.0}
"""Seconds after the start of the stop by which each step must be over. The time after the last is for closing files."""
_HURRY: Final = 0.4


class StopDeadline:
    """The single time limit of a stop. Each step gets the time until its own limit, even if earlier steps were slow.

    Work that a step does not finish is durable at its origin, and continues after the restart.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._began: float | None = None
        self._part = 1.0

    def begin(self) -> None:
        """Start the clock of the stop, unless it has started."""
        if self._began is None:
            self._began = self._clock.monotonic()

    def hurry(self) -> None:
        """Give each step less than half of its time: new parts take over right after, and senders wait for them."""
        self._part = _HURRY

    def left(self, step: Step) -> float:
        """Return the seconds until `step` must be over, at least 0; its full time if the stop has not begun."""
        if self._began is None:
            return self._part * _OVER[step]
        return max(self._began + self._part * _OVER[step] - self._clock.monotonic(), 0.0)
