"""What components borrow from the application, for tests: a clock that is moved by hand, metrics of one's own."""

from __future__ import annotations

from monitor.clock import Clock, ManualClock
from monitor.stages import Runtime
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics


def runtime(clock: Clock | None = None) -> Runtime:
    metrics = Metrics()
    return Runtime(clock=clock or ManualClock(), metrics=metrics, events=Events(metrics), health=Health())


def total(metrics: Metrics, name: str, **labels: str) -> float:
    """The sum of all samples called `name` that carry these labels."""
    return sum(
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
