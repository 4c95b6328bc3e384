"""Assembles traces: gathers parts in any order and closes each trace once, when it is complete.

A pure data structure: time is passed in, nothing waits, and there is no I/O. The caller adds parts with `add`, sleeps
until `next_due` and takes the traces that `due` returns. A trace is complete when each root seen has ended and nothing
arrived for `grace_period`; otherwise it is closed after `idle_timeout` without new parts, after `max_age`, or when
memory runs out. Later parts are counted, never evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field, model_validator

from monitor.model.ack import Ack
from monitor.model.span import Part, RefusedParts
from monitor.model.trace import Closed
from monitor.quantities import Duration, Size
from monitor.stages import Component


class AssemblySettings(Component):
    """When a trace is complete, and how much memory open traces may use."""

    grace_period: Duration = Field(default=10.0, gt=0)
    """How long to wait for more spans after the root span has ended. SDKs export every 5 s."""

    idle_timeout: Duration = Field(default=60.0, gt=0)
    """How long to wait for more spans while the root span is missing or has not ended."""

    max_age: Duration = Field(default=600.0, gt=0)
    """Maximum time that a trace stays open."""

    max_open_bytes: Annotated[Size, Field(gt=0)] = Field(default_factory=lambda: 256 * 1024**2)
    """Maximum memory of all open traces, with their resources and scopes. Near it, large traces are closed as
    `evicted`; if there are no large ones, receivers ask senders to retry. Default: its share of `limits.memory`."""

    max_trace_bytes: Annotated[Size, Field(gt=0)] = Field(default_factory=lambda: 20 * 1024**2)
    """Maximum size of one trace. A larger one is closed as `too_large`; further spans are dropped and counted. Default:
    20 MiB, at most half of `max_open_bytes`."""

    max_closed_bytes: Annotated[Size, Field(gt=0)] = Field(default_factory=lambda: 64 * 1024**2)
    """Maximum memory for the span ids of recently closed traces. Beyond it, those of the oldest traces are forgotten: a
    repeated span then counts as late instead of duplicate. Default: its share of `limits.memory`."""

    max_trace_spans: int = Field(default=10_000, gt=0)
    """Maximum number of spans and log records in one trace. A larger one is closed as `too_large`."""

    remember_closed: int = Field(default=100_000, ge=0)
    """How many closed traces to remember, so that late spans do not reopen them."""

    remember_for: Duration = Field(default=3600.0, ge=0)
    """How long to remember a closed trace."""

    @model_validator(mode="after")
    def _in_order(self) -> AssemblySettings:
        if not self.grace_period <= self.idle_timeout <= self.max_age:
            raise ValueError(
                f"grace_period <= idle_timeout <= max_age must hold, not {self.grace_period:g} s, "
                f"{self.idle_timeout:g} s and {self.max_age:g} s"
            )
        return self


class PartCounts(NamedTuple):
    """Numbers of spans or log records by outcome."""

    kept: int = 0
    duplicate: int = 0
    late: int = 0
    too_large: int = 0


class Added(NamedTuple):
    """The result of one call of `add`. `opened`: its parts started a new trace."""

    spans: PartCounts
    records: PartCounts
    opened: bool


class OpenTraceStatus(NamedTuple):
    """The state of an open trace.

    `due` is when it will be closed if nothing more arrives, on the monotonic clock. `root_ended`: only late parts are
    missing.
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
    """A complete trace. Its holder settles each of its `acks` once.

    `parts` are in order of arrival, spans before log records; empty if the first part was already too large.
    `probability` is the lowest of any part, `received_at` the arrival of the first part in seconds since the epoch.
    `refused` counts the parts that are missing because they were refused.
    """

    trace_id: bytes
    parts: tuple[Part, ...]
    closed: Closed
    app: str
    source: str
    probability: float
    acks: tuple[Ack, ...]
    received_at: float
    refused: tuple[RefusedParts, ...] = ()
