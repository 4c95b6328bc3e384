"""The model of a boosted sampler: it learns what verdicts say, and nothing that they hold can break it."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.defect_model import DefectModel

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


def test_before_any_verdict_the_risk_is_three_in_a_hundred_and_rises_with_the_trusted_input() -> None:
    learner = DefectModel(SLOPES)
    plain = learner.probability((0, 0, 0))
    assert plain == pytest.approx(0.03)
    assert learner.probability((2, 0, 0)) > 5 * plain
    assert learner.probability((0, 2, 2)) == plain


@given(seen=verdicts)
def test_whatever_the_verdicts_the_belief_stays_a_normal_distribution_no_wider_than_the_prior(seen) -> None:
    learner, prior = DefectModel(SLOPES), DefectModel(SLOPES)
    for values, weight, shift, defect in seen:
        learner.learn(values, weight, shift, defect=defect)
    covariance = learner.covariance
    assert all(map(math.isfinite, learner.coefficients))
    assert all(covariance[i][j] == covariance[j][i] for i in range(4) for j in range(4))
    assert all(1e-9 <= covariance[i][i] <= prior.covariance[i][i] for i in range(4))
    assert is_positive_definite(covariance)


def test_dead_and_collinear_inputs_do_no_harm_in_a_hundred_thousand_verdicts() -> None:
    rng, learner = random.Random(1), DefectModel(SLOPES)
    for _ in range(100_000):
        value = rng.gauss(0, 1)
        learner.learn((value, value, 0.0), 1.0, defect=rng.random() < 0.02)
    assert is_positive_definite(learner.covariance)
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


def test_what_is_known_besides_raises_the_risk_and_is_not_learned_twice() -> None:
    suspected, plain = DefectModel(SLOPES), DefectModel(SLOPES)
    assert suspected.probability((0, 0, 0), math.log(5)) > 4 * suspected.probability((0, 0, 0))
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


def test_it_is_gone_by_in_half_at_first_and_in_full_after_twenty_defects_however_many_verdicts_they_take() -> None:
    learner = DefectModel(SLOPES)
    for _ in range(500):
        learner.learn((0, 0, 0), 1.0, defect=False)
    assert learner.trust == 0.5
    for _ in range(19):
        learner.learn((0, 0, 0), 1.0, defect=True)
    assert 0.5 < learner.trust < 1
    learner.learn((0, 0, 0), 1.0, defect=True)
    learner.learn((0, 0, 0), 1.0, defect=True)
    assert learner.trust == 1


def test_a_belief_that_is_no_number_any_more_begins_again() -> None:
    learner = DefectModel(SLOPES)
    learner.coefficients[1] = math.nan
    learner.learn((1, 1, 1), 1.0, defect=True)
    assert learner.coefficients == DefectModel(SLOPES).coefficients
