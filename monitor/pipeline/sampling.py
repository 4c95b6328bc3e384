"""Samples cases: the probability of each case for each evaluator is drawn once, stored, counted and learned from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from prometheus_client import Counter

from monitor.clock import Clock
from monitor.model.case import Case, Traffic
from monitor.model.outcome import EvaluationResult, Score, Unscored, result_id
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.introspection import request_notes
from monitor.pipeline.learned import LearnedOrder, Learning
from monitor.pipeline.local_evaluation import skip_reason
from monitor.pipeline.scoring import Scorer, scores_of
from monitor.pipeline.traffic import Quota
from monitor.stages import PastResult, Runtime, SamplingDecision
from monitor.stages.replica_share import ReplicaShare
from monitor.statistics import consistent_sampling
from monitor.statistics.defect_model import inputs
from monitor.statistics.limits import TokenBucket
from monitor.storage.spool.memory import FirstDraws, RecentIds
from monitor.telemetry.metrics import UNKNOWN_APP, Metrics

ALL_OTHERS: Final = "*"
"""Name of the quota of each app that is not named."""

_MOST_APPS = 10_000  # the most recent apps are remembered; the quota of any other app starts over, half full
_HOUR, _DAY = 3600.0, 86400.0
_LEAST = 2.0  # judgements at once: with fewer, a single judgement could cost more than is left


class AppQuota:
    """The rest of one app's quota. Call `room`, then `take`, for each case."""

    def __init__(self, quota: Quota, clock: Clock, share: ReplicaShare) -> None:
        self._clock = clock
        self._group = share
        self._share = share.of_budget
        self._buckets = [
            TokenBucket(most * self._share, clock.monotonic(), period=period, least=_LEAST)
            for most, period in ((quota.per_hour, _HOUR), (quota.per_day, _DAY))
            if most is not None
        ]

    def room(self) -> float:
        """Return the share of its probability that the next case keeps, 0.001 to 1."""
        now, share = self._clock.monotonic(), self._group.of_budget
        for bucket in self._buckets:
            bucket.refill(now)
            if share != self._share:
                bucket.scale(share / self._share)
        self._share = share
        return min(bucket.room for bucket in self._buckets)

    def take(self, probability: float) -> None:
        """Charge a case that was sampled with `probability`."""
        for bucket in self._buckets:
            bucket.take(probability)


class Quotas:
    """The quotas of all apps, by name as in `traffic.quotas`."""

    def __init__(self, quotas: Mapping[str, Quota], clock: Clock, share: ReplicaShare) -> None:
        self._quotas = quotas
        self._clock = clock
        self._share = share
        self._apps: OrderedDict[str, AppQuota] = OrderedDict()

    def bound(self, app: str) -> bool:
        """Return whether the app has a quota."""
        return self._quota(app) is not None

    def of(self, app: str) -> AppQuota | None:
        """Return the rest of the app's quota; None if it has no quota."""
        if not self._quotas:
            return None
        known = self._apps.get(app)
        if known is None:
            quota = self._quota(app)
            if quota is None:
                return None
            known = self._apps[app] = AppQuota(quota, self._clock, self._share)
            if len(self._apps) > _MOST_APPS:
                self._apps.popitem(last=False)
        else:
            self._apps.move_to_end(app)
        return known

    def _quota(self, app: str) -> Quota | None:
        return self._quotas.get(app or UNKNOWN_APP, self._quotas.get(ALL_OTHERS))


_TAUGHT = 1024**2  # bytes for ids of results already learned from: far more than are ever replayed


