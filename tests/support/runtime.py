"""The runtime that components get from the application, for tests: a manual clock, separate metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from monitor.clock import Clock, ManualClock
from monitor.stages import Runtime
from monitor.stages.kept_state import KeptState, StateValue
from monitor.telemetry.metrics import Metrics


def runtime(clock: Clock | None = None, kept: KeptState | None = None) -> Runtime:
    made = Runtime.standalone(clock or ManualClock())
    return made if kept is None else replace(made, kept=kept)


class RememberedState(KeptState):
    """Keeps values in memory, as JSON, and passes them to the next process: `ended` marks the end of one."""

    def __init__(self) -> None:
        self._found: dict[str, StateValue] = {}
        self._followed: dict[str, Callable[[], StateValue]] = {}

    def load(self, name: str) -> StateValue | None:
        return self._found.get(name)

    def follow(self, name: str, current: Callable[[], StateValue]) -> None:
        self._followed[name] = current

    def ended(self) -> None:
        self._found.update({name: json.loads(json.dumps(current())) for name, current in self._followed.items()})
        self._followed.clear()


def total(metrics: Metrics, name: str, **labels: str) -> float:
    """Return the sum of all samples called `name` with these labels."""
    return sum(
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
