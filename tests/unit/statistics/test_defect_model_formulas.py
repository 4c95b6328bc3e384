"""One step of the filter once more, by the inverse of the covariance, and the scales of the inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from monitor.model.outcome import Score
from monitor.statistics.defect_model import ERRORS, INPUTS, PRIOR_RISK, DefectModel, are_inputs, inputs

SLOPES = (1.2, 0.1, -0.4)
PRIOR = (2.0**2, 0.8**2, 0.3**2, 0.3**2)
Matrix = list[list[float]]


def inverse(of: Matrix) -> Matrix:
    """By elimination."""
    size = len(of)
    rows = [[*row, *(float(at == number) for number in range(size))] for at, row in enumerate(of)]
    for at in range(size):
        rows[at] = [one / rows[at][at] for one in rows[at]]
        for other in range(size):
            if other != at:
                rows[other] = [one - rows[other][at] * own for one, own in zip(rows[other], rows[at], strict=True)]
    return [row[size:] for row in rows]


def dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def logistic(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


class Belief:
    """A normal belief about the coefficients: its mean and its covariance."""

    def __init__(self, error: float) -> None:
        self.error = error
        self.mean = [math.log(0.03 / 0.97), *SLOPES]
        self.covariance = [[variance * (at == row) for at in range(4)] for row, variance in enumerate(PRIOR)]

    def learn(self, inputs: Sequence[float], weight: float, shift: float, error: float, *, defect: bool) -> float:
        """Learn, and return the probability that it had given to the verdict."""
        for at, variance in enumerate(PRIOR):
            self.covariance[at][at] = min(self.covariance[at][at] + variance / 7500, variance)
        uncertainty = dot([dot(row, inputs) for row in self.covariance], inputs)
        expected = logistic((dot(self.mean, inputs) + shift) / math.sqrt(1 + math.pi / 8 * uncertainty))
        foretold = error + (1 - 2 * error) * expected
        slope = (1 - 2 * error) * expected * (1 - expected)
        information = slope**2 / (foretold * (1 - foretold))
        precision = inverse(self.covariance)
        for row in range(4):
            for column in range(4):
                precision[row][column] += weight * information * inputs[row] * inputs[column]
        self.covariance = inverse(precision)
        pull = weight * slope * (defect - foretold) / (foretold * (1 - foretold))
        for at, along in enumerate([dot(row, inputs) for row in self.covariance]):
            self.mean[at] += pull * along
        return foretold if defect else 1 - foretold


STEPS = [
    # inputs, weight, shift, defect, by a person
    ((0.5, -1.0, 2.0), 1.0, 0.0, True, False),
    ((-1.5, 0.5, 0.25), 0.5, 0.75, False, False),
    ((2.0, 1.0, -2.5), 7.0, 0.0, True, False),
    ((1.0, -2.0, 0.5), 5.0, -0.5, False, True),
    ((3.0, 3.0, 3.0), 1.5, 0.0, True, True),
    ((-3.0, 1.0, 0.0), 0.0, 0.0, True, False),
    ((0.25, 2.0, 1.0), 1.25, 0.3, True, False),
]


@pytest.mark.parametrize("number", range(1, len(STEPS) + 1))
def test_a_verdict_moves_each_belief_as_a_step_of_an_extended_kalman_filter(number: int) -> None:
    model, beliefs, evidence = DefectModel(SLOPES), [Belief(error) for error in (0.002, 0.05, 0.15)], [0.0] * 3
    for values, weight, shift, defect, by_person in STEPS[:number]:
        model.learn(values, weight, shift, defect=defect, by_person=by_person)
        counted = 1.0 if by_person else min(weight, 2.0)
        for at, one in enumerate(beliefs):
            error = 0.002 if by_person else one.error
            evidence[at] += counted * math.log(one.learn((1.0, *values), counted, shift, error, defect=defect))
    for found, expected in zip(model.filters, beliefs, strict=True):
        assert found.coefficients == pytest.approx(expected.mean, rel=1e-9)
        assert [one for row in found.covariance for one in row] == pytest.approx(
            [one for row in expected.covariance for one in row], rel=1e-7, abs=1e-12
        )
    raw = [math.exp(one) for one in evidence]
    weights = [one / sum(raw) for one in raw]
    assert model.weights == pytest.approx(weights, rel=1e-9)
    means = [dot(weights, [one.mean[at] for one in beliefs]) for at in range(4)]
    assert model.coefficients == pytest.approx(means, rel=1e-9)
    seen = (1.0, 0.5, -1.0, 1.5)
    log_odds = dot(weights, [dot(one.mean, seen) for one in beliefs])
    assert model.log_odds(seen[1:]) == pytest.approx(log_odds, rel=1e-9)
    assert model.score(seen[1:]) == pytest.approx(1 - logistic(log_odds), rel=1e-9)
    risks = [one.error + (1 - 2 * one.error) * logistic(dot(one.mean, seen) + 0.4) for one in beliefs]
    assert model.probability(seen[1:], 0.4) == pytest.approx(dot(weights, risks), rel=1e-9)
    assert model.labels == number
    assert model.defects == sum(one[3] for one in STEPS[:number])


def test_a_filter_that_was_far_off_keeps_a_little_weight() -> None:
    model = DefectModel(SLOPES)
    for _ in range(2000):
        model.learn((-3.0, 0.0, 0.0), 1.0, defect=False)
    assert min(model.weights) == pytest.approx(math.exp(-12) * max(model.weights), rel=1e-9)


def test_the_shares_of_the_inputs_are_their_coefficients_times_their_values() -> None:
    model = DefectModel([0.1 * number for number in range(len(INPUTS))])
    inputs = [0.5 - 0.25 * number for number in range(len(INPUTS))]
    assert list(model.shares(inputs)) == list(INPUTS)
    assert list(model.shares(inputs).values()) == pytest.approx([0.1 * n * one for n, one in enumerate(inputs)])


def test_log_odds_end_30_from_0() -> None:
    assert DefectModel((100.0, 0.0, 0.0)).log_odds((3, 0, 0)) == pytest.approx(30.0)
    assert DefectModel((100.0, 0.0, 0.0)).log_odds((-3, 0, 0)) == pytest.approx(-30.0)


def test_the_first_risk_is_that_of_three_defects_in_a_hundred_seen_by_judges_that_err() -> None:
    assert ERRORS == (0.002, 0.05, 0.15)
    assert pytest.approx((0.002 + 0.996 * 0.03 + 0.05 + 0.9 * 0.03 + 0.15 + 0.7 * 0.03) / 3, rel=1e-12) == PRIOR_RISK


def test_inputs_are_as_many_as_have_a_name_and_none_beyond_3() -> None:
    assert are_inputs([3.0] * 9)
    assert are_inputs([-3.0] * 9)
    assert not are_inputs([3.0001] + [0.0] * 8)
    assert not are_inputs([-3.0001] + [0.0] * 8)
    assert not are_inputs([0.0] * 8)
    assert not are_inputs([0.0] * 10)
    assert not are_inputs([math.nan] * 9)


MEASURES = {
    # name: a value, the mean and the deviation over labelled answers
    "value_absent": (0.4, 0.294, 0.239),
    "marked_absent_n": (1.0, 0.117, 0.373),
    "n_sentences": (4.0, 1.138, 0.592),
    "trigrams_absent": (0.5, 0.642, 0.350),
    "drift": (0.25, -0.216, 0.451),
    "doc_share": (0.1, 0.300, 0.245),
    "type_token": (0.75, 0.893, 0.145),
    "question_absent": (0.2, 0.607, 0.379),
    "novel_words": (9.0, 1.247, 0.961),
}


def scored(measures: dict[str, float]) -> dict[str, Score]:
    return {"overlap": Score(0.6, "", measures=measures)}


def test_inputs_are_standardized_and_counts_by_their_logarithm() -> None:
    counts = ("marked_absent_n", "n_sentences", "novel_words")
    values = {name: math.log(1 + value) if name in counts else value for name, (value, *_) in MEASURES.items()}
    expected = [round((values[name] - mean) / by, 4) for name, (_, mean, by) in MEASURES.items()]
    found = inputs(scored({name: value for name, (value, *_) in MEASURES.items()}), "overlap")
    assert found is not None
    assert list(found) == expected
    assert tuple(MEASURES) == INPUTS


@pytest.mark.parametrize(("value", "expected"), [(99.0, 3.0), (-99.0, -3.0)])
def test_an_input_is_never_beyond_3(value: float, expected: float) -> None:
    found = inputs(scored({name: value if name == "drift" else 0.5 for name in MEASURES}), "overlap")
    assert found is not None
    assert found[4] == expected


@pytest.mark.parametrize("name", ["value_absent", "n_sentences"])
@pytest.mark.parametrize("value", [None, math.nan, -2.0])
def test_measures_that_are_none_make_no_inputs(name: str, value: float | None) -> None:
    measures = {one: 0.5 for one in MEASURES if one != name or value is not None}
    if value is not None:
        measures[name] = value
    found = inputs(scored(measures), "overlap")
    assert (found is None) is (value is None or math.isnan(value) or name == "n_sentences")
    assert inputs(scored(measures), "another") is None
