"""What a simulation counts and draws: windows by look, thresholds by the fewest defects, Poisson numbers exactly."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from monitor.statistics.change import FAMILIES, WINDOWS, change, fired, spread
from monitor.statistics.power import (
    LOOK,
    High,
    Regression,
    SimulatedCounts,
    episodes,
    high_alarms,
    high_delay,
    regression_delay,
    stream,
)
from monitor.statistics.rates import Sums, estimate


class Dice(random.Random):
    """Gives the numbers that it was told, again and again."""

    def __init__(self, numbers: Sequence[float]) -> None:
        super().__init__()
        self._numbers, self._next = numbers, 0

    def random(self) -> float:
        self._next += 1
        return self._numbers[(self._next - 1) % len(self._numbers)]


def poisson(mean: float, share: float) -> int:
    """The smallest number that is reached with this probability."""
    number, below = 0, math.exp(-mean)
    while below < share:
        number += 1
        below += math.exp(number * math.log(mean) - mean - math.lgamma(number + 1))
    return number


@pytest.mark.parametrize("mean", [0.3, 4.0, 60.0, 700.0])
@pytest.mark.parametrize("share", [0.003, 0.2, 0.5, 0.9, 0.9997])
def test_numbers_are_drawn_by_the_poisson_distribution(mean: float, share: float) -> None:
    counts = stream([0.25], mean, Dice([share]))
    good, bad = poisson(0.75 * mean, share), poisson(0.25 * mean, share)
    assert counts.window(LOOK, 1) == (good + bad, bad)


def test_a_mean_that_is_far_beyond_what_floats_can_multiply_is_drawn_too() -> None:
    judged, _ = stream([0.0], 1e6, Dice([0.5])).window(LOOK, 1)
    assert judged == pytest.approx(1e6, abs=2)


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0), (1.0, None)])
def test_what_never_happens_is_never_drawn(rate: float, expected: int | None) -> None:
    judged, defects = stream([rate], 5.0, Dice([0.7])).window(LOOK, 1)
    assert defects == (judged if expected is None else expected)
    assert judged == poisson(5.0, 0.7)


COUNTS = SimulatedCounts([(number, number % 3) for number in range(1, 31)])


@pytest.mark.parametrize(
    ("seconds", "look"), [(300.0, 1), (300.0, 30), (3600.0, 30), (3600.0, 7), (900.0, 5), (440.0, 9)]
)
def test_a_window_counts_the_looks_that_it_reaches_back(seconds: float, look: int) -> None:
    parts = [(number + number % 3, number % 3) for number in range(1, 31)]
    own = parts[max(look - round(seconds / 300), 0) : look]
    assert COUNTS.window(seconds, look) == (sum(one for one, _ in own), sum(bad for _, bad in own))
    assert len(COUNTS) == 30


@pytest.mark.parametrize("per_session", [1, 3])
@pytest.mark.parametrize("judged", [10, 60])
def test_the_level_fires_where_a_lower_limit_is_above_it_and_the_shortest_may_be_above_too(
    judged: int, per_session: int
) -> None:
    """The longer window holds 40 more sessions, of which a quarter are bad."""
    windows, threshold, z_over = ((300.0, 1.5), (600.0, 2.2)), 0.2, 1.0
    fires = []
    for defects in range(judged + 1):
        rule = High(windows, threshold, z_over, per_session)
        counts = SimulatedCounts([(30, 10), (judged - defects, defects)])
        short, long = (
            Sums.counted(n * per_session, bad * per_session, per_session)
            for n, bad in ((judged, defects), (judged + 40, defects + 10))
        )
        resolved, one, other = estimate(short, z_over), estimate(short, 1.5), estimate(long, 2.2)
        assert resolved is not None
        assert one is not None
        assert other is not None
        expected = resolved.upper >= threshold and (one.lower > threshold or other.lower > threshold)
        assert rule.fires(counts, 2) is expected
        assert rule.fires(counts, 2) is expected  # and again, from what it remembers
        fires.append(expected)
    assert fires == sorted(fires)
    assert True in fires
    assert False in fires


def test_no_answer_fires_nothing() -> None:
    rule = High(((300.0, 1.0), (600.0, 1.0)), 0.1, 1.0)
    assert not rule.fires(SimulatedCounts([(0, 0), (0, 0)]), 2)
    assert rule.fires(SimulatedCounts([(0, 60), (0, 0)]), 2)


HOURS = [(90 + at % 7 * 3, 2 + at % 24 // 5) for at in range(7 * 24)]


@pytest.mark.parametrize("per_session", [1, 2])
@pytest.mark.parametrize("bad", [1, 3, 6, 12])
def test_a_regression_fires_as_its_windows_do_against_the_week(bad: int, per_session: int) -> None:
    looks = SimulatedCounts([(8, number % 3 // 2) for number in range(800)] + [(8 - bad % 8, bad)] * 30)
    scale = per_session
    base = Sums.counted(scale * sum(map(sum, HOURS)), scale * sum(one for _, one in HOURS), scale)
    changes = {}
    for window in WINDOWS:
        size = round(window.block / 3600)
        blocks = [HOURS[at : at + size] for at in range(0, 168, size)]
        sums = [
            Sums.counted(scale * sum(map(sum, one)), scale * sum(defects for _, defects in one), scale)
            for one in blocks
        ]
        judged, defects = looks.window(window.length, 830)
        found = change(Sums.counted(judged * scale, defects * scale, scale), base, spread(sums))
        assert found is not None
        changes[window.length] = found
    rule = Regression(FAMILIES["default"], HOURS, per_session)
    assert rule.fires(looks, 830) is bool(fired(changes, FAMILIES["default"]))


@pytest.mark.parametrize(
    ("firing", "alarms"),
    [([True], 1), ([True] + [False] * 11 + [True], 1), ([True] + [False] * 12 + [True], 2), ([False] * 30, 0)],
)
def test_an_hour_without_firing_ends_an_alarm(firing: list[bool], alarms: int) -> None:
    assert episodes(firing) == alarms


def test_alarms_are_merged_within_the_time_that_is_asked() -> None:
    assert episodes([True, False, True], merged_within=300.0) == 2
    assert episodes([True, False, True], merged_within=600.0) == 1


def test_a_delay_is_in_hours_from_the_rise_to_the_first_look_that_fires() -> None:
    rule = High(((900.0, 1.0), (1800.0, 1.0)), 0.5, 1.0)
    found = high_delay(rule, 0.0, 1.0, 120.0, runs=4, days=1, rng=Dice([0.5]))
    # Ten answers every five minutes: 50 wrong of 60 in the longer window would do, 20 of 30 in the shorter one do.
    assert found.median == pytest.approx(2 / 12)
    assert found.within_a_day == 1.0


def test_a_delay_by_session_is_that_of_as_many_sessions() -> None:
    rule = High(((900.0, 1.0), (1800.0, 1.0)), 0.5, 1.0, per_session=12)
    found = high_delay(rule, 0.0, 1.0, 1440.0, runs=1, days=1, rng=Dice([0.5]))
    assert found.median == pytest.approx(2 / 12)


def test_of_runs_of_which_half_notice_nothing_there_is_no_median() -> None:
    """A rule that fires at one defect, and dice that bring one in the first of two runs only."""
    rule = High(((300.0, 0.0),), 1e-9, 0.0)
    looks = 1 + 288  # one to warm up
    dice = Dice([0.0] * 2 * (looks - 1) + [0.0, 0.999999] + [0.0] * 2 * looks)
    found = high_delay(rule, 0.5, 0.500001, 0.0012, runs=2, days=1, rng=dice)
    assert found.median is None
    assert found.within_a_day == 0.5


def test_a_steady_rate_above_the_threshold_is_one_alarm_however_long() -> None:
    rule = High(((900.0, 1.0), (1800.0, 1.0)), 0.2, 1.0)
    assert high_alarms(rule, 0.9, 120.0, days=2, rng=Dice([0.5])) == 1
    assert high_alarms(rule, 0.0, 120.0, days=2, rng=Dice([0.5])) == 0


def test_a_regression_to_everything_is_noticed_at_the_second_look() -> None:
    found = regression_delay(FAMILIES["default"], 0.05, 1.0, 240.0, runs=2, rng=Dice([0.5]))
    assert found.median is not None
    assert found.median <= 2 / 12
    assert found.within_a_day == 1.0
