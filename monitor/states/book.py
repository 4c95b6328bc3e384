"""What is known of each evaluator in this process, gathered, and its state whenever somebody asks."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from monitor.clock import Clock
from monitor.judge.pause import Pause
from monitor.model.outcome import Judged, Score, Skipped, UnscoredReason
from monitor.model.outcome import Standing as Counted
from monitor.states.state import WINDOW, Facts, Standing, State, state_of
from monitor.telemetry.metrics import Metrics, samples

_STEP: Final = 15.0  # seconds of results that are counted together
_FRESH: Final = 1.0  # seconds for which a look is good: a scrape asks for each evaluator and state


class AskedJudge(Protocol):
    """What is read of a judge."""

    pause: Pause
    fault: str
    """Why it can never answer; empty where it can."""

    @property
    def held_back(self) -> bool:
        """Whether its breaker is open."""
        ...


class Known(NamedTuple):
    """An evaluator: the name of its judge, None where it asks none, and whether that judge has no model."""

    name: str
    judge: str | None
    off: bool = False


class _Past:
    """The results of one evaluator."""

    def __init__(self) -> None:
        self.finished = 0
        self.last: float | None = None
        self._steps: deque[tuple[int, Counter[str]]] = deque()

    def add(self, at: float, outcome: str) -> None:
        self.finished += 1
        self.last = max(at, self.last or at)
        step = math.floor(at / _STEP)
        if not self._steps or self._steps[-1][0] < step:
            self._steps.append((step, Counter()))
        self._steps[-1][1][outcome] += 1  # one that comes late counts with the newest

    def within(self, now: float) -> Counter[str]:
        while self._steps and (self._steps[0][0] + 1) * _STEP <= now - WINDOW:
            self._steps.popleft()
        return sum((counts for _, counts in self._steps), Counter())


class States:
    """The states of all evaluators, those that are off among them.

    Args:
        judges: by name; filled until the first look.
    """

    def __init__(
        self, evaluators: Sequence[Known], judges: Mapping[str, AskedJudge], clock: Clock, metrics: Metrics
    ) -> None:
        self._evaluators = evaluators
        self._judges = judges
        self._clock = clock
        self._metrics = metrics
        self._began = clock.now()
        self._past = {one.name: _Past() for one in evaluators}
        self._looked = -math.inf
        self._found: dict[str, Standing] = {}
        for one in evaluators:
            for state in State:
                metrics.evaluator_state.labels(one.name, state.value).set_function(partial(self._is, one.name, state))

    def saw(self, judged: Judged) -> None:
        """A result came about. One that somebody asked for afterwards says nothing of now."""
        past = self._past.get(judged.evaluator)
        if past is None or judged.standing is Counted.BACKFILL:
            return
        outcome = judged.outcome
        kind = "scored" if isinstance(outcome, Score) else "skipped" if isinstance(outcome, Skipped) else outcome.reason
        past.add(judged.judged_at, str(kind))

    def now(self) -> Mapping[str, Standing]:
        """How each evaluator stands, by its name."""
        at = self._clock.monotonic()
        if not self._looked <= at < self._looked + _FRESH:
            waiting = self._waiting()
            self._found = {one.name: state_of(self._facts(one, waiting)) for one in self._evaluators}
            self._looked = at
        return self._found

    def paused(self) -> Iterator[tuple[str, str]]:
        """Each evaluator that asks a judge, and why that is paused, in a sentence with what to do; empty if not."""
        for one in self._evaluators:
            if one.judge is not None and not one.off:
                found = self.now()[one.name]
                yield one.name, f"{found.why} {found.remedy}" if found.state is State.PAUSED else ""

    def _is(self, name: str, state: State) -> float:
        return float(self.now()[name].state is state)

    def _facts(self, one: Known, waiting: Mapping[str, int]) -> Facts:
        past, now = self._past[one.name], self._clock.now()
        counts = past.within(now)
        judge = self._judges.get(one.judge) if one.judge is not None else None
        return Facts(
            name=one.name,
            now=now,
            started_at=self._began,
            finished=past.finished,
            waiting=waiting.get(one.name, 0),
            last=past.last,
            scored=counts["scored"],
            skipped=counts["skipped"],
            unscored={reason: counts[reason.value] for reason in UnscoredReason if counts[reason.value]},
            off=one.off,
            broken=judge.fault if judge is not None else "",
            held_back=judge.held_back if judge is not None else False,
            paused=judge.pause.now if judge is not None else None,
        )

    def _waiting(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for labels, number in samples(self._metrics.evaluations_pending):
            found[labels["evaluator"]] += int(number)
        return found
