"""Scoring in the live pipeline: which evaluators score a case, when they get a turn at the judge, where results go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias

import anyio

from monitor.model.case import Case
from monitor.model.outcome import (
    Cost,
    EvaluationResult,
    Outcome,
    RateScope,
    RecheckOutcome,
    Score,
    Unscored,
    UnscoredReason,
)
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.fair_queue import LATE, FairQueue, QueueClient
from monitor.pipeline.introspection import request_notes
from monitor.pipeline.local_evaluation import LocalOutcome, skip_reason
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.pipeline.publish import Publisher
from monitor.pipeline.sampling import CaseSampler
from monitor.pipeline.scoring import Chosen, Scorer, scores_of
from monitor.pipeline.severe import SevereCases
from monitor.stages import PastResult, Runtime, SamplingDecision
from monitor.statistics import consistent_sampling
from monitor.telemetry.metrics import Metrics

LocalOutcomes: TypeAlias = Callable[[str], Awaitable[LocalOutcome]]
"""Returns the outcome of a local evaluator on one case, by the evaluator's name."""

_NO_SCORES: Final[Mapping[str, Score]] = MappingProxyType({})


def _stays() -> bool:
    """Return False: no other process evaluates the case."""
    return False


class Rechecks:
    """Repeats a share of the judged evaluations and counts how often the scores agree. Never changes a score.

    `share` is the share to repeat, 0 to 1, by judge; `salt` is the key of the hash that selects cases.
    """

    def __init__(self, scorer: Scorer, share: Mapping[str, float], *, salt: str, metrics: Metrics) -> None:
        self._scorer = scorer
        self._share = share
        self._salt = salt
        self._counters = {
            (one.evaluator.name, agreement): metrics.judge_rechecks.labels(one.evaluator.name, agreement.value)
            for one in scorer.evaluators
            for agreement in RecheckOutcome
            if one.evaluator.cost == "judge"
        }

    async def check(
        self, one: ConfiguredEvaluator, how: SamplingDecision, case: Case, first: EvaluationResult
    ) -> EvaluationResult:
        """Repeat the evaluation of `case` if selected; return `first`, which is a score, with the outcome added."""
        if not consistent_sampling.chosen(case.request_id, f"{self._salt}/repeat", self._share.get(one.judge, 0.0)):
            return first
        (second,) = await self._scorer.score(case, [(one, how)], repeat=1)
        agreement = RecheckOutcome.UNSCORED
        if isinstance(second.outcome, Score):
            agreement = RecheckOutcome.SAME if second.defect == first.defect else RecheckOutcome.OTHER
        self._counters[one.evaluator.name, agreement].inc()
        return replace(first, recheck=agreement, cost=first.cost.with_another(second.cost))


