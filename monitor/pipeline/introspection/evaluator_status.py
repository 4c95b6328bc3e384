"""The status of each evaluator: one state from a closed set, why it is in that state, and what to do about it.

`status_of` derives the status from the facts about an evaluator. `StatusTracker` gathers these facts in this process,
for the web UI, the API, the metric and the terminal alike. docs/states.md has the same rules in a table.

If several states apply, an evaluator is in the first of them in `PRECEDENCE`: states that need a person come before
those that pass by themselves, and states that stop all scores before those that cost some.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, Protocol

from monitor.clock import Clock
from monitor.judge.pause import Pause, Paused
from monitor.judge.setup import REDIRECTED, UNREACHABLE
from monitor.model.outcome import EvaluationResult, RateScope, Score, Skipped, Unscored, UnscoredReason
from monitor.quantities import human_duration, number_of
from monitor.telemetry.metrics import Metrics, samples

WINDOW: Final = 900.0
"""The time window for results, in seconds."""
ERROR_FROM, ERROR_SHARE = 5, 0.5
"""For `error`: the minimum number of evaluations without a score in the window, and their minimum share of all."""
DEGRADED_FROM, DEGRADED_SHARE = 20, 0.1
"""For `degraded`: the minimum number of evaluations in the window, and the minimum share of them without a score."""

_WINDOW: Final = f"{WINDOW / 60:.0f} minutes"
_STEP: Final = 15.0  # seconds of results that are counted together
_FRESH: Final = 1.0  # seconds for which a status is reused: a scrape asks once for each evaluator and state


class State(StrEnum):
    """The closed set of states. The values are also the values of the metric label `state`."""

    PAUSED = "paused"
    ERROR = "error"
    OVERLOADED = "overloaded"
    DEGRADED = "degraded"
    NEVER_RUN = "never_run"
    OK = "ok"


PRECEDENCE: Final = (State.PAUSED, State.ERROR, State.OVERLOADED, State.DEGRADED, State.NEVER_RUN, State.OK)


class EvaluatorStatus(NamedTuple):
    """The state of an evaluator, why it is in that state, and what to do about it; `remedy` may be empty."""

    state: State
    why: str
    remedy: str = ""


_OVERLOAD: Final = (UnscoredReason.OVERLOADED, UnscoredReason.BUDGET)
_OF_A_CALL: Final = (
    UnscoredReason.TIMEOUT,
    UnscoredReason.RATE_LIMITED,
    UnscoredReason.PROVIDER_ERROR,
    UnscoredReason.AUTH,
    UnscoredReason.BREAKER_OPEN,
)
_NOT_A_FAULT: Final = (*_OVERLOAD, UnscoredReason.PAUSED, UnscoredReason.SHUTDOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFacts:
    """The facts about one evaluator in this process. Times are wall-clock seconds.

    `scored`, `skipped` and `unscored` count the last `WINDOW` seconds; `finished` and `waiting` everything since
    `started_at`; `last` is the end of the latest evaluation. `off` says why it cannot run at all, `broken` why its
    judge can never answer. `held_back`: its judge's circuit breaker is open; `held_back_by` is the first error that
    opened it, and `asked_to_wait` says until when the provider asked us to wait, if it did. `latest` is the error of
    the newest failed call in the window.
    """

    name: str
    now: float
    started_at: float
    finished: int = 0
    waiting: int = 0
    last: float | None = None
    scored: int = 0
    skipped: int = 0
    unscored: Mapping[UnscoredReason, int] = field(default_factory=dict)
    off: str = ""
    broken: str = ""
    held_back: bool = False
    held_back_by: str = ""
    asked_to_wait: str = ""
    latest: str = ""
    paused: Paused | None = None

    @property
    def faults(self) -> Mapping[UnscoredReason, int]:
        """Evaluations without a score that indicate a problem of the judge or the evaluator, by reason."""
        return {reason: number for reason, number in self.unscored.items() if number and reason not in _NOT_A_FAULT}

    @property
    def due(self) -> int:
        """Evaluations in the window that should have produced a score, excluding those missed in a pause."""
        return self.scored + sum(self.unscored.values()) - self.unscored.get(UnscoredReason.PAUSED, 0)


def status_of(facts: StatusFacts) -> EvaluatorStatus:
    """Return the first state of `PRECEDENCE` that applies."""
    found = (_RULES[state](facts) for state in PRECEDENCE)
    return next(one for one in found if one is not None)


def _paused(facts: StatusFacts) -> EvaluatorStatus | None:
    if facts.paused is None:
        return None
    one = facts.paused
    missed = f" Missed so far: {number_of(one.missed, 'evaluation')}." if one.missed else ""
    why = f"Its judge has been paused for {human_duration(facts.now - one.since)}: {one.why}.{missed}"
    return EvaluatorStatus(State.PAUSED, why, _sentence(one.remedy))


def _error(facts: StatusFacts) -> EvaluatorStatus | None:
    if facts.broken:
        why = f"Its judge cannot work: {facts.broken}."
        return EvaluatorStatus(State.ERROR, why, "Fix this and restart the monitor.")
    if facts.held_back and facts.asked_to_wait:
        met = f" The error: {facts.held_back_by}." if facts.held_back_by else ""
        why = f"Its judge is not called: {facts.asked_to_wait}.{met}"
        remedy = (
            "Check the provider's status and limits. Calls resume by themselves; a restart of the monitor tries one."
        )
        return EvaluatorStatus(State.ERROR, why, remedy)
    if facts.held_back:
        first = f"; the first: {facts.held_back_by}" if facts.held_back_by else ""
        why = f"Calls to its judge are held back after failures{first}. It is probed every 15 seconds until it answers."
        remedy = _remedy(facts) or _sentence(_REMEDIES[UnscoredReason.BREAKER_OPEN])
        return EvaluatorStatus(State.ERROR, why, remedy)
    failed = sum(facts.faults.values())
    if failed < ERROR_FROM or failed < ERROR_SHARE * facts.due:
        return None
    return EvaluatorStatus(State.ERROR, _without_score(facts), _remedy(facts))


def _overloaded(facts: StatusFacts) -> EvaluatorStatus | None:
    full, unpaid = (facts.unscored.get(reason, 0) for reason in _OVERLOAD)
    if full:
        given_up = number_of(full, "evaluation")
        why = f"Its judge cannot keep up: its queue was full, and it gave up {given_up} in the last {_WINDOW}."
        remedy = "Lower its sample or sampling.traces, or raise judge.max_concurrency and the provider's limits."
        return EvaluatorStatus(State.OVERLOADED, why, remedy)
    if unpaid:
        left_out = number_of(unpaid, "evaluation")
        why = f"The judge's budget is spent, or too small for one call: it left out {left_out} in the last {_WINDOW}."
        remedy = "Raise judge.budget, or lower its sample. `rag-monitor plan` estimates both."
        return EvaluatorStatus(State.OVERLOADED, why, remedy)
    return None


def _degraded(facts: StatusFacts) -> EvaluatorStatus | None:
    failed = sum(facts.faults.values())
    if facts.due < DEGRADED_FROM or failed < DEGRADED_SHARE * facts.due:
        return None
    return EvaluatorStatus(State.DEGRADED, _without_score(facts), _remedy(facts))


def _never_run(facts: StatusFacts) -> EvaluatorStatus | None:
    if facts.off:
        return EvaluatorStatus(State.NEVER_RUN, f"It is off: {facts.off}.", "Set that up, or remove the evaluator.")
    if facts.finished or facts.waiting:
        return None
    why = f"No answer has reached it since the start {human_duration(facts.now - facts.started_at)} ago."
    remedy = f"`rag-monitor why --evaluator {facts.name}` shows where they end instead."
    return EvaluatorStatus(State.NEVER_RUN, why, remedy)


def _ok(facts: StatusFacts) -> EvaluatorStatus:
    missed = facts.unscored.get(UnscoredReason.PAUSED, 0)
    failed = sum(facts.faults.values())
    if facts.scored:
        unscored = f"; {failed} produced no score" if failed else ""
        why = f"It scored {number_of(facts.scored, 'answer')} in the last {_WINDOW}{unscored}."
    elif facts.skipped:
        why = f"It skipped all {number_of(facts.skipped, 'answer')} in the last {_WINDOW} (not applicable)."
    elif facts.waiting:
        why = f"{number_of(facts.waiting, 'answer')} being evaluated; none has finished in the last {_WINDOW}."
    else:
        since = f"; the latest finished {human_duration(facts.now - facts.last)} ago" if facts.last is not None else ""
        why = f"Nothing was due in the last {_WINDOW}{since}."
    if not missed:
        return EvaluatorStatus(State.OK, why)
    remedy = "`rag-monitor backfill --missed` evaluates them now."
    return EvaluatorStatus(State.OK, f"{why} {number_of(missed, 'evaluation')} missed in a pause that is over.", remedy)


_RULES: Final[Mapping[State, Callable[[StatusFacts], EvaluatorStatus | None]]] = {
    State.PAUSED: _paused,
    State.ERROR: _error,
    State.OVERLOADED: _overloaded,
    State.DEGRADED: _degraded,
    State.NEVER_RUN: _never_run,
    State.OK: _ok,
}

_REMEDIES: Final[Mapping[UnscoredReason, str]] = {
    UnscoredReason.TIMEOUT: "check judge.api_base and how fast the model is, or raise judge.timeout",
    UnscoredReason.RATE_LIMITED: "raise the provider's limit, or set judge.budget.requests_per_minute below it",
    UnscoredReason.PROVIDER_ERROR: "check the provider's status; `rag-monitor try` shows what it replies",
    UnscoredReason.BREAKER_OPEN: "check the provider's status; calls resume by themselves once it answers",
    UnscoredReason.CONTENT_FILTER: "the provider's content filter blocks these texts: relax it, or use another judge",
    UnscoredReason.REFUSAL: "the model refuses to evaluate these texts: use another model for this evaluator",
    UnscoredReason.TRUNCATED: "the model's replies are cut off: use a model with shorter replies",
    UnscoredReason.MALFORMED: "the model does not follow the response format: use one that enforces a JSON schema",
    UnscoredReason.OUT_OF_RANGE: "the model does not keep to the scale: use a stronger one",
    UnscoredReason.TOO_LARGE: "use a model with a larger context window, or raise judge.max_characters",
    UnscoredReason.ERROR: "the evaluator itself fails: see `evaluator_failed` in the log",
}
_OTHER_REMEDY: Final = "`docs/runbooks/RagUnscoredHigh.md` explains this reason"


def _without_score(facts: StatusFacts) -> str:
    listed = sorted(facts.faults.items(), key=lambda one: (-one[1], one[0]))
    reasons = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in listed)
    failed = sum(facts.faults.values())
    latest = f" The latest: {facts.latest}." if facts.latest else ""
    due = number_of(facts.due, "evaluation")
    return f"{failed:,} of {due} in the last {_WINDOW} produced no score: {reasons}.{latest}"


def _remedy(facts: StatusFacts) -> str:
    met = facts.held_back_by or facts.latest
    if UNREACHABLE in met:
        return _sentence("check judge.api_base, and that something listens there that this machine can reach")
    if REDIRECTED in met:
        return _sentence("set judge.api_base to the final address")
    faults = facts.faults
    most = max(faults, key=lambda reason: faults[reason], default=None)
    return _sentence(_REMEDIES.get(most, _OTHER_REMEDY)) if most is not None else ""


def _sentence(text: str) -> str:
    """Return the text with a capital letter and a full stop."""
    if not text:
        return ""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"


class JudgeHealth(Protocol):
    """The state of a judge, as far as it is read here."""

    pause: Pause
    fault: str
    """Why it can never answer; empty if it can."""

    @property
    def held_back(self) -> bool:
        """Whether its circuit breaker is open."""
        ...

    @property
    def held_back_by(self) -> str:
        """The error of the first of the failed calls that opened it; empty while it is closed."""
        ...

    @property
    def asked_to_wait(self) -> str:
        """The provider's request to wait that opened it, and when the next call is due; empty if there was none."""
        ...


