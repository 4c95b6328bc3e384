"""Calibration once more from its definitions: the likelihood at its top, bins by hand, errors by the binomial sum."""

from __future__ import annotations

import math

import pytest

from monitor.statistics.quality.calibration import Bin, Logistic, bins, error, error_by_chance, fit

POINTS = [
    [(-1.0, False), (0.5, True), (0.25, False), (2.0, True), (1.5, False), (-0.5, True), (3.0, True)],
    [(at / 7 - 3, at * 5 % 11 < at / 6) for at in range(60)],
    [(1000 + at, at > 4) for at in range(10)],
    [(0.001 * at, at % 3 == 0) for at in range(30)],
]


@pytest.mark.parametrize("points", POINTS)
def test_a_fit_is_where_the_likelihood_of_platt_s_targets_is_highest(points: list[tuple[float, bool]]) -> None:
    found = fit(points)
    assert found is not None
    bad = sum(defective for _, defective in points)
    targets = [(bad + 1) / (bad + 2) if defective else 1 / (len(points) - bad + 2) for _, defective in points]

    def loss(slope: float, intercept: float) -> float:
        chances = [1 / (1 + math.exp(-slope * danger - intercept)) for danger, _ in points]
        return -sum(t * math.log(p) + (1 - t) * math.log(1 - p) for t, p in zip(targets, chances, strict=True))

    off = [found(danger) - target for (danger, _), target in zip(points, targets, strict=True)]
    middle = sum(danger for danger, _ in points) / len(points)
    width = max(abs(danger - middle) for danger, _ in points)
    assert sum(off) == pytest.approx(0.0, abs=1e-4)
    moments = [one * (danger - middle) / width for one, (danger, _) in zip(off, points, strict=True)]
    assert sum(moments) == pytest.approx(0.0, abs=1e-4)
    lowest = loss(*found)
    for step in (-0.01, 0.01):
        assert loss(found.slope + step / width, found.intercept - step / width * middle) > lowest
        assert loss(found.slope, found.intercept + step) > lowest


def test_dangers_that_are_all_the_same_have_no_slope() -> None:
    found = fit([(2.0, True), (2.0, False), (2.0, False)])
    assert found is not None
    assert found.slope == pytest.approx(0.0, abs=1e-9)
    target = (2 / 3 + 2 / 4) / 3  # one defect at 2/3, two good answers at 1/4
    assert found(2.0) == pytest.approx(target, abs=1e-6)


@pytest.mark.parametrize("points", [[], [(1.0, True)] * 3, [(1.0, False)] * 3])
def test_one_kind_of_answers_fits_nothing(points: list[tuple[float, bool]]) -> None:
    assert fit(points) is None


@pytest.mark.parametrize("danger", [-900.0, -2.0, 0.0, 0.75, 900.0])
def test_the_map_is_logistic_and_never_overflows(danger: float) -> None:
    one = Logistic(1.5, -0.25)
    z = 1.5 * danger - 0.25
    expected = 1 / (1 + math.exp(-z)) if abs(z) < 500 else float(z > 0)
    assert one(danger) == pytest.approx(expected, rel=1e-9)
    assert 0 <= one(danger) <= 1


def test_bins_have_equal_numbers_and_keep_ties_together() -> None:
    pairs = [(0.1, False), (0.1, True), (0.1, False), (0.3, True), (0.4, False), (0.9, True), (0.7, True), (0.8, False)]
    assert bins(pairs, 4) == [
        Bin(pytest.approx(0.1), pytest.approx(1 / 3), 3),
        Bin(0.3, 1.0, 1),
        Bin(pytest.approx(0.55), 0.5, 2),
        Bin(pytest.approx(0.85), 0.5, 2),
    ]
    assert [one.number for one in bins([(at / 100, False) for at in range(95)])] == [10, 9] * 4 + [10, 9]
    assert bins([]) == []
    assert [one.number for one in bins([(0.5, True)] * 7)] == [7]


def test_the_error_is_the_mean_distance_of_predicted_and_observed_over_all_answers() -> None:
    found = [Bin(0.2, 0.5, 10), Bin(0.7, 0.6, 30)]
    assert error(found) == pytest.approx((10 * 0.3 + 30 * 0.1) / 40)


@pytest.mark.parametrize(("share", "number"), [(0.2, 10), (0.7, 30), (0.05, 3), (0.5, 4), (0.99, 7), (0.25, 8)])
def test_the_error_by_chance_is_the_mean_distance_of_a_binomial_share(share: float, number: int) -> None:
    mean = sum(
        math.comb(number, hits) * share**hits * (1 - share) ** (number - hits) * abs(hits / number - share)
        for hits in range(number + 1)
    )
    assert error_by_chance([Bin(share, 0.4, number)]) == pytest.approx(mean, rel=1e-9)
    both = error_by_chance([Bin(share, 0.4, number), Bin(1.0, 1.0, 10)])
    assert both == pytest.approx(mean * number / (number + 10), rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_what_is_certain_has_no_error_by_chance(share: float) -> None:
    assert error_by_chance([Bin(share, share, 12)]) == 0.0
