"""The state of an evaluator as a pure function of what is known of it: the closed set, its order, the words.

What a person must act upon stands before what passes by itself, and what stops all verdicts before what costs some:
of several states that apply the first in `PRECEDENCE` is told. docs/states.md has the same in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from monitor.judge.pause import Paused
from monitor.model.outcome import UnscoredReason
from monitor.quantities import human_duration


class State(StrEnum):
    """The closed set; the values are the metric label `state`."""

    PAUSED = "paused"
    ERROR = "error"
    OVERLOADED = "overloaded"
    DEGRADED = "degraded"
    NEVER_RUN = "never_run"
    OK = "ok"


WINDOW: Final = 900.0
"""Seconds that are looked back upon."""
ERROR_FROM, ERROR_SHARE = 5, 0.5
"""Judgements without a verdict in the window, at least, and their share of all, for `error`."""
DEGRADED_FROM, DEGRADED_SHARE = 20, 0.1
"""Judgements in the window, at least, and the share of them without a verdict, for `degraded`."""

_TOO_MUCH: Final = (UnscoredReason.OVERLOADED, UnscoredReason.BUDGET)
_NO_FAULT: Final = (*_TOO_MUCH, UnscoredReason.PAUSED, UnscoredReason.SHUTDOWN)
_MEND: Final[Mapping[UnscoredReason, str]] = {
    UnscoredReason.TIMEOUT: "is judge.api_base right, and the model fast enough? Else raise judge.timeout",
    UnscoredReason.RATE_LIMITED: "raise the provider's limit, or set judge.budget.requests_per_minute below it",
    UnscoredReason.PROVIDER_ERROR: "look at the provider's status; `rag-monitor try` shows what it says",
    UnscoredReason.BREAKER_OPEN: "look at the provider's status; calls go on by themselves when it answers",
    UnscoredReason.CONTENT_FILTER: "the provider's filter stops these texts: ask it for another, or judge elsewhere",
    UnscoredReason.REFUSAL: "the model will not judge these texts: take another one for this evaluator",
    UnscoredReason.TRUNCATED: "its replies end too early: take a model that says less",
    UnscoredReason.MALFORMED: "the model does not hold to the form: take one that enforces a JSON schema",
    UnscoredReason.OUT_OF_RANGE: "the model does not hold to the scale: take a stronger one",
    UnscoredReason.TOO_LARGE: "take a model with a larger window, or raise judge.max_characters",
    UnscoredReason.ERROR: "the evaluator itself fails: the log says how, under evaluator_failed",
}

_ELSE: Final = "`docs/runbooks/RagUnscoredHigh.md` says what this reason means"


class Standing(NamedTuple):
    """How an evaluator stands: why, and what to do about it, in a sentence each; nothing to do is empty."""

    state: State
    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one evaluator in this process. Times are wall-clock seconds.

    `scored`, `skipped` and `unscored` are those of the last `WINDOW` seconds; `finished` and `waiting` of all since
    `started_at`, `last` the end of the latest. `off`: its judge has no model. `broken` says why its judge can never
    answer, `held_back` that its judge's breaker is open.
    """

    name: str
    now: float
    started_at: float
    judged: bool = True
    finished: int = 0
    waiting: int = 0
    last: float | None = None
    scored: int = 0
    skipped: int = 0
    unscored: Mapping[UnscoredReason, int] = field(default_factory=dict)
    off: bool = False
    broken: str = ""
    held_back: bool = False
    paused: Paused | None = None

    @property
    def faults(self) -> Mapping[UnscoredReason, int]:
        """Those without a verdict that speak of the judge or the evaluator as they are now."""
        return {reason: number for reason, number in self.unscored.items() if number and reason not in _NO_FAULT}

    @property
    def due(self) -> int:
        """How many should have come to a verdict in the window, those missed in a pause that is over apart."""
        return self.scored + sum(self.unscored.values()) - self.unscored.get(UnscoredReason.PAUSED, 0)


def state_of(facts: Facts) -> Standing:
    """The first state that applies, by `PRECEDENCE`."""
    found = (_RULES[state](facts) for state in PRECEDENCE)
    return next(one for one in found if one is not None)


def _paused(facts: Facts) -> Standing | None:
    if facts.paused is None:
        return None
    one = facts.paused
    missed = f"; {one.missed} judgements were missed so far" if one.missed else ""
    why = f"Its judge is not asked for {human_duration(facts.now - one.since)}: {one.why}{missed}."
    return Standing(State.PAUSED, why, _sentence(one.remedy))