class CaseSampler:
    """The samplers at work.

    Args:
        versions: the version of each evaluator; a different version is a different instrument, and its cases are drawn
            again.
        draws: stores the first probability of each case, which a repeated case keeps; None if no case can repeat.
        salt: key of the hash that draws. It is the same in all replicas and for all evaluators, so that the cases
            judged at 1 % are among those judged at 10 %.
        quotas: quotas of judgements, by app; `"*"` applies to each app that is not named.
        learned: the order that learns from the results of its teacher; None if there is none.
        raises: whether the probability of a case may be raised because of what is known about it at that time. Then all
            draws are stored, because more may be known when a case is repeated.
    """

    def __init__(
        self,
        evaluators: Sequence[ConfiguredEvaluator],
        *,
        versions: Mapping[str, str],
        draws: FirstDraws | None,
        runtime: Runtime,
        salt: str,
        quotas: Mapping[str, Quota] | None = None,
        raises: bool = False,
        learned: LearnedOrder | None = None,
    ) -> None:
        self._raises = raises
        self._learned = learned
        self._versions = versions
        self._draws = draws
        self._runtime = runtime
        self._salt = salt
        self._samplings = {one.evaluator.name: one.sampler.open(one.evaluator, runtime) for one in evaluators}
        if learned is not None and isinstance(teacher := self._samplings.get(learned.teacher), Learning):
            learned.share(teacher)
        self._series: dict[tuple[str, str], _SamplerSeries] = {}
        self._taught = RecentIds(_TAUGHT)
        self._quotas = Quotas(quotas or {}, runtime.clock, runtime.share)
        self._judged = {one.evaluator.name for one in evaluators if one.evaluator.cost == "judge"}
        self._thinned: dict[tuple[str, str], Counter] = {}

    def prepare(self, app: str) -> None:
        """Create the series of `app` at 0: for every adaptive sampler, and for its quota."""
        for name, sampling in self._samplings.items():
            if sampling.adaptive:
                self._of(app, name)
            if name in self._judged and self._quotas.bound(app):
                self._thinned_of(app, name)

    def draw(
        self, configured: ConfiguredEvaluator, case: Case, local: Mapping[str, Score], *, at_least: float = 0.0
    ) -> SamplingDecision | None:
        """Return the sampling decision if the evaluator chooses `case`, else None.

        A case to which the evaluator does not apply uses no budget or quota. A probability below `at_least` is raised
        to it, unless it is 0 or the app's quota is nearly spent.
        """
        name, missing = configured.evaluator.name, skip_reason(configured.evaluator, case)
        note = request_notes.current()
        decision, room = self._drawn(name, case, local, applies=missing is None, at_least=at_least)
        order = self._order_of(name)
        if order is not None and decision is not None and not decision.inputs:
            decision = replace(decision, inputs=inputs(local, order.measured_by) or ())
        chosen = decision is not None and consistent_sampling.chosen(case.request_id, self._salt, decision.probability)
        if note is not None:
            if note.draw is None:
                note.draw = consistent_sampling.value(case.request_id, self._salt)
            note.drew(name, decision, chosen=chosen, room=room)
            if missing is not None:
                note.add(name, missing=missing.value)
        return decision if chosen else None

    def _drawn(
        self, name: str, case: Case, local: Mapping[str, Score], *, applies: bool, at_least: float
    ) -> tuple[SamplingDecision | None, float]:
        """Draw `case` for the evaluator. Return the decision (or None) and the room left in the app's quota, 0 to 1."""
        sampling = self._samplings[name]
        quota = self._quotas.of(case.app) if applies and name in self._judged else None
        kept_anyway = self._raises and applies and name in self._judged
        if not sampling.adaptive and quota is None and not kept_anyway:
            return sampling.draw(case, local), 1.0
        if not applies:
            return None, 1.0
        key = result_id(case.request_id, name, self._versions[name])
        kept = self._draws.drawn(key) if self._draws is not None else None
        if kept is not None:
            return SamplingDecision(*kept), 1.0
        room = 1.0 if quota is None else quota.room()
        decision = sampling.draw(case, local) if quota is None else self._within(quota, room, name, case, local)
        if 0 < decision.probability < at_least and room == 1 and name in self._judged:
            if quota is not None:
                quota.take(at_least - decision.probability)
            decision = replace(decision, probability=at_least)
        certain = decision.probability == 1 and not sampling.adaptive and quota is None and at_least == 0
        if self._draws is not None and decision.probability > 0 and not certain and not decision.fault:
            self._draws.keep_draw(key, decision.probability, decision.target)
        if sampling.adaptive:
            self._of(case.app, name).add(decision)
        return decision, room

    def _within(
        self, quota: AppQuota, room: float, name: str, case: Case, local: Mapping[str, Score]
    ) -> SamplingDecision:
        """Draw for an app with a quota: its rest decides how many cases are evaluated, the sampler decides which."""
        decision = self._samplings[name].draw(case, local, room)
        if room < 1:
            decision = replace(decision, probability=decision.probability * room, target=decision.target * room)
            self._thinned_of(case.app, name).inc()
        quota.take(decision.probability)
        return decision

    def learn(self, decision: SamplingDecision, case: Case, result: EvaluationResult) -> None:
        """Learn from the result of a sampled case. Only scores of production traffic count.

        An evaluation that failed at no cost, as in an outage of the judge, does not count towards the price: many of
        them would drive the price towards 0, and a budget in dollars would be overspent once the judge answers again.
        """
        sampling, order = self._samplings[result.evaluator], self._order_of(result.evaluator)
        if not sampling.adaptive and order is None:
            return
        counts = isinstance(result.outcome, Score) and case.traffic is Traffic.PRODUCTION
        counts = counts and decision.scope is None
        teaches = counts and self._teaches(result.id)
        if order is not None and teaches and decision.inputs:
            emphasis = decision.target / decision.probability
            order.verdict(case.app, decision.inputs, emphasis, decision.shift, defect=result.defect)
        if not sampling.adaptive:
            return
        if isinstance(result.outcome, Unscored) and not result.cost.dollars:
            return
        sampling.learn(case, decision, defect=result.defect if teaches else None, dollars=result.cost.dollars)
        if counts:
            series = self._of(case.app, result.evaluator)
            if decision.inputs and teaches:
                series.learned.inc()

    def learn_past(self, past: PastResult) -> None:
        """Learn from a result of another process, once, if it has the same version of the same evaluator."""
        sampling, order = self._samplings.get(past.evaluator), self._order_of(past.evaluator)
        if sampling is None or past.version != self._versions[past.evaluator]:
            return
        if not sampling.adaptive and order is None:
            return
        if past.defect is None or not self._teaches(past.result):
            return
        if order is not None:
            order.verdict(past.app, past.inputs, past.emphasis, past.shift, defect=past.defect)
        if not sampling.adaptive:
            return
        sampling.learn_past(past)
        if past.inputs:
            self._of(past.app, past.evaluator).replayed.inc()

    def _order_of(self, evaluator: str) -> LearnedOrder | None:
        """Return the order that this evaluator teaches; None if it teaches none."""
        return self._learned if self._learned is not None and self._learned.teacher == evaluator else None

    def _teaches(self, result: str) -> bool:
        return self._taught.first(result.encode())

    def _thinned_of(self, app: str, evaluator: str) -> Counter:
        label = self._runtime.metrics.app(app)
        counter = self._thinned.get((label, evaluator))
        if counter is None:
            counter = self._thinned[label, evaluator] = self._runtime.metrics.quota_thinned.labels(label, evaluator)
        return counter

    def _of(self, app: str, evaluator: str) -> _SamplerSeries:
        label = self._runtime.metrics.app(app)
        series = self._series.get((label, evaluator))
        if series is None:
            series = self._series[label, evaluator] = _create(self._runtime, label, evaluator)
        return series


