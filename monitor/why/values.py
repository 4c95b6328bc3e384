"""What an explanation is made from, and what it is."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from monitor.model.trail import Trail


class Cause(StrEnum):
    """Why there is, or is no, verdict. The closed set: a zero always has one of these."""

    EVALUATED = "evaluated"
    LATE = "late"  # judged, too long after the answer to count
    NON_PRODUCTION = "non_production"  # evaluated, and not production traffic
    NOT_ASKED = "not_asked"  # no such evaluator is configured
    OFF = "off"  # its judge has no model
    DOES_NOT_APPLY = "does_not_apply"  # the case lacks what it needs
    NOT_CHOSEN = "not_chosen"  # its probability was below the trace's value
    REPEATED = "repeated"  # judged already
    SKIPPED = "skipped"  # the evaluator itself said that it does not apply
    UNSCORED = "unscored"  # it applied, was chosen, and came to no verdict
    WAITING = "waiting"  # chosen, and not at its end yet
    OPEN = "open"  # more of the trace is awaited
    SAMPLED_OUT = "sampled_out"
    FILTERED = "filtered"
    NOT_RAG = "not_rag"
    INCOMPLETE = "incomplete"
    CONTENT_MISSING = "content_missing"
    FAILED_REQUEST = "failed_request"
    OWN_TELEMETRY = "own_telemetry"
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    EXPIRED = "expired"
    HANDED_OVER = "handed_over"
    FORGOTTEN = "forgotten"
    NEVER_SEEN = "never_seen"  # nothing is known of the trace
    NOT_RECORDED = "not_recorded"  # it is not kept what becomes of requests, or not since then
    NO_TRACES = "no_traces"  # nothing came in at all


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the way: `what` in a word or two, what happened there, and the setting that would change it."""

    what: str
    text: str
    setting: str = ""
    evaluator: str = ""
    cause: Cause | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole: the steps in their order, and the verdict on them in one sentence.

    `setting` is the one that would change it, with what it would have to be; empty where none would.
    """

    subject: str
    cause: Cause
    conclusion: str
    setting: str = ""
    reason: str = ""
    steps: Sequence[Step] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluating:
    """An evaluator as it is configured.

    `place` is its entry, such as `evaluators[2]`; `judge_place` the section of its judge. `rate` is the share of cases
    that it is to judge, None where that is more than a number; `budget` the key that holds its budget, such as
    `per_hour`. `works` is false where its judge has no model, `watched` whether an alert looks at it.
    """

    name: str
    place: str
    cost: str = "local"
    judge_place: str = "judge"
    judge: Mapping[str, Any] = field(default_factory=dict)
    works: bool = True
    rate: float | None = 1.0
    sampler: str = "uniform"
    budget: str = ""
    watched: bool = True
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """How the monitor is configured, and how far what is kept of it reaches back. Times are seconds.

    `live` says that a running monitor was asked, which knows what is under way; `shared` that other replicas may have
    received a trace. `foreign` are the evaluators that are not ours and may be expected.
    """

    now: float
    evaluators: Sequence[Evaluating]
    head_rate: float = 1.0
    idle_timeout: float = 60.0
    grace_period: float = 10.0
    late_after: float = 900.0
    request_log: float = 86400.0
    results: float = 7 * 86400.0
    live: bool = False
    shared: bool = False
    foreign: Collection[str] = ()

    def evaluator(self, name: str) -> Evaluating | None:
        """The evaluator of this name."""
        return next((one for one in self.evaluators if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Open:
    """A trace that more is awaited of: until when, in wall-clock seconds, and whether its root has ended."""

    app: str
    source: str
    received_at: float
    until: float
    spans: int
    records: int
    root_ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFacts:
    """All that is known of one trace.

    `least_rate` is the lowest rate of head sampling that keeps it, None where its id is none of a trace; `draw` the
    value that evaluators' probabilities are held against, `class_draw` that of the rates of classes. `trails` are those
    that ended, oldest first, `results` its rows in the history. `reaches_back` is when what is kept of requests begins,
    None where nothing is.
    """

    request_id: str
    least_rate: float | None
    draw: float
    class_draw: float = 0.0
    trails: Sequence[Trail] = ()
    results: Sequence[Mapping[str, Any]] = ()
    open: Open | None = None
    under_way: Trail | None = None
    unread: bool = False
    reaches_back: float | None = None


_DIGITS: Final = 4


def at_least(value: float) -> str:
    """A share, 0 <= value <= 1, rounded up, so that it is enough: `at least 0.4124`."""
    return f"at least {_up(value)}"


def above(value: float) -> str:
    """A share that is more than `value`."""
    return f"at least {_up(value, strictly=True)}"


def share(value: float) -> str:
    """A probability as it is written in a configuration: `0.1`, `0.0004123`."""
    return f"{value:.4g}"


def _up(value: float, *, strictly: bool = False) -> str:
    if value >= 1:
        return "1"
    digits = max(_DIGITS, _DIGITS - 1 - math.floor(math.log10(value))) if value > 0 else _DIGITS
    step = 10.0**-digits
    rounded = round(math.ceil(value / step - 1e-9) * step, digits)
    if rounded < value or (strictly and rounded == value):
        rounded = round(rounded + step, digits)
    return f"{min(rounded, 1.0):.{digits}f}".rstrip("0").rstrip(".")


def clock_time(at: float) -> str:
    """`2026-03-01 12:00:07 UTC`."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"


def several(number: int, name: str) -> str:
    """`1 span`, `3 spans`."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"
