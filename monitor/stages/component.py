"""The base class of all components, and the services that the application provides to running ones."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict

from monitor.clock import Clock, SystemClock
from monitor.stages.kept_state import KeptState
from monitor.stages.reloads import Carried, Reloads
from monitor.stages.replica_share import ReplicaShare
from monitor.stages.stop_deadline import StopDeadline
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.site import Site
from monitor.telemetry.tracing import Tracer

if TYPE_CHECKING:  # a worker reads and evaluates: without metrics and asyncio it needs several megabytes less
    from monitor.stages.doors import Doors
    from monitor.telemetry.metrics import Metrics


def _no_doors() -> Doors:
    from monitor.stages.doors import Doors  # noqa: PLC0415 - as above

    return Doors()


class Component(BaseModel):
    """The base class of everything that the configuration describes. Unknown keys are errors; values never change."""

    # A refused value may contain a secret, so no error message repeats it.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    needs_restart: ClassVar[frozenset[str]] = frozenset()
    """Options that a reload of the configuration cannot change."""


_TYPES: Final[dict[type[Component], str]] = {}  # plug-ins only: they are not named after their files


def remember_type(component: type[Component], name: str) -> None:
    """Register the `type` of a plug-in. A class that is registered twice keeps its first type."""
    _TYPES.setdefault(component, name)


def type_name(component: Component) -> str:
    """Return the `type` of a component in the configuration and in metric labels.

    It is the name of its file; for a plug-in, the name of its entry point.
    """
    return _TYPES.get(type(component)) or type(component).__module__.rsplit(".", 1)[-1]


C = TypeVar("C", bound=Component)


def named(components: Sequence[C]) -> dict[str, C]:
    """Return the components by their configured `name`, else by type; the second of a type is named `type_2`."""
    found: dict[str, C] = {}
    given = {name for one in components if (name := getattr(one, "name", None))}
    for one in components:
        name, number = getattr(one, "name", None) or type_name(one), 1
        while name in found or (name in given and getattr(one, "name", None) is None):
            number += 1
            name = f"{type_name(one)}_{number}"
        found[name] = one
    return found


@dataclass(frozen=True, slots=True)
class Runtime:
    """Services that the application provides to every running component. Plug-ins use `clock`; the rest is internal.

    `share` is this replica's share of the traffic, `kept` keeps small values across restarts, `site` serves web pages,
    `tracer` records the monitor's own spans (discarded by default), and `stop` is the time limit of a shutdown.
    `doors` are the listening servers, `reloads` reloads the configuration, and `carried` is the state that new parts
    take over at a reload.
    """

    clock: Clock
    metrics: Metrics
    events: Events
    health: Health
    share: ReplicaShare = field(default_factory=ReplicaShare)
    kept: KeptState = field(default_factory=KeptState)
    site: Site = field(default_factory=Site)
    tracer: Tracer = field(default_factory=Tracer)
    stop: StopDeadline = field(default_factory=StopDeadline)
    doors: Doors = field(default_factory=_no_doors)
    reloads: Reloads = field(default_factory=Reloads)
    carried: Carried = field(default_factory=Carried)

    @classmethod
    def standalone(cls, clock: Clock | None = None, *, logs: bool = True) -> Runtime:
        """Make a runtime for work outside a running monitor. Its metrics are not exported.

        `clock` is the system clock by default. With `logs` off, events are not logged.
        """
        from monitor.telemetry.metrics import Metrics  # noqa: PLC0415 - as above

        metrics = Metrics()
        events = Events(metrics, None if logs else _silent_logger())
        return cls(clock=clock or SystemClock(), metrics=metrics, events=events, health=Health())


def _silent_logger() -> logging.Logger:
    made = logging.Logger("monitor.silent")  # noqa: LOG001 - a registered logger would pass records to its parents
    made.addHandler(logging.NullHandler())
    return made
