"""What every component is, and what the application lends to those that run."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from monitor.clock import Clock, SystemClock
from monitor.stages.replica_share import ReplicaShare
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics
from monitor.telemetry.site import Site
from monitor.telemetry.tracing import Tracer


class Component(BaseModel):
    """What a configuration entry becomes. Unknown keys are errors; values never change after start."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def type_name(component: Component) -> str:
    """The `type` of a component, as it stands in the configuration and in metric labels: the name of its file."""
    return type(component).__module__.rsplit(".", 1)[-1]


@dataclass(frozen=True, slots=True)
class Runtime:
    """What the application lends to every component that runs: time, metrics, events, health, its share, its pages.

    With `tracer` the monitor tells what it does itself; by default nobody listens.
    """

    clock: Clock
    metrics: Metrics
    events: Events
    health: Health
    share: ReplicaShare = field(default_factory=ReplicaShare)
    site: Site = field(default_factory=Site)
    tracer: Tracer = field(default_factory=Tracer)

    @classmethod
    def standalone(cls, clock: Clock | None = None, *, logs: bool = True) -> Runtime:
        """A runtime for work apart from a running monitor: metrics of its own, which nothing exports.

        `clock` is the system's by default. With `logs` off its events are not logged either.
        """
        metrics = Metrics()
        events = Events(metrics, None if logs else _silent_logger())
        return cls(clock=clock or SystemClock(), metrics=metrics, events=events, health=Health())


def _silent_logger() -> logging.Logger:
    made = logging.Logger("monitor.silent")  # noqa: LOG001 - one that is registered would hand records to its parents
    made.addHandler(logging.NullHandler())
    return made
