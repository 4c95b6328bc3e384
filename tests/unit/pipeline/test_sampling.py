"""Drawing: one hash for all evaluators, one probability for each case, and what is counted of it."""

from __future__ import annotations

from typing import ClassVar

import pytest
from pydantic import PrivateAttr

from monitor.errors import JudgeError
from monitor.model.case import Traffic
from monitor.model.outcome import Cost, UnscoredReason
from monitor.samplers.boosted import Boosted
from monitor.samplers.budget import BudgetSampler
from monitor.samplers.uniform import Uniform
from monitor.stages import Sampler, SamplingDecision
from tests.support.evaluators import FakeJudge, case, run_local
from tests.support.sampling import UNSUPPORTED, SamplingBench, answered

pytestmark = pytest.mark.anyio


async def test_the_local_scores_reach_the_sampler_that_boosts_by_them():
    bench = SamplingBench(Boosted(per_day=1e5, slope=1.2))
    await bench.run(answered(1))
    await bench.run(answered(2, UNSUPPORTED))
    (good, _), (bad, _) = bench.draws.kept.values()
    assert bad > 2 * good


async def test_a_case_that_comes_again_after_a_restart_keeps_its_probability_and_its_fate():
    first = SamplingBench(BudgetSampler(per_day=1e5))
    outcomes = {number: await first.run(answered(number)) for number in range(60)}
    again = SamplingBench(BudgetSampler(per_day=10), draws=first.draws)
    assert {number: await again.run(answered(number)) for number in range(60)} == outcomes
    assert again.total("sampling_cases_total") == 0
    assert {result.weight for result in again.results} == {result.weight for result in first.results}
    anew = SamplingBench(BudgetSampler(per_day=10))
    assert {number: await anew.run(answered(number)) for number in range(60)} != outcomes


async def test_what_a_small_budget_judges_is_among_what_a_large_rate_judges():
    small, large = SamplingBench(BudgetSampler(per_day=1e5)), SamplingBench(Uniform(rate=0.6))
    for number in range(100):
        in_small, in_large = await small.run(answered(number)), await large.run(answered(number))
        assert in_large or not in_small
    assert 0 < len(small.results) < len(large.results)


async def test_a_result_weighs_the_inverse_of_all_probabilities_it_had():
    bench = SamplingBench(BudgetSampler(per_day=1e5))
    for number in range(40):
        chance = await bench.run(answered(number, probability=0.5))
        if chance:
            assert bench.results[-1].weight == pytest.approx(1 / (0.5 * chance))
    judged = bench.results[-1].evaluator
    largest = max(one.weight for one in bench.results)
    assert bench.total("evaluation_weight_max", evaluator=judged) == pytest.approx(largest)
    bench.runtime.clock.advance(601)
    assert bench.total("evaluation_weight_max", evaluator=judged) == 0


async def test_what_the_budget_is_spent_on_is_counted():
    bench = SamplingBench(Boosted(per_day=1e5, slope=1.2))
    bench.evaluation.prepare("shop")
    assert bench.total("sampling_cases_total", app="shop") == 0
    for number in range(50):
        await bench.run(answered(number, UNSUPPORTED if number % 5 == 0 else "The library opens at nine."))
    known = list(bench.draws.kept.values())
    assert bench.total("sampling_cases_total") == 50
    assert bench.total("sampling_expected_total") == pytest.approx(sum(chance for chance, _ in known))
    assert bench.total("sampling_target_total") == pytest.approx(sum(target for _, target in known))
    above = sum(max(chance - target, 0) for chance, target in known)
    assert bench.total("sampling_boosted_total") == pytest.approx(above)
    assert above > 0
    assert bench.total("sampling_expected_defects_total") > 0
    assert bench.total("sampling_learned_results_total") == len(bench.results) > 0


async def test_an_evaluator_without_a_budget_has_none_of_these_series():
    bench = SamplingBench(Uniform(rate=0.5))
    bench.evaluation.prepare("shop")
    await bench.run(answered(1))
    assert not [sample for family in bench.runtime.metrics.sampling_cases.collect() for sample in family.samples]


async def test_a_case_without_what_the_evaluator_needs_takes_no_part_of_the_budget():
    bench = SamplingBench(BudgetSampler(per_day=1e6))
    assert await bench.run(case(context="")) is None
    assert bench.total("sampling_cases_total") == 0


async def labels_after(bench, *cases):
    for one in cases:
        await bench.run(one)
    return bench.sampling().learners.of("shop").labels


