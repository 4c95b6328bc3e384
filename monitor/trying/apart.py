"""What components borrow where no monitor runs around them, or where the one that does must not hear of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from monitor.clock import SystemClock
from monitor.stages import Runtime
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics, total


class Nothing:
    """Remembers no result: everything is judged."""

    def remembered(self, result: str) -> bool:  # noqa: ARG002 - the contract's signature
        """Never."""
        return False

    def remember(self, results: Iterable[str]) -> None:
        """Does not."""


def runtime(*, silent: bool = False) -> Runtime:
    """Metrics of its own, at which nobody looks; where it is `silent`, its events are not logged either."""
    metrics = Metrics()
    events = Events(metrics, _nowhere() if silent else None)
    return Runtime(clock=SystemClock(), metrics=metrics, events=events, health=Health())


def _nowhere() -> logging.Logger:
    made = logging.Logger("monitor.trying")  # noqa: LOG001 - one that is registered would be heard by its parents
    made.addHandler(logging.NullHandler())
    return made


def paid(runtime: Runtime) -> float:
    """US dollars that the judges' calls have cost, those that came to no verdict included."""
    return total(runtime.metrics.judge_cost)
