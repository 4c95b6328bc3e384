"""Evaluates requests of the backfill queue: scores, delivers, counts and removes the items that are still due."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import anyio.to_thread

from monitor.errors import ConfigError
from monitor.jobs.backfill.store import DONE, BackfillGroup, BackfillQueue, Waiting
from monitor.judge.budget import tariff
from monitor.judge.pause import Pause
from monitor.judge.settings import Budget, JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, RateScope, Score, Skipped, UnscoredReason, result_id
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import Scorer, open_scorer
from monitor.stages import Runtime, SamplingDecision
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics, total


class BackfillSeries:
    """Counts by app, evaluator and source; all series of a group exist, at 0, from its first item on.

    Each step changes both sides of the balance at once, on the event loop.
    """

    def __init__(self, metrics: Metrics, versions: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._versions = versions
        self._prepared: set[tuple[str, str, str]] = set()
        self.pending: Counter[BackfillGroup] = Counter()
        """The number of requested items that have not ended."""

    def asked(self, groups: Mapping[BackfillGroup, int]) -> None:
        """Count requested items."""
        for group, number in groups.items():
            labels = self._labels(group)
            self.pending[group] += number
            self._metrics.backfill_requested.labels(*labels).inc(number)
            self._metrics.backfill_pending.labels(*labels).inc(number)

    def ended(self, group: BackfillGroup, outcome: str, *, number: int = 1, weight: float | None = None) -> None:
        """Count items that ended with `outcome`, one of `store.DONE`; `weight` belongs to a single scored item."""
        labels = app, evaluator, source = self._labels(group)
        whole = (app, evaluator, self._versions[evaluator], source, outcome)
        self.pending[group] -= number
        self._metrics.backfill_pending.labels(*labels).dec(number)
        self._metrics.backfill_evaluations.labels(*whole).inc(number)
        if weight is not None:
            self._metrics.backfill_weight.labels(*whole).inc(weight)
            self._metrics.backfill_weight_squares.labels(*whole).inc(weight**2)

    def missed(self, groups: Iterable[BackfillGroup], outcome: str) -> None:
        """Count missed evaluations that were `kept`, `dropped` or `expired`."""
        for group in groups:
            self._metrics.backfill_missed.labels(self._metrics.app(group.app), group.evaluator, outcome).inc()

    def _labels(self, group: BackfillGroup) -> tuple[str, str, str]:
        metrics = self._metrics
        labels = metrics.app(group.app), group.evaluator, group.source
        if labels not in self._prepared:
            self._prepared.add(labels)
            app, evaluator, source = labels
            for outcome in DONE:
                metrics.backfill_evaluations.labels(app, evaluator, self._versions[evaluator], source, outcome)
            for family in (metrics.backfill_weight, metrics.backfill_weight_squares):
                for outcome in ("defect", "passed"):
                    family.labels(app, evaluator, self._versions[evaluator], source, outcome)
        return labels


_SILENT: Final = frozenset({Event.JUDGE_READY, Event.JUDGE_BUDGET_SPENT})  # the worker reports these in its own words


class _BackfillEvents(Events):
    """Logs events as usual, but counts them in metrics that are not scraped: no alert mistakes them for live ones."""

    def _emit(self, level: int, event: Event, message: str, fields: dict[str, object]) -> None:
        if event not in _SILENT:
            super()._emit(level, event, message, {**fields, "during": "backfill"})


class BackfillScorer(NamedTuple):
    """A scorer for backfill, and the metrics that its judges count in."""

    scorer: Scorer
    metrics: Metrics

    @property
    def paid(self) -> float:
        """US dollars that the judges' calls have cost so far."""
        return total(self.metrics.judge_cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillContext:
    """The parts of the process that backfill uses.

    `evaluators` are those that can work, `versions` their versions in this process, `judges` the settings of all judges
    by name. `deliver` hands a result to the sinks; `known` returns the ids of results that already have a score; `turn`
    waits until no live evaluation wants the judge of that name. `pauses` are those of the live judges, by name.
    `forgets` says whether a case is to be forgotten. `slices` and `topic` are as in `Scorer`.
    """

    evaluators: Sequence[ConfiguredEvaluator]
    judges: Mapping[str, JudgeSettings]
    versions: Mapping[str, str]
    deliver: Callable[[EvaluationResult], Awaitable[None]]
    known: Callable[[Collection[str]], Awaitable[set[str]]]
    turn: Callable[[str], AbstractAsyncContextManager[object]]
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    forgets: Callable[[Case], bool] = lambda _case: False
    slices: Sequence[str] = ()
    topic: Callable[[Case], str] | None = None

    def check(self, budget: Budget) -> None:
        """Raise `ConfigError` if `budget` is in dollars and a judge's model has no known price. May block."""
        for name in dict.fromkeys(one.judge for one in self.evaluators if one.evaluator.cost == "judge"):
            try:
                tariff(self.judges[name].model_copy(update={"budget": budget}))
            except ConfigError as error:
                raise ConfigError(f"backfill.budget: {error}") from None

    @asynccontextmanager
    async def open_scorer(self, budget: Budget, runtime: Runtime) -> AsyncIterator[BackfillScorer]:
        """Open judges under `budget` for the life of the context; they share the pauses of the live ones.

        Raises `ConfigError` if a judge cannot work.
        """
        metrics, clock, share = Metrics(), runtime.clock, runtime.share
        lent = Runtime(
            clock=clock,
            metrics=metrics,
            events=_BackfillEvents(metrics),
            health=Health(),
            share=share,
            kept=runtime.kept.part("backfill, "),
        )
        opening = open_scorer(
            self.evaluators,
            {name: settings.model_copy(update={"budget": budget}) for name, settings in self.judges.items()},
            runtime=lent,
            slices=self.slices,
            topic=self.topic,
            scope=RateScope.BACKFILL,
            pauses=self.pauses,
        )
        async with opening as scorer:
            yield BackfillScorer(scorer, metrics)


_MAX_ATTEMPTS: Final = 5
_PAUSE: Final = 10.0  # seconds
_LOCAL: Final = "\0local"  # the lane of evaluators without a judge

HOLDS: Final[Mapping[UnscoredReason, float]] = {
    UnscoredReason.PAUSED: 5.0,
    UnscoredReason.AUTH: 30.0,
    UnscoredReason.BUDGET: 60.0,
    UnscoredReason.BREAKER_OPEN: 15.0,
    UnscoredReason.SHUTDOWN: 15.0,
}
"""Failures of the judge, not of the case: the judge gets no call for this many seconds, and the item keeps waiting."""

PASSING: Final = frozenset({UnscoredReason.TIMEOUT, UnscoredReason.RATE_LIMITED, UnscoredReason.PROVIDER_ERROR})
"""Failures that may pass soon: the item is retried after `_PAUSE` seconds, with `_MAX_ATTEMPTS` attempts in all."""


class BackfillEvaluator:
    """Evaluates requests, and tracks which judges get no calls at present."""

    def __init__(
        self, store: BackfillQueue, series: BackfillSeries, context: BackfillContext, runtime: Runtime
    ) -> None:
        self._store = store
        self._series = series
        self._context = context
        self._runtime = runtime
        self._evaluators = {one.evaluator.name: one for one in context.evaluators}
        self._held: dict[str, float] = {}
        self._why: dict[str, str] = {}

    def askable(self) -> list[str]:
        """Return the evaluators with a judge that accepts calls now."""
        now = self._runtime.clock.monotonic()
        return [name for name, one in self._evaluators.items() if self._held.get(self._lane(one), now) <= now]

    @property
    def held_for(self) -> Mapping[str, str]:
        """The reasons why judges get no calls at present, by judge name."""
        now = self._runtime.clock.monotonic()
        return {judge: why for judge, why in self._why.items() if self._held.get(judge, now) > now}

    async def judge(self, waiting: Sequence[Waiting], scorer: Scorer) -> None:
        """Evaluate all due items of one request, except those with a result by now. Raises `MonitorError`."""
        ids = {one.id: self._id(one) for one in waiting if one.item is not None}
        known = await self._context.known(set(ids.values()))
        due: dict[str, list[Waiting]] = {}
        for one in waiting:
            if one.item is None:
                await self._end(one, "expired")
            elif ids[one.id] in known:
                await self._end(one, "known")
            elif self._context.forgets(one.item.case):
                await self._end(one, "forgotten")
            else:
                due.setdefault(self._lane(self._evaluators[one.group.evaluator]), []).append(one)
        for lane, those in due.items():
            await self._at_judge(lane, those, scorer)

    async def _at_judge(self, lane: str, waiting: Sequence[Waiting], scorer: Scorer) -> None:
        due = [(one, one.item) for one in waiting if one.item is not None]
        items = {one.group.evaluator: one for one, _ in due}
        chosen = {
            one.group.evaluator: (
                self._evaluators[one.group.evaluator],
                SamplingDecision(item.probability, item.target),
            )
            for one, item in due
        }

        async def settle(result: EvaluationResult) -> None:
            await self._settle(items[result.evaluator], result)

        async with self._context.turn(lane) if lane != _LOCAL else nullcontext():
            await scorer.score(due[-1][1].case, list(chosen.values()), each=settle)

    async def _settle(self, one: Waiting, result: EvaluationResult) -> None:
        """Deliver the result of an item and remove it, or leave it for a retry."""
        outcome = result.outcome
        lane = self._lane(self._evaluators[result.evaluator])
        if not isinstance(outcome, Score | Skipped):
            if outcome.reason in HOLDS:
                self._hold(lane, HOLDS[outcome.reason], outcome.reason, outcome.detail)
                return
            if outcome.reason in PASSING and one.tries + 1 < _MAX_ATTEMPTS:
                await anyio.to_thread.run_sync(self._store.again, one.id)
                self._hold(lane, _PAUSE, outcome.reason, outcome.detail)
                return
        await self._context.deliver(replace(result, origin=one.group.source))
        if isinstance(outcome, Score):
            await self._end(one, "defect" if result.defect else "passed", result.weight)
        else:
            await self._end(one, "skipped" if isinstance(outcome, Skipped) else "unscored")

    async def _end(self, one: Waiting, outcome: str, weight: float | None = None) -> None:
        if await anyio.to_thread.run_sync(self._store.finish, one.id, outcome, self._runtime.clock.now()):
            self._series.ended(one.group, outcome, weight=weight)

    def _hold(self, lane: str, seconds: float, reason: str, detail: str) -> None:
        self._held[lane] = self._runtime.clock.monotonic() + seconds
        if self._why.get(lane) != reason:
            message = f"backfill waits: {detail or reason}"
            self._runtime.events.warning(Event.BACKFILL_WAITS, message, judge=lane, reason=reason)
        self._why[lane] = reason

    def _id(self, one: Waiting) -> str:
        """Return the id that the result would have with this process's current version of the evaluator."""
        request_id = one.item.case.request_id if one.item is not None else one.request_id
        return result_id(request_id, one.group.evaluator, self._context.versions[one.group.evaluator])

    @staticmethod
    def _lane(configured: ConfiguredEvaluator) -> str:
        return configured.judge if configured.evaluator.cost == "judge" else _LOCAL
