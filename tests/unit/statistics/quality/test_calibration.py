from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.quality.calibration import Bin, Logistic, bins, error, error_by_chance, fit

FINITE = st.floats(-1e6, 1e6)


def drawn(truth: Logistic, number: int, rng: random.Random) -> list[tuple[float, bool]]:
    dangers = [rng.uniform(-5, -1) for _ in range(number)]
    return [(danger, rng.random() < truth(danger)) for danger in dangers]


def test_a_logistic_truth_is_found_again():
    truth = Logistic(2.0, 6.0)
    found = fit(drawn(truth, 20_000, random.Random(3)))
    assert found.slope == pytest.approx(truth.slope, rel=0.05)
    assert found.intercept == pytest.approx(truth.intercept, rel=0.05)


@given(st.lists(st.tuples(FINITE, st.booleans()), min_size=2, max_size=30))
def test_whatever_the_dangers_the_map_gives_probabilities(points):
    found = fit(points)
    if len({defective for _, defective in points}) < 2:
        assert found is None
    else:
        assert all(0 <= found(danger) <= 1 for danger, _ in points)


@given(st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=4, max_size=30), st.integers(-3, 3))
def test_the_map_follows_the_scale_of_the_dangers(points, shift):
    found, moved = fit(points), fit([(10 * danger + shift, defective) for danger, defective in points])
    if found is not None:
        for danger, _ in points:
            assert moved(10 * danger + shift) == pytest.approx(found(danger), abs=1e-4)


def test_dangers_that_separate_the_answers_give_a_finite_map():
    found = fit([(0.0, False), (0.1, False), (0.9, True), (1.0, True)])
    assert math.isfinite(found.slope)
    assert 0 < found(0.0) < 0.5 < found(1.0) < 1


def test_dangers_that_are_all_the_same_give_the_base_rate():
    found = fit([(3.0, True)] * 30 + [(3.0, False)] * 70)
    assert found(3.0) == pytest.approx(0.3, abs=0.02)


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.7]) | st.floats(0, 1), st.booleans()), min_size=1))
def test_bins_hold_every_answer_once_and_never_part_equal_probabilities(pairs):
    found = bins(pairs)
    assert sum(one.number for one in found) == len(pairs)
    assert len(found) <= 10
    assert sum(one.observed * one.number for one in found) == pytest.approx(sum(defective for _, defective in pairs))
    predicted = [one.predicted for one in found]
    assert predicted == sorted(predicted)


def test_the_error_is_the_mean_distance_over_answers():
    assert error([Bin(0.1, 0.3, 10), Bin(0.8, 0.5, 30)]) == pytest.approx(0.25 * 0.2 + 0.75 * 0.3)


@pytest.mark.parametrize(("number", "share"), [(1, 0.5), (7, 0.02), (12, 0.3), (40, 0.97), (10, 0.2)])
def test_the_error_by_chance_is_the_mean_deviation_of_a_binomial_share(number, share):
    mass = [math.comb(number, k) * share**k * (1 - share) ** (number - k) for k in range(number + 1)]
    expected = sum(one * abs(k / number - share) for k, one in enumerate(mass))
    assert error_by_chance([Bin(share, 0.0, number)]) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_certain_prediction_has_no_error_by_chance(share):
    assert error_by_chance([Bin(share, share, 10)]) == 0