def _error(facts: Facts) -> Standing | None:
    if facts.broken:
        remedy = "Mend that, and start the monitor anew."
        return Standing(State.ERROR, f"Its judge cannot work: {facts.broken}.", remedy)
    if facts.held_back:
        why = "Half or more of the calls to its judge have failed; it is probed every 15 seconds until it answers."
        return Standing(State.ERROR, why, _remedy(facts.faults) or _sentence(_MEND[UnscoredReason.BREAKER_OPEN]))
    failed = sum(facts.faults.values())
    if failed < ERROR_FROM or failed < ERROR_SHARE * facts.due:
        return None
    return Standing(State.ERROR, _missing(facts, facts.faults), _remedy(facts.faults))


def _overloaded(facts: Facts) -> Standing | None:
    full, unpaid = (facts.unscored.get(reason, 0) for reason in _TOO_MUCH)
    if full:
        why = f"More is due than its judge takes: its queue was full, {full} were given up in the last {_WINDOW}."
        remedy = "Lower its sample or sampling.traces, or raise judge.max_concurrency and what the provider allows."
        return Standing(State.OVERLOADED, why, remedy)
    if unpaid:
        why = f"The budget of its judge is spent: {unpaid} judgements were left out in the last {_WINDOW}."
        remedy = "Raise judge.budget, or lower its sample; `rag-monitor plan` reckons both."
        return Standing(State.OVERLOADED, why, remedy)
    return None


def _degraded(facts: Facts) -> Standing | None:
    failed = sum(facts.faults.values())
    if facts.due < DEGRADED_FROM or failed < DEGRADED_SHARE * facts.due:
        return None
    return Standing(State.DEGRADED, _missing(facts, facts.faults), _remedy(facts.faults))


def _never_run(facts: Facts) -> Standing | None:
    if facts.off:
        return Standing(State.NEVER_RUN, "It is off: its judge has no model.", "Set judge.model, or leave it out.")
    if facts.finished or facts.waiting:
        return None
    why = f"No answer has come to it since the start {human_duration(facts.now - facts.started_at)} ago."
    return Standing(State.NEVER_RUN, why, f"`rag-monitor why --evaluator {facts.name}` says where they end instead.")


def _ok(facts: Facts) -> Standing:
    missed = facts.unscored.get(UnscoredReason.PAUSED, 0)
    told = f" {missed} were missed in a pause that is over." if missed else ""
    remedy = "`rag-monitor backfill --missed` judges them now." if missed else ""
    if facts.scored:
        apart = f", and {failed} came to no verdict" if (failed := sum(facts.faults.values())) else ""
        return Standing(State.OK, f"It judged {facts.scored} in the last {_WINDOW}{apart}.{told}", remedy)
    if facts.skipped:
        why = f"None of {facts.skipped} answers in the last {_WINDOW} has what it judges."
        return Standing(State.OK, f"{why}{told}", remedy)
    if facts.waiting:
        return Standing(State.OK, f"{facts.waiting} are being judged; none ended in the last {_WINDOW}.{told}", remedy)
    since = f"; the latest ended {human_duration(facts.now - facts.last)} ago" if facts.last is not None else ""
    return Standing(State.OK, f"Nothing was due in the last {_WINDOW}{since}.{told}", remedy)


PRECEDENCE: Final = (State.PAUSED, State.ERROR, State.OVERLOADED, State.DEGRADED, State.NEVER_RUN, State.OK)
_RULES: Final[Mapping[State, Callable[[Facts], Standing | None]]] = {
    State.PAUSED: _paused,
    State.ERROR: _error,
    State.OVERLOADED: _overloaded,
    State.DEGRADED: _degraded,
    State.NEVER_RUN: _never_run,
    State.OK: _ok,
}
_WINDOW: Final = f"{WINDOW / 60:.0f} minutes"


def _missing(facts: Facts, faults: Mapping[UnscoredReason, int]) -> str:
    listed = sorted(faults.items(), key=lambda one: (-one[1], one[0]))
    told = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in listed)
    return f"{sum(faults.values())} of {facts.due} judgements in the last {_WINDOW} came to no verdict: {told}."


def _remedy(faults: Mapping[UnscoredReason, int]) -> str:
    most = max(faults, key=lambda reason: faults[reason], default=None)
    return _sentence(_MEND.get(most, _ELSE)) if most is not None else ""


def _sentence(text: str) -> str:
    """With a capital and a full stop, save where it begins with a name in the configuration's words."""
    if not text:
        return ""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"
