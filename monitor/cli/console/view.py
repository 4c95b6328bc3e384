"""A snapshot of a running monitor for display: rates, alerts, the worst answers, the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "no alert", "not enough data", "warning", "critical"]
"""`no alert`: none is configured for this rate."""
Severity: TypeAlias = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """One evaluator on one app. Rates are shares, 0 to 1; None if nothing was judged.

    `trend` has the defect rate of consecutive short intervals, oldest first, None for an interval without a score.
    `threshold` is that of the lowest configured severity. `since_start` is the rate since the monitor was started and
    the number of judged answers behind it, if it differs from the shown one.
    """

    evaluator: str
    app: str
    rate: float | None
    lower: float | None
    upper: float | None
    judged: int
    trend: Sequence[float | None] = ()
    state: State = "ok"
    threshold: float | None = None
    since_start: tuple[float, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """A firing alert. `lower` is the limit compared with `threshold`; `window` and `firing_for` are in seconds."""

    name: str
    severity: Severity
    evaluator: str
    app: str
    rate: float
    lower: float
    threshold: float
    window: float
    firing_for: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstAnswer:
    """One defective answer. `unsupported` are offsets into `answer`, end exclusive."""

    evaluator: str
    app: str
    question: str
    answer: str
    score: float
    explanation: str
    unsupported: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleView:
    """Everything shown at one moment. `elapsed` is in seconds since the start; `phase` says what is happening.

    `window` is the number of seconds that the rates cover, None for everything since the start. `ledger` maps outcomes
    to numbers of traces, `received` first; `contexts` maps apps to the share of answers with each context status;
    `addresses` maps names to addresses, in display order. `notes` are plain lines.
    """

    elapsed: float
    phase: str
    window: float | None = 60.0
    rates: Sequence[RateRow] = ()
    alerts: Sequence[AlertRow] = ()
    worst: Sequence[WorstAnswer] = ()
    ledger: Mapping[str, int] = field(default_factory=dict)
    contexts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    addresses: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
