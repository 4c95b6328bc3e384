"""What goes into assembly and comes out of it: settings, counts, closed traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pydantic import Field, model_validator

from monitor.model.ack import Ack
from monitor.model.span import Part
from monitor.model.trace import Closed
from monitor.quantities import Duration, Size
from monitor.stages import Component


class AssemblySettings(Component):
    """When a trace counts as complete, and what open traces may take."""

    grace_period: Duration = Field(default=10.0, gt=0)
    """How long nothing must come for a trace whose roots have ended. The SDKs send every 5 s."""

    idle_timeout: Duration = Field(default=60.0, gt=0)
    """How long nothing must come for a trace of which no root, or an unended one, has been seen."""

    max_age: Duration = Field(default=600.0, gt=0)
    """How long a trace may stay open in all."""

    max_open_bytes: Size = Field(default=256 * 1024**2, gt=0)
    """What all open traces together may take; beyond it the largest are closed as `evicted`."""

    max_trace_bytes: Size = Field(default=20 * 1024**2, gt=0)
    """What one trace may take; beyond it it is closed as `too_large`; what still comes is dropped, counted."""

    max_trace_spans: int = Field(default=10_000, gt=0)
    """How many spans and log records one trace may have; beyond it it is closed as `too_large`."""

    remember_closed: int = Field(default=100_000, ge=0)
    """How many closed traces are remembered, so that late parts of them are recognised and do not open them again."""

    remember_for: Duration = Field(default=3600.0, ge=0)
    """How long a closed trace is remembered."""

    @model_validator(mode="after")
    def _in_order(self) -> AssemblySettings:
        if not self.grace_period <= self.idle_timeout <= self.max_age:
            raise ValueError(
                f"grace_period <= idle_timeout <= max_age must hold, not {self.grace_period:g} s, "
                f"{self.idle_timeout:g} s and {self.max_age:g} s"
            )
        return self


class PartCounts(NamedTuple):
    """Parts by what became of them."""

    kept: int = 0
    duplicate: int = 0
    late: int = 0
    too_large: int = 0


class Added(NamedTuple):
    """What became of the parts of one call; `opened` says that they began a trace."""

    spans: PartCounts
    records: PartCounts
    opened: bool


class OpenTraceStatus(NamedTuple):
    """An open trace as it stands: when it will be closed if nothing more comes, on the monotonic clock.

    `root_ended` says that it waits only for parts that come late.
    """

    app: str
    source: str
    received_at: float
    due: float
    spans: int
    records: int
    root_ended: bool


@dataclass(frozen=True, slots=True)
class ClosedTrace:
    """A trace that nothing more is added to. Its holder settles each of its receipts once.

    `parts` are in order of arrival, spans before records; there are none where already the first was too large.
    `probability` is the lowest of its parts', `received_at` the wall-clock second of the first.
    """

    trace_id: bytes
    parts: tuple[Part, ...]
    closed: Closed
    app: str
    source: str
    probability: float
    receipts: tuple[Ack, ...]
    received_at: float