async def score_local(scorer: Scorer, case_sampler: CaseSampler, case: Case) -> list[EvaluationResult]:
    """Score `case` with the local evaluators that sample it, as in production, but without sinks."""
    results: list[EvaluationResult] = []
    for one in scorer.evaluators:
        decision = case_sampler.draw(one, case, scores_of(results)) if one.evaluator.cost == "local" else None
        if decision is not None:
            results += await scorer.score(case, [(one, decision)])
            case_sampler.learn(decision, case, results[-1])
    return results


class _SamplerSeries(NamedTuple):
    cases: Counter
    expected: Counter
    target: Counter
    boosted: Counter
    thinned: Counter
    defects: Counter
    learned: Counter
    replayed: Counter

    def add(self, decision: SamplingDecision) -> None:
        self.cases.inc()
        self.expected.inc(decision.probability)
        self.target.inc(decision.target)
        self.boosted.inc(max(decision.probability - decision.target, 0.0))
        self.thinned.inc(decision.thinned)
        self.defects.inc(decision.risk or 0.0)


def _create(runtime: Runtime, app: str, evaluator: str) -> _SamplerSeries:
    metrics: Metrics = runtime.metrics
    return _SamplerSeries(
        metrics.sampling_cases.labels(app, evaluator),
        metrics.sampling_expected.labels(app, evaluator),
        metrics.sampling_target.labels(app, evaluator),
        metrics.sampling_boosted.labels(app, evaluator),
        metrics.sampling_thinned.labels(app, evaluator),
        metrics.sampling_expected_defects.labels(app, evaluator),
        metrics.sampling_learned.labels(app, evaluator),
        metrics.sampling_replayed.labels(app, evaluator),
    )
