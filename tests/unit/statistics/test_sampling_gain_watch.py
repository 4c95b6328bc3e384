"""What one boosted evaluation has been worth, by the variances of both draws; and the seven days that are watched."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest

from monitor.statistics.rates import Sums
from monitor.statistics.sampling_gain import Watch, gain

DAY = 86400.0
NOW = 1000 * DAY + 5.0


def test_the_gain_is_the_variance_of_an_even_draw_over_that_of_the_weights() -> None:
    cases = [(0.25 + number % 4 / 2, number % 5 == 0) for number in range(60)]
    whole = sum(weight for weight, _ in cases)
    rate = sum(weight for weight, bad in cases if bad) / whole
    boosted = sum((weight * (bad - rate)) ** 2 for weight, bad in cases) / whole**2
    even = rate * (1 - rate) / 60
    found = gain(Sums.total(Sums.of(weight, defect=bad) for weight, bad in cases))
    assert found == pytest.approx(even / boosted, rel=1e-9)


@pytest.mark.parametrize("defects", [0, 5])
def test_one_kind_of_verdict_has_no_gain(defects: int) -> None:
    assert gain(Sums.counted(5, defects)) is None


def test_an_even_draw_gains_nothing_and_loses_nothing() -> None:
    assert gain(Sums.counted(50, 7)) == pytest.approx(1.0)


def watched(defects: int, good: int, now: float = NOW, *, weight: float = 1.0, good_weight: float = 4.0) -> Watch:
    """Defects that were drawn evenly and good answers of two weights: worse than an even draw."""
    watch = Watch()
    for _ in range(defects):
        watch.add(weight, now, defect=True)
    for number in range(good):
        watch.add(good_weight if number % 2 else 0.1, now, defect=False)
    return watch


@pytest.mark.parametrize(("defects", "harm"), [(50, True), (49, False)])
def test_harm_is_certain_from_50_defects_on(defects: int, harm: bool) -> None:
    found = watched(defects, 60).loses(NOW)
    assert (found is not None) is harm
    if found is not None:
        assert 0 < found < 0.9


def test_defects_of_unequal_weight_count_as_fewer() -> None:
    watch = watched(50, 60)
    watch.add(20.0, NOW, defect=True)
    assert watch.loses(NOW) is None


def test_a_gain_of_nine_tenths_or_more_is_no_harm() -> None:
    assert watched(200, 200, good_weight=0.1, weight=0.1).loses(NOW) is None
    assert Watch().loses(NOW) is None


@pytest.mark.parametrize(("later", "harm"), [(0, True), (6, True), (7, False)])
def test_seven_days_are_watched(later: int, harm: bool) -> None:
    assert (watched(60, 60).loses(NOW + later * DAY) is not None) is harm


def test_verdicts_of_a_day_are_one_sum_and_the_oldest_of_eight_days_is_forgotten() -> None:
    watch = Watch()
    for day in range(8):
        for hour in (0, 20):
            watch.add(1.0 + day, day * DAY + hour * 3600.0, defect=hour == 0)
    state = watch.state(7 * DAY + 3600.0)
    assert [one[0] for one in state] == [6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    for day, one in enumerate(state, start=1):
        expected = Sums.of(1.0 + day, defect=True) + Sums.of(1.0 + day, defect=False)
        assert one[1:] == list(astuple(expected))


def test_a_restart_restores_the_days_by_their_age() -> None:
    watch, again = watched(60, 60), Watch()
    again.restore(watch.state(NOW + 2 * DAY), 50 * DAY + 1.0, 0.0)
    assert again.state(50 * DAY + 1.0) == watch.state(NOW + 2 * DAY)
    away = Watch()
    away.restore(watch.state(NOW + 2 * DAY), 50 * DAY + 1.0, 3.5 * DAY)
    assert [one[0] for one in away.state(50 * DAY + 1.0)] == [5.0]
    assert away.loses(50 * DAY) is not None
    assert away.loses(52 * DAY) is None


@pytest.mark.parametrize(
    "state",
    [
        *(None, 5, "days", [[]], [["1", *[1.0] * 10]], [[1.0, *[1.0] * 9]]),
        *([[1.0, *[1.0] * 9, math.nan]], [[0.0, *[1.0] * 9, "1"]]),
    ],
)
def test_a_state_that_is_none_restores_nothing(state: object) -> None:
    watch = Watch()
    watch.restore(state, NOW, 0.0)
    assert watch.state(NOW) == []
