"""What a sampler learns from past results of other processes, and which part of a group's budget it spends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.clock import ManualClock
from monitor.model.outcome import Score
from monitor.samplers.boosted import Boosted
from monitor.samplers.budget import BudgetSampler
from monitor.stages import PastResult, Runtime, SamplingDecision
from monitor.stages.replica_share import ReplicaShare
from tests.support.rubrics import shipped
from tests.support.runtime import runtime
from tests.support.sampled import BAD, GOOD, case, local

ODDS = {"feedback=down": 5.0}


def lived(sampling, runs: int = 120) -> list[PastResult]:
    """Cases that the sampler draws and learns from; the same as past results."""
    past_results = []
    for number in range(runs):
        attributes = {"feedback": "down"} if number % 7 == 0 else {}
        bad = number % 3 == 0
        one = case(BAD if bad else GOOD, number, attributes=attributes)
        drawn = sampling.draw(one, local(BAD if bad else GOOD))
        sampling.learn(one, drawn, defect=bad, dollars=0.01)
        past_results.append(
            PastResult(
                result=f"{number:032x}",
                app="shop",
                evaluator="groundedness",
                version="1",
                inputs=drawn.inputs,
                shift=drawn.shift,
                emphasis=drawn.target / drawn.probability,
                defect=bad,
                dollars=0.01,
            )
        )
    return past_results


def belief(sampling) -> tuple[list[float], list[list[list[float]]], int]:
    learner = sampling.learners.of("shop")
    return learner.coefficients, [one.covariance for one in learner.filters], learner.labels


def test_a_sampler_that_heard_all_lessons_believes_what_the_one_does_that_lived_through_them() -> None:
    options = Boosted(per_day=24_000, odds=ODDS)
    first, second = options.open(shipped("groundedness"), runtime()), options.open(shipped("groundedness"), runtime())
    for past in lived(first):
        second.learn_past(past)
    assert belief(second) == belief(first)
    assert belief(first)[2] == 120


def test_in_another_order_it_believes_nearly_the_same() -> None:
    options = Boosted(per_day=24_000, odds=ODDS)
    first, second = options.open(shipped("groundedness"), runtime()), options.open(shipped("groundedness"), runtime())
    for past in reversed(lived(first)):
        second.learn_past(past)
    for mine, other in zip(belief(first)[0], belief(second)[0], strict=True):
        assert mine == pytest.approx(other, abs=0.15)


@pytest.mark.parametrize("inputs", [(), (0.5,) * 8, (0.5,) * 10, (1e6,) * 9])
def test_a_lesson_of_another_shape_teaches_nothing(inputs: tuple[float, ...]) -> None:
    sampling = Boosted(per_day=24_000).open(shipped("groundedness"), runtime())
    (past,) = lived(Boosted(per_day=24_000).open(shipped("groundedness"), runtime()), 1)
    sampling.learn_past(replace(past, inputs=inputs))
    assert belief(sampling)[2] == 0


def test_the_price_of_a_judgement_is_recalled() -> None:
    fresh = BudgetSampler(dollars_per_day=10, dollars_per_evaluation=0.5).open(shipped("fluency"), runtime())
    knows = BudgetSampler(dollars_per_day=10, dollars_per_evaluation=0.5).open(shipped("fluency"), runtime())
    for number in range(200):
        knows.learn_past(PastResult(result=str(number), app="shop", evaluator="any", version="1", dollars=0.001))
    assert knows._budget._pacer.per_day > 8 * fresh._budget._pacer.per_day


def in_group(clock: ManualClock, share: float) -> Runtime:
    lent = runtime(clock)
    lent.share.set("kafka", share)
    return lent


@pytest.mark.parametrize("options", [BudgetSampler(per_day=2400, max_per_hour=300), BudgetSampler(dollars_per_day=5)])
def test_replicas_spend_the_budget_of_their_group_together(options: BudgetSampler) -> None:
    clock = ManualClock()
    alone = options.open(shipped("fluency"), runtime(clock))
    shares = (0.5, 0.25, 0.25)
    replicas = [options.open(shipped("fluency"), in_group(clock, share)) for share in shares]
    for name in ("per_day", "per_hour", "level"):
        together = sum(getattr(one._budget._pacer, name) for one in replicas)
        assert together == pytest.approx(getattr(alone._budget._pacer, name))


def test_a_replica_follows_a_rebalance_and_the_target_share_stays_where_it_was() -> None:
    clock = ManualClock()
    group, alone = in_group(clock, 0.25), runtime(clock)
    replica, whole = (
        BudgetSampler(per_day=2400).open(shipped("fluency"), group),
        BudgetSampler(per_day=2400).open(shipped("fluency"), alone),
    )

    def hours(number: int, cases_a_minute: int, sampling, *others) -> list[SamplingDecision]:
        last: list[SamplingDecision] = []
        for _ in range(60 * number):
            for _ in range(cases_a_minute):
                drawn = sampling.draw(case(), {})
            for other in others:
                for _ in range(40):
                    other.draw(case(), {})
            clock.advance(60)
            last.append(drawn)
        return last

    before = hours(6, 10, replica, whole)[-1].target
    group.share.set("kafka", 0.5)
    after = hours(2, 20, replica, whole)
    assert after[0].target == pytest.approx(before, rel=0.001)
    assert max(drawn.target for drawn in after) / min(drawn.target for drawn in after) < 1.05
    assert replica._budget._pacer.per_day == pytest.approx(1200)
    assert after[-1].target == pytest.approx(whole.draw(case(), {}).target, rel=0.05)


def test_without_partitions_nothing_divides_by_zero_and_the_share_comes_back() -> None:
    clock = ManualClock()
    group = in_group(clock, 0.0)
    sampling = BudgetSampler(per_day=2400).open(shipped("fluency"), group)
    assert 0 < sampling.draw(case(), {}).probability <= 1
    group.share.set("kafka", 0.5)
    clock.advance(60)
    assert 0 < sampling.draw(case(), {}).probability <= 1
    group.share.set("kafka", 0.0)
    clock.advance(60)
    assert 0 < sampling.draw(case(), {}).probability <= 1
    assert sampling._budget._pacer.per_day == pytest.approx(1200)


def test_the_part_of_the_budget_is_never_nothing() -> None:
    share = ReplicaShare()
    assert share.of_budget == 1.0
    share.set("kafka", 0.0)
    assert (share.value, share.of_budget) == (0.0, 1.0)
    share.set("kafka", 0.25)
    share.set("kafka", 0.0)
    assert (share.value, share.of_budget) == (0.0, 0.25)


def test_a_local_score_gives_inputs_to_four_digits_so_that_a_result_carries_them_as_they_were_learned() -> None:
    sampling = Boosted(per_day=24_000).open(shipped("groundedness"), runtime())
    drawn = sampling.draw(case(BAD), {**local(BAD), "refusal_pattern": Score(0.123456, "")})
    assert drawn.inputs
    assert all(one == round(one, 4) for one in drawn.inputs)