class TrackedEvaluator(NamedTuple):
    """An evaluator, the name of its judge (None if it asks none), and why it cannot run (empty if it can)."""

    name: str
    judge: str | None
    off: str = ""


class _Results:
    """Counts the results of one evaluator."""

    def __init__(self) -> None:
        self.finished = 0
        self.last: float | None = None
        self._latest: tuple[float, str] = (-math.inf, "")
        self._steps: deque[tuple[int, Counter[str]]] = deque()

    def add(self, at: float, outcome: str, met: str = "") -> None:
        self.finished += 1
        if met:
            self._latest = (at, met)
        self.last = max(at, self.last or at)
        step = math.floor(at / _STEP)
        if not self._steps or self._steps[-1][0] < step:
            self._forget(at)  # here too, because nobody may ask for the status
            self._steps.append((step, Counter()))
        self._steps[-1][1][outcome] += 1  # a late result counts with the newest

    def within(self, now: float) -> Counter[str]:
        self._forget(now)
        return sum((counts for _, counts in self._steps), Counter())

    def _forget(self, now: float) -> None:
        while self._steps and (self._steps[0][0] + 1) * _STEP <= now - WINDOW:
            self._steps.popleft()
        while self._steps and self._steps[-1][0] * _STEP > now + WINDOW:  # the clock was ahead for a while
            self._steps.pop()

    def met(self, now: float) -> str:
        at, what = self._latest
        return what if at > now - WINDOW else ""