async def test_verdicts_teach_and_failures_do_not():
    cases = [answered(number) for number in range(80)]
    lucky = await labels_after(SamplingBench(Boosted(per_day=1e6, max_per_hour=1e6)), *cases)
    failing = FakeJudge(error=JudgeError(UnscoredReason.TIMEOUT, "no"))
    assert lucky > 0
    assert await labels_after(SamplingBench(Boosted(per_day=1e6, max_per_hour=1e6), judge=failing), *cases) == 0


async def test_traffic_that_is_not_production_teaches_nothing():
    cases = [answered(number, traffic=Traffic.SYNTHETIC) for number in range(80)]
    bench = SamplingBench(Boosted(per_day=1e6, max_per_hour=1e6))
    assert await labels_after(bench, *cases) == 0
    assert bench.results


async def test_the_attributes_that_raise_the_odds_are_seen_when_the_verdict_comes():
    bench, seen = SamplingBench(Boosted(per_day=1e6, max_per_hour=1e6, odds={"feedback=down": 9.0})), []
    sampling = bench.sampling()
    original = sampling.learn

    def watched(one, drawn, **more):
        seen.append(dict(one.attributes))
        original(one, drawn, **more)

    sampling.learn = watched
    for number in range(40):
        await bench.run(answered(number, attributes={"feedback": "down"}))
    assert seen
    assert all(one == {"feedback": "down"} for one in seen)


async def test_a_verdict_is_learned_with_the_inputs_of_its_draw():
    bench = SamplingBench(Boosted(per_day=1e6, max_per_hour=1e6, slope=1.2), judge=FakeJudge(score=1))
    other = answered(1000, UNSUPPORTED)
    local = await run_local(bench.evaluation, other)
    before = bench.sampling().draw(other, local).risk
    for number in range(60):
        await bench.run(answered(number, UNSUPPORTED))
    assert bench.sampling().draw(other, local).risk > before > 0.03


class Prices(Sampler):
    """Draws every case and keeps what evaluations cost."""

    adaptive: ClassVar[bool] = True
    _told: list[float] = PrivateAttr(default_factory=list)

    def open(self, evaluator, runtime):
        return self

    def draw(self, case, local, part=1.0):
        return SamplingDecision(1.0, 1.0)

    def learn(self, case, decision, *, defect, dollars):
        self._told.append(dollars)

    def learn_past(self, past):
        pass


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        (FakeJudge(4), [0.25]),
        (FakeJudge(error=JudgeError(UnscoredReason.MALFORMED, "prose", Cost("", 0.5, attempts=2))), [0.5]),
        (FakeJudge(error=JudgeError(UnscoredReason.PAUSED, "no key")), []),
        (FakeJudge(error=JudgeError(UnscoredReason.PROVIDER_ERROR, "HTTP 500", Cost(attempts=3))), []),
    ],
)
async def test_a_sampler_learns_what_was_paid_and_no_price_from_what_failed_for_nothing(judge, told):
    sampler = Prices()
    await SamplingBench(sampler, judge=judge).run(answered(1))
    assert sampler._told == told


async def test_a_budget_in_dollars_is_the_same_after_an_outage_of_the_judge():
    """Evaluations that fail for nothing do not make it believe that evaluations are cheap."""
    sampler = BudgetSampler(dollars_per_day=1e4, dollars_per_evaluation=0.25)
    bench = SamplingBench(sampler, judge=FakeJudge(error=JudgeError(UnscoredReason.BREAKER_OPEN, "down")))
    limit = bench.total("sampling_bucket_limit_evaluations")
    assert limit > 0
    for number in range(300):
        bench.runtime.clock.advance(60)
        await bench.run(answered(number))
    assert bench.total("sampling_cases_total") == 300
    assert bench.total("unscored_total") > 20
    assert bench.total("sampling_bucket_limit_evaluations") == limit


async def test_a_budget_in_dollars_falls_with_replies_that_are_paid_for_and_cannot_be_used():
    sampler = BudgetSampler(dollars_per_day=1e4, dollars_per_evaluation=0.25)
    prose = JudgeError(UnscoredReason.MALFORMED, "prose", Cost("", 1.0, attempts=2))
    bench = SamplingBench(sampler, judge=FakeJudge(error=prose))
    limit = bench.total("sampling_bucket_limit_evaluations")
    for number in range(600):
        bench.runtime.clock.advance(60)
        await bench.run(answered(number))
    assert bench.total("sampling_bucket_limit_evaluations") < limit / 2
