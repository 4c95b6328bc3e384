"""Explains the results of a trace or of an evaluator, or why there are none: facts in, sentences out.

This file defines facts and explanations. reasons (a sentence and a setting for each way to end) -> decision (one
evaluator on one case) -> trace (one trace) | evaluator (one evaluator over a period of time)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from monitor.model.request_log import RequestRecord, Sum


class Cause(StrEnum):
    """Why there is a score or none. A closed set: an evaluator without scores always has one of these causes."""

    EVALUATED = "evaluated"
    LATE = "late"  # scored, too long after the answer to count
    NON_PRODUCTION = "non_production"  # scored, but not production traffic
    NOT_ASKED = "not_asked"  # no such evaluator is configured
    OFF = "off"  # its judge has no model
    DOES_NOT_APPLY = "does_not_apply"  # the case lacks what it needs
    NOT_CHOSEN = "not_chosen"  # its sampling left the case out
    REPEATED = "repeated"  # evaluated before
    SKIPPED = "skipped"  # the evaluator itself found that it does not apply
    UNSCORED = "unscored"  # selected, but it produced no score
    WAITING = "waiting"  # selected, but not finished
    OPEN = "open"  # more of the trace is expected
    SAMPLED_OUT = "sampled_out"
    FILTERED = "filtered"
    NO_REQUEST = "no_request"
    INCOMPLETE = "incomplete"
    CONTENT_MISSING = "content_missing"
    FAILED_REQUEST = "failed_request"
    OWN_TELEMETRY = "own_telemetry"
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    TOO_MANY = "too_many"
    EXPIRED = "expired"
    POISON = "poison"
    HANDED_OVER = "handed_over"
    FORGOTTEN = "forgotten"
    NEVER_SEEN = "never_seen"  # nothing is known of the trace
    NOT_RECORDED = "not_recorded"  # request logging is off, or began later
    NO_TRACES = "no_traces"  # nothing arrived at all


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    """One step of an explanation: `what` in a word or two, what happened, and the setting that would change it.

    `cause` and `reason` are set on a step that was final.
    """

    what: str
    text: str
    setting: str = ""
    evaluator: str = ""
    cause: Cause | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The steps in their order, and the conclusion in one sentence.

    `setting` is the one setting that would change the outcome, with the value it needs; empty if there is none.
    `requests` are the explanations of each request, if a trace contains several.
    """

    subject: str
    cause: Cause
    conclusion: str
    setting: str = ""
    reason: str = ""
    steps: Sequence[ExplanationStep] = ()
    requests: Sequence[Explanation] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSetup:
    """An evaluator as it is configured.

    `place` is its entry, such as `evaluators[2]`; `judge_place` is the section of its judge. `rate` is its sampling
    rate, None if its sampler has no fixed rate; `budget` is the option with its budget, such as `per_hour`. `works` is
    False if its judge has no model or is missing a package. `watched`: an alert is configured for it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSetup:
    """How the monitor is configured. Times are seconds.

    `request_log` is how far back requests are logged, 0 if they are not. `live`: a running monitor was asked, which
    knows the requests in progress. `shared`: other replicas may have received a trace. `external` are the names under
    which external scores may arrive.
    """

    evaluators: Sequence[EvaluatorSetup]
    head_rate: float = 1.0
    idle_timeout: float = 60.0
    grace_period: float = 10.0
    late_after: float = 900.0
    request_log: float = 86400.0
    live: bool = False
    shared: bool = False
    external: Collection[str] = ()

    def evaluator(self, name: str) -> EvaluatorSetup | None:
        """Return the evaluator of this name."""
        return next((one for one in self.evaluators if one.name == name), None)


@dataclass(frozen=True, slots=True)
class OpenTrace:
    """An open trace, which waits for more parts until the wall-clock second `until`."""

    app: str
    source: str
    received_at: float
    until: float
    spans: int
    records: int
    root_ended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFacts:
    """All known facts about one trace, or about one of several requests in it.

    `least_rate` is the lowest head sampling rate that keeps it, None if its id is not a trace id. `draw` is the value
    that evaluators' probabilities are compared with, `class_draw` the value for the rates of traffic classes.
    `recorded` are its requests in the request log, oldest first; `in_progress` is a request that has not ended.
    `results` are its rows in the history. `unread`: it is complete and waits to be extracted. `reaches_back` is when
    the request log begins, None if there is none.
    """

    request_id: str
    least_rate: float | None
    draw: float
    class_draw: float = 0.0
    recorded: Sequence[RequestRecord] = ()
    results: Sequence[Mapping[str, Any]] = ()
    open: OpenTrace | None = None
    in_progress: RequestRecord | None = None
    unread: bool = False
    reaches_back: float | None = None
    of_several: bool = False
    """Whether it is one request of several in a trace or row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalScores:
    """External scores of one name over a period of time, as far as the history has them.

    `source` is a `ScoreSource`, empty if unknown. `numbers` counts those that are `defect`, `passed` and `unscored`.
    `newest` is the wall-clock second of the latest one at any time, None if there is none.
    """

    source: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    newest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorFacts:
    """The facts about an evaluator between two wall-clock seconds.

    `waiting` is the number of selected cases without an outcome, `pending` the number of requests that have not ended;
    both are None if no running monitor was asked. `unscored` is its newest result without a score. `reaches_back` is
    when `sums` begin. `external` is set for external scores.
    """

    name: str
    since: float
    until: float
    app: str = ""
    sums: Sequence[Sum] = ()
    waiting: int | None = None
    pending: int | None = None
    unscored: Mapping[str, Any] | None = None
    reaches_back: float | None = None
    external: ExternalScores | None = None


_DIGITS: Final = 4


def at_least(value: float) -> str:
    """Format a share, 0 to 1, rounded up so that it is enough: `at least 0.4124`."""
    return f"at least {_up(value)}"


def above(value: float) -> str:
    """Format a share that is strictly greater than `value`, in the same form."""
    return f"at least {_up(value, strictly=True)}"


def share(value: float) -> str:
    """Format a probability as in a configuration: `0.1`, `0.0004123`."""
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
    """Format a wall-clock time: `2026-03-01 12:00:07 UTC`."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
