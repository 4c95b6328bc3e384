"""The model of a boosted sampler: it learns what verdicts say, and nothing that they hold can break it."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.defect_model import ERRORS, PRIOR_RISK, DefectModel

SLOPES = (1.2, 0.0, 0.0)
inputs = st.tuples(*[st.floats(-3, 3)] * 3)
verdicts = st.lists(st.tuples(inputs, st.floats(0, 1e6), st.floats(0, 7), st.booleans()), max_size=60)


def is_positive_definite(matrix: list[list[float]]) -> bool:
    size, lower = len(matrix), [[0.0] * len(matrix) for _ in matrix]
    for row in range(size):
        for column in range(row + 1):
            rest = matrix[row][column] - sum(lower[row][k] * lower[column][k] for k in range(column))
            if row == column:
                if rest <= 0:
                    return False
                lower[row][row] = math.sqrt(rest)
            else:
                lower[row][column] = rest / lower[column][column]
    return True


def test_before_any_verdict_three_in_a_hundred_are_defects_and_it_rises_with_the_trusted_input() -> None:
    learner = DefectModel(SLOPES)
    plain = 1 - learner.score((0, 0, 0))
    assert plain == pytest.approx(0.03)
    assert 1 - learner.score((2, 0, 0)) > 5 * plain
    assert learner.score((0, 2, 2)) == learner.score((0, 0, 0))


def test_the_risk_is_that_of_the_verdict_false_alarms_of_the_judge_included() -> None:
    learner = DefectModel(SLOPES)
    assert learner.probability((0, 0, 0)) == pytest.approx(PRIOR_RISK)
    assert learner.probability((-3, 0, 0)) > sum(ERRORS) / len(ERRORS) > 0.05
    for _ in range(300):  # no defect at all: then the judge hardly ever errs
        learner.learn((0, 0, 0), 1.0, defect=False)
    assert learner.probability((-3, 0, 0)) < 0.01


@given(one=inputs, other=inputs)
def test_before_the_first_verdict_the_order_is_exactly_that_of_the_trusted_input(one, other) -> None:
    learner = DefectModel(SLOPES)
    one, other = (tuple(round(value, 4) for value in values) for values in (one, other))
    for order in (learner.log_odds, learner.probability, lambda seen: -learner.score(seen)):
        assert (order(one) > order(other)) is (one[0] > other[0])


@given(seen=verdicts)
def test_the_same_verdicts_give_the_same_state(seen) -> None:
    learners = DefectModel(SLOPES), DefectModel(SLOPES)
    for values, weight, shift, defect in seen:
        for learner in learners:
            learner.learn(values, weight, shift, defect=defect)
    first, second = ([learner.weights, [one.covariance for one in learner.filters]] for learner in learners)
    assert first == second
    assert learners[0].coefficients == learners[1].coefficients


@pytest.mark.parametrize("wrong", [0.0, 0.15])
def test_the_filter_that_assumes_as_many_wrong_verdicts_as_there_are_is_believed_in_the_end(wrong) -> None:
    rng, learner = random.Random(4), DefectModel(SLOPES)
    for _ in range(3000):
        values = (rng.choice((-3, 3)), 0.0, 0.0)
        learner.learn(values, 1.0, defect=(values[0] > 0) is not (rng.random() < wrong))
    assert max(zip(learner.weights, ERRORS, strict=True))[1] == (0.15 if wrong else 0.002)
    assert sum(learner.weights) == pytest.approx(1)


def test_a_judge_that_stops_erring_is_believed_again_within_five_hundred_verdicts() -> None:
    rng, learner = random.Random(5), DefectModel(SLOPES)
    for number in range(3500):
        values = (rng.choice((-3, 3)), 0.0, 0.0)
        learner.learn(values, 1.0, defect=(values[0] > 0) is not (rng.random() < 0.15 and number < 3000))
        if number == 2999:
            assert learner.weights[2] > 0.9
    assert learner.weights[0] > 0.9


def test_the_label_of_a_person_moves_it_further_than_a_verdict_does() -> None:
    person, judge = DefectModel(SLOPES), DefectModel(SLOPES)
    person.learn((1, 1, 1), 0.5, defect=True, by_person=True)
    judge.learn((1, 1, 1), 1.0, defect=True)
    assert person.log_odds((1, 1, 1)) > judge.log_odds((1, 1, 1))
    assert person.weights == pytest.approx((1 / 3, 1 / 3, 1 / 3)), "it says nothing of the judge"


@given(seen=verdicts)
def test_whatever_the_verdicts_the_belief_stays_a_normal_distribution_no_wider_than_the_prior(seen) -> None:
    learner, prior = DefectModel(SLOPES), DefectModel(SLOPES)
    for values, weight, shift, defect in seen:
        learner.learn(values, weight, shift, defect=defect)
    assert all(map(math.isfinite, learner.coefficients))
    for one, first in zip(learner.filters, prior.filters, strict=True):
        covariance = one.covariance
        assert all(map(math.isfinite, one.coefficients))
        assert all(covariance[i][j] == covariance[j][i] for i in range(4) for j in range(4))
        assert all(1e-9 <= covariance[i][i] <= first.covariance[i][i] for i in range(4))
        assert is_positive_definite(covariance)


@pytest.mark.lengthy
def test_dead_and_collinear_inputs_do_no_harm_in_a_hundred_thousand_verdicts() -> None:
    rng, learner = random.Random(1), DefectModel(SLOPES)
    for _ in range(100_000):
        value = rng.gauss(0, 1)
        learner.learn((value, value, 0.0), 1.0, defect=rng.random() < 0.02)
    assert all(is_positive_definite(one.covariance) for one in learner.filters)
    assert 0.005 < learner.probability((0, 0, 0)) < 0.06


@given(values=inputs, weight=st.floats(0.01, 10))
def test_a_verdict_moves_the_risk_of_the_same_case_its_own_way(values, weight) -> None:
    for defect in (True, False):
        learner = DefectModel(SLOPES)
        before = learner.probability(values)
        learner.learn(values, weight, defect=defect)
        assert (learner.probability(values) > before) is defect


def test_a_case_that_stands_for_very_many_counts_no_more_than_one_that_stands_for_two() -> None:
    heavy, double = DefectModel(SLOPES), DefectModel(SLOPES)
    heavy.learn((1, 1, 1), 1000.0, defect=True)
    double.learn((1, 1, 1), 2.0, defect=True)
    assert heavy.coefficients == double.coefficients


def test_a_weight_below_zero_is_none() -> None:
    learner, none = DefectModel(SLOPES), DefectModel(SLOPES)
    for one, weight in ((learner, -3.0), (none, 0.0)):
        one.learn((1, 0, 0), weight, defect=True)
    assert learner.probability((1, 0, 0)) == none.probability((1, 0, 0))


def test_what_is_known_besides_raises_the_risk_and_is_not_learned_twice() -> None:
    suspected, plain = DefectModel(SLOPES), DefectModel(SLOPES)
    error = sum(ERRORS) / len(ERRORS)
    assert suspected.probability((0, 0, 0), math.log(5)) - error > 4 * (suspected.probability((0, 0, 0)) - error)
    suspected.learn((0, 0, 0), 1.0, math.log(5), defect=True)
    plain.learn((0, 0, 0), 1.0, defect=True)
    assert suspected.coefficients[0] < plain.coefficients[0]


def test_the_risks_that_it_learns_are_those_of_the_traffic() -> None:
    rng, learner = random.Random(2), DefectModel(SLOPES)
    for _ in range(5000):
        values = (rng.gauss(0, 1), rng.gauss(0, 1), 0.0)
        learner.learn(values, 1.0, defect=rng.random() < 1 / (1 + math.exp(2 - values[1])))
    for second in (-1, 0, 1):
        assert abs(learner.probability((0, second, 0)) - 1 / (1 + math.exp(2 - second))) < 0.05


def test_after_ten_thousand_verdicts_a_new_kind_of_defect_is_still_learned() -> None:
    rng, learner = random.Random(3), DefectModel(SLOPES)
    for _ in range(10_000):
        learner.learn((rng.gauss(0, 1), 0.0, 0.0), 1.0, defect=rng.random() < 0.02)
    before = learner.probability((0, 3, 0))
    for number in range(2000):
        marked = number % 20 == 0
        learner.learn((rng.gauss(0, 1), 3.0 * marked, 0.0), 1.0, defect=marked or rng.random() < 0.02)
    assert before < 0.05
    assert learner.probability((0, 3, 0)) > 0.5


def test_a_belief_that_is_no_number_any_more_begins_again() -> None:
    learner = DefectModel(SLOPES)
    learner.filters[1].coefficients[1] = math.nan
    learner.learn((1, 1, 1), 1.0, defect=True)
    assert learner.coefficients == DefectModel(SLOPES).coefficients