class LiveEvaluation:
    """Samples cases for the evaluators of `scorer`, has them scored, counts the results and publishes them.

    Local evaluators run immediately. Judged evaluators wait for a turn in `queue`; if the queue gives a case up, the
    result is `unscored{overloaded}`, so a slow judge delays neither local evaluators nor receivers.

    `severe` judges severe answers again; None: no alert requires it. `missed` is called with each result that is
    `unscored{paused}`; it is quick and never raises.
    """

    def __init__(
        self,
        scorer: Scorer,
        case_sampler: CaseSampler,
        queue: FairQueue,
        publisher: Publisher,
        counting: ResultMetrics,
        *,
        rechecks: Rechecks,
        severe: SevereCases | None = None,
        runtime: Runtime,
        missed: Callable[[ConfiguredEvaluator, Case, EvaluationResult], None] = lambda _one, _case, _judged: None,
    ) -> None:
        self._scorer = scorer
        self._case_sampler = case_sampler
        self._queue = queue
        self._publisher = publisher
        self._counting = counting
        self._rechecks = rechecks
        self._severe = severe
        self._clock = runtime.clock
        self._tracer = runtime.tracer
        self._missed = missed
        local = (one for one in scorer.evaluators if one.evaluator.cost == "local")
        self._local = sorted(local, key=lambda one: bool(one.evaluator.rescores))  # after those that they rescore
        self._judged = [one for one in scorer.evaluators if one.evaluator.cost == "judge"]
        for one in scorer.evaluators:
            version = scorer.versions[one.evaluator.name]
            counting.declare(one.evaluator, one.defect, version, alert_rules=one.alert_rules)

    def prepare(self, app: str) -> None:
        """Create all series of `app` at 0 before its first result; `increase()` misses a series that starts at 1."""
        self._counting.prepare(app)
        if self._severe is not None:
            self._severe.prepare(app)
        self._case_sampler.prepare(app)

    def on_past_result(self, past: PastResult, *, delivered: bool) -> None:
        """Let the samplers learn from a result of an earlier process or another replica, once.

        `delivered`: the result is stored where all replicas read it, so the case is not evaluated again if it arrives
        here after the other replica has ended. This includes the rest of a trace whose first messages are before the
        committed offset.
        """
        if delivered:
            self._publisher.remember([past.result])
        self._case_sampler.learn_past(past)

    async def score_local(self, case: Case, outcome: LocalOutcomes | None = None) -> list[EvaluationResult]:
        """Score `case` with every local evaluator that samples it, in order. The caller delivers the results.

        Each may be sampled by the scores of earlier ones. `outcome` returns the outcome of an evaluator, by its name;
        by default it is run here. All results are counted together at the end, because an interrupted case is evaluated
        again.
        """
        results: list[EvaluationResult] = []
        chosen: list[Chosen] = []
        for one in self._local:
            how = self._draw(one, case, scores_of(results))
            if how is not None:
                self._counting.selected(case.app, one.evaluator.name)
                known = LocalOutcome(found) if (found := _rescored(one, results)) is not None else None
                if known is None and outcome is not None and not how.fault:
                    known = await outcome(one.evaluator.name)
                results.append(await self._scorer.local(one, case, how, known))
                chosen.append((one, how))
        return [self._finish(one, how, case, result) for (one, how), result in zip(chosen, results, strict=True)]

    async def ready(self) -> None:
        """Wait while results cannot be published."""
        await self._publisher.ready()

    async def deliver(self, results: Sequence[EvaluationResult]) -> None:
        """Publish `results`; return when the history has them."""
        await self._publisher.all(results)

    def choose(self, case: Case, local: Mapping[str, Score] = _NO_SCORES, at_least: float = 0.0) -> list[Chosen]:
        """Return the judged evaluators that sample `case`; `local` are the scores of the local evaluators.

        `at_least` is as in `CaseSampler.draw`.
        """
        decision = ((one, self._draw(one, case, local, at_least)) for one in self._judged)
        return [(one, how) for one, how in decision if how is not None]

    def not_chosen(self, case: Case, chosen: Sequence[Chosen]) -> tuple[ConfiguredEvaluator, ...]:
        """Return the judged evaluators that apply to `case` but are not among `chosen`."""
        names = {one.evaluator.name for one, _ in chosen}
        left = (one for one in self._judged if one.evaluator.name not in names)
        return tuple(one for one in left if skip_reason(one.evaluator, case) is None)

    async def score_judged(self, case: Case, chosen: Sequence[Chosen], given_up: Callable[[], bool] = _stays) -> None:
        """Score `case` with `chosen` in parallel; return when the history has the results.

        `given_up` is called at each judge's turn. If it returns True, another process evaluates the case: the
        evaluations due at that judge are counted as skipped, `handed_over`, and have no result here.
        """
        for one, _ in chosen:
            self._counting.selected(case.app, one.evaluator.name)
        async with anyio.create_task_group() as side_by_side:
            for judge in dict.fromkeys(one.judge for one, _ in chosen):
                theirs = [(one, how) for one, how in chosen if one.judge == judge]
                side_by_side.start_soon(self._at_judge, judge, case, theirs, given_up)

    async def score_disliked(self, case: Case, evaluators: Sequence[ConfiguredEvaluator]) -> None:
        """Like `score_judged`, for a case selected only by a user's thumbs-down: its results are separate."""
        how = SamplingDecision(1.0, 1.0, scope=RateScope.USER_DISLIKED)
        new = [one for one in evaluators if not self._publisher.has(self._scorer.result_id(one, case))]
        await self.score_judged(case, [(one, how) for one in new])

    def _draw(
        self, one: ConfiguredEvaluator, case: Case, local: Mapping[str, Score], at_least: float = 0.0
    ) -> SamplingDecision | None:
        """Return the sampling decision if the case is chosen and has no result yet."""
        how = self._case_sampler.draw(one, case, local, at_least=at_least)
        if how is None or not self._publisher.has(self._scorer.result_id(one, case)):
            return how
        if (note := request_notes.current()) is not None:
            note.add(one.evaluator.name, chosen=False, repeated=True)
        return None

    async def _at_judge(self, judge: str, case: Case, chosen: Sequence[Chosen], given_up: Callable[[], bool]) -> None:
        """Score with all of `chosen`, which use `judge`, in one turn, because one call may serve several."""
        began, note = self._clock.monotonic(), request_notes.current()
        client = QueueClient(case.app, LATE if self._scorer.is_late(case) else case.traffic)
        chosen_by_name = {one.evaluator.name: (one, how) for one, how in chosen}

        async def finish(result: EvaluationResult) -> None:
            one, how = chosen_by_name[result.evaluator]
            if self._severe is not None:
                result = await self._severe.check(case, result)
            asked = result.cost.asked or result.cost.cached  # else it was scored by rule
            if asked and isinstance(result.outcome, Score):
                result = await self._rechecks.check(one, how, case, result)
            result = self._finish(one, how, case, result)
            await self._publisher.one(result)
            if self._severe is not None:
                await self._severe.settle(case, result)

        async with AsyncExitStack() as turn:
            with self._tracer.part("wait for the judge"):
                granted = await turn.enter_async_context(self._queue.turn(judge, client, case.text_length))
            if given_up():
                self._hand_over(case, chosen_by_name)
                return
            if granted:
                if note is not None:
                    note.admitted(chosen_by_name, self._clock.monotonic() - began)
                await self._scorer.score(case, chosen, began=began, each=finish)
                return
        for one, how in chosen:
            full = Unscored(UnscoredReason.OVERLOADED, "the queue in front of the judge is full")
            await finish(self._scorer.result(one, case, full, how, Cost()))

    def _hand_over(self, case: Case, evaluators: Iterable[str]) -> None:
        """End evaluations, by the evaluators' names, that another replica performs."""
        for name in evaluators:
            self._counting.handed_over(case.app, name)
            if (note := request_notes.current()) is not None:
                note.handed_over(name)

    def _finish(
        self, one: ConfiguredEvaluator, how: SamplingDecision, case: Case, result: EvaluationResult
    ) -> EvaluationResult:
        """Return the result as it was counted."""
        result = self._counting.finished(result, result.cost.seconds)
        self._case_sampler.learn(how, case, result)
        if isinstance(result.outcome, Unscored) and result.outcome.reason is UnscoredReason.PAUSED:
            self._missed(one, case, result)
        if (note := request_notes.current()) is not None:
            note.finished(result)
        return result


def _rescored(one: ConfiguredEvaluator, results: Sequence[EvaluationResult]) -> Outcome | None:
    """Return the outcome that `one` rescores, if it is among `results`."""
    return next((other.outcome for other in results if other.evaluator == one.evaluator.rescores), None)