class StatusTracker:
    """Tracks the status of all configured evaluators, including those that are off.

    `judges`, by name, may be filled until the first status is read.
    """

    def __init__(
        self, evaluators: Sequence[TrackedEvaluator], judges: Mapping[str, JudgeHealth], clock: Clock, metrics: Metrics
    ) -> None:
        self._evaluators = evaluators
        self._judges = judges
        self._clock = clock
        self._metrics = metrics
        self._began = clock.now()
        self._results = {one.name: _Results() for one in evaluators}
        self._read_at = -math.inf
        self._found: dict[str, EvaluatorStatus] = {}
        for one in evaluators:
            for state in State:
                metrics.evaluator_state.labels(one.name, state.value).set_function(partial(self._is, one.name, state))

    def on_result(self, result: EvaluationResult) -> None:
        """Count a result, unless it comes from a backfill, which says nothing about the current state."""
        results = self._results.get(result.evaluator)
        if results is None or result.scope is RateScope.BACKFILL:
            return
        outcome = result.outcome
        kind = "scored" if isinstance(outcome, Score) else "skipped" if isinstance(outcome, Skipped) else outcome.reason
        # Only errors of a call: an evaluator's message about a reply could quote the reply.
        met = outcome.detail if isinstance(outcome, Unscored) and outcome.reason in _OF_A_CALL else ""
        results.add(result.evaluated_at, str(kind), met)

    def current(self) -> Mapping[str, EvaluatorStatus]:
        """Return the status of each evaluator, by name."""
        at = self._clock.monotonic()
        if not self._read_at <= at < self._read_at + _FRESH:
            waiting = self._waiting()
            self._found = {one.name: status_of(self._facts(one, waiting)) for one in self._evaluators}
            self._read_at = at
        return self._found

    def pauses(self) -> Iterator[tuple[str, str]]:
        """Yield each evaluator that asks a judge, with why the judge is paused and what to do; empty if it is not."""
        for one in self._evaluators:
            if one.judge is not None and not one.off:
                found = self.current()[one.name]
                yield one.name, f"{found.why} {found.remedy}" if found.state is State.PAUSED else ""

    def _is(self, name: str, state: State) -> float:
        return float(self.current()[name].state is state)

    def _facts(self, one: TrackedEvaluator, waiting: Mapping[str, int]) -> StatusFacts:
        results, now = self._results[one.name], self._clock.now()
        counts = results.within(now)
        judge = self._judges.get(one.judge) if one.judge is not None else None
        return StatusFacts(
            name=one.name,
            now=now,
            started_at=self._began,
            finished=results.finished,
            waiting=waiting.get(one.name, 0),
            last=results.last,
            scored=counts["scored"],
            skipped=counts["skipped"],
            unscored={reason: counts[reason.value] for reason in UnscoredReason if counts[reason.value]},
            off=one.off,
            broken=judge.fault if judge is not None else "",
            held_back=judge.held_back if judge is not None else False,
            held_back_by=judge.held_back_by if judge is not None else "",
            asked_to_wait=judge.asked_to_wait if judge is not None else "",
            latest=results.met(now),
            paused=judge.pause.now if judge is not None else None,
        )

    def _waiting(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for labels, number in samples(self._metrics.evaluations_pending):
            found[labels["evaluator"]] += int(number)
        return found
