"""What components borrow from the application, for tests: a clock that is moved by hand, metrics of one's own."""

from __future__ import annotations

from monitor.clock import Clock, ManualClock
from monitor.stages import Runtime
from monitor.telemetry.metrics import Metrics


def runtime(clock: Clock | None = None) -> Runtime:
    return Runtime.standalone(clock or ManualClock())


def total(metrics: Metrics, name: str, **labels: str) -> float:
    """The sum of all samples called `name` that carry these labels."""
    return sum(
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
