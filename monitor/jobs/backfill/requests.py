"""Evaluating one request of the queue: what is still due of it is scored, delivered, and removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import anyio.to_thread

from monitor.jobs.backfill.context import BackfillContext
from monitor.jobs.backfill.series import BackfillSeries
from monitor.jobs.backfill.store import BackfillQueue, Waiting
from monitor.model.outcome import EvaluationResult, Score, Skipped, UnscoredReason, result_id
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import Scorer
from monitor.stages import Runtime, SamplingDecision
from monitor.telemetry.events import Event

T = TypeVar("T")

_MAX_ATTEMPTS: Final = 5
_PAUSE: Final = 10.0  # seconds

HOLDS: Final[Mapping[UnscoredReason, float]] = {
    UnscoredReason.PAUSED: 5.0,
    UnscoredReason.AUTH: 30.0,
    UnscoredReason.BUDGET: 60.0,
    UnscoredReason.BREAKER_OPEN: 15.0,
    UnscoredReason.SHUTDOWN: 15.0,
}
"""Failures of the judge, not of the case: the judge gets no call for so many seconds, and the item goes on waiting."""

PASSING: Final = frozenset({UnscoredReason.TIMEOUT, UnscoredReason.RATE_LIMITED, UnscoredReason.PROVIDER_ERROR})
"""Failures that may pass soon: the item is retried after `_PAUSE` seconds, with `_MAX_ATTEMPTS` attempts in all."""


class BackfillEvaluator:
    """Evaluates requests, and knows which judges get no calls at present."""

    def __init__(
        self, store: BackfillQueue, series: BackfillSeries, context: BackfillContext, runtime: Runtime
    ) -> None:
        self._store = store
        self._series = series
        self._context = context
        self._runtime = runtime
        self._assignments = {one.evaluator.name: one for one in context.evaluators}
        self._held: dict[str, float] = {}
        self._why: dict[str, str] = {}

    def askable(self) -> list[str]:
        """The evaluators whose judges may get calls now."""
        now = self._runtime.clock.monotonic()
        return [name for name, one in self._assignments.items() if self._held.get(self._lane(one), now) <= now]

    @property
    def held_for(self) -> Mapping[str, str]:
        """Why judges get no calls at present, by their names."""
        now = self._runtime.clock.monotonic()
        return {judge: why for judge, why in self._why.items() if self._held.get(judge, now) > now}

    async def judge(self, waiting: Sequence[Waiting], scorer: Scorer) -> None:
        """Evaluate all that is due of one request, except what has a result by now. Raises `MonitorError`."""
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
                due.setdefault(self._lane(self._assignments[one.group.evaluator]), []).append(one)
        for lane, those in due.items():
            await self._at_judge(lane, those, scorer)

    async def _at_judge(self, lane: str, waiting: Sequence[Waiting], scorer: Scorer) -> None:
        due = [(one, one.item) for one in waiting if one.item is not None]
        items = {one.group.evaluator: one for one, _ in due}
        chosen = {
            one.group.evaluator: (
                self._assignments[one.group.evaluator],
                SamplingDecision(item.probability, item.target),
            )
            for one, item in due
        }

        async def settle(judged: EvaluationResult) -> None:
            await self._settle(items[judged.evaluator], judged)

        async with self._context.turn(lane) if lane != _LOCAL else nullcontext():
            await scorer.score(due[-1][1].case, list(chosen.values()), each=settle)

    async def _settle(self, one: Waiting, judged: EvaluationResult) -> None:
        """Deliver the result of an item and remove it, or leave it for a retry."""
        outcome = judged.outcome
        lane = self._lane(self._assignments[judged.evaluator])
        if not isinstance(outcome, Score | Skipped):
            if outcome.reason in HOLDS:
                self._hold(lane, HOLDS[outcome.reason], outcome.reason, outcome.detail)
                return
            if outcome.reason in PASSING and one.tries + 1 < _MAX_ATTEMPTS:
                await _blocking(partial(self._store.again, one.id))
                self._hold(lane, _PAUSE, outcome.reason, outcome.detail)
                return
        await self._context.deliver(replace(judged, origin=one.group.source))
        if isinstance(outcome, Score):
            await self._end(one, "defect" if judged.defect else "passed", judged.weight)
        else:
            await self._end(one, "skipped" if isinstance(outcome, Skipped) else "unscored")

    async def _end(self, one: Waiting, outcome: str, weight: float | None = None) -> None:
        if await _blocking(partial(self._store.finish, one.id, outcome, self._runtime.clock.now())):
            self._series.ended(one.group, outcome, weight=weight)

    def _hold(self, lane: str, seconds: float, reason: str, detail: str) -> None:
        self._held[lane] = self._runtime.clock.monotonic() + seconds
        if self._why.get(lane) != reason:
            message = f"backfill waits: {detail or reason}"
            self._runtime.events.warning(Event.BACKFILL_WAITS, message, judge=lane, reason=reason)
        self._why[lane] = reason

    def _id(self, one: Waiting) -> str:
        """The id of the result that this process would give, by its current version of the evaluator."""
        request_id = one.item.case.request_id if one.item is not None else one.request_id
        return result_id(request_id, one.group.evaluator, self._context.versions[one.group.evaluator])

    @staticmethod
    def _lane(assignment: ConfiguredEvaluator) -> str:
        return assignment.judge if assignment.evaluator.cost == "judge" else _LOCAL


_LOCAL: Final = "\0local"


async def _blocking(call: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(call)
