"""The formulas of a rise and of a gate once more, with sessions that differ; and each limit from both sides."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from monitor.statistics import change as rises
from monitor.statistics.change import RateChange, change, fired, gamma_ratio_z, held, is_incident, spread
from monitor.statistics.gating import Base, GateDecision, at_most_times, below, ratio
from monitor.statistics.rates import Sums, estimate

HOUR, DAY = 3600.0, 86400.0
NOW = Sums(200, 30, 320.0, 60.0, 130.0, 500.0, 4.0, 190.0, 700.0, 260.0)
BASE = Sums(3000, 120, 5000.0, 210.0, 450.0, 9000.0, 6.0, 520.0, 12000.0, 800.0)


def root(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function crosses 0 on a scale of logarithms."""
    rises_there = of(high) > 0
    for _ in range(300):
        middle = math.sqrt(low * high)
        if (of(middle) > 0) == rises_there:
            high = middle
        else:
            low = middle
    return math.sqrt(low * high)


@pytest.mark.parametrize(("first", "second", "of_limit"), [(0.1, 0.3, 0.0), (0.5, 0.02, 0.0), (0.04, 0.2, 0.5)])
@pytest.mark.parametrize("z", [-1.0, 0.5, 2.5])
def test_a_ratio_of_gamma_variables_is_as_far_above_1_as_their_cube_roots_say(
    first: float, second: float, of_limit: float, z: float
) -> None:
    a, b = first / 9, second / 9
    exact = root(lambda x: ((1 - a) * x - (1 - b)) - z * math.sqrt(a * x * x + b + of_limit / 9), 1e-3, 1e3)
    assert gamma_ratio_z(exact**3, first, second, of_limit) == pytest.approx(z, rel=1e-6)


@pytest.mark.parametrize("between", [0.0025, 0.3])
def test_z_of_a_rise_is_by_session_and_by_what_varies_between_blocks(between: float) -> None:
    pseudo = max(5000 / 3000, 520 / 210)
    base_rate = (210 + pseudo) / 5000
    of_base = (520 + pseudo**2) / (210 + pseudo) ** 2 + between * 8 / 7
    found = change(NOW, BASE, between)
    assert found is not None
    assert found.rate == pytest.approx(60 / 320, rel=1e-12)
    assert found.base_rate == pytest.approx(base_rate, rel=1e-12)
    assert found.ratio == pytest.approx(60 / 320 / base_rate, rel=1e-12)
    assert found.z == pytest.approx(gamma_ratio_z(60 / 320 / base_rate / 1.25, 190 / 60**2, of_base), rel=1e-12)
    assert found.now is NOW


def test_a_baseline_without_a_defect_counts_as_one_answer_of_the_mean_weight() -> None:
    base = Sums(3000, 0, 5000.0, 0.0, 0.0, 9000.0)
    found = change(NOW, base, 0.01)
    assert found is not None
    assert found.base_rate == pytest.approx(1 / 3000, rel=1e-12)
    assert found.z == pytest.approx(gamma_ratio_z(60 / 320 * 3000 / 1.25, 190 / 60**2, 1 + 0.01 * 8 / 7), rel=1e-12)


def test_a_window_without_a_defect_has_a_ratio_and_no_z() -> None:
    found = change(Sums(10, 0, 20.0, 0.0, 0.0, 40.0), BASE, 0.01)
    assert found is not None
    assert (found.rate, found.ratio, found.z) == (0.0, 0.0, None)


def test_without_results_on_either_side_nothing_is_compared() -> None:
    assert change(Sums(), BASE, 0.01) is None
    assert change(NOW, Sums(), 0.01) is None


BLOCKS = [Sums(50, 5, 80.0 + 9 * n, 4.0 + 9 * n, 12.0 + n, 100.0, 3.0, 20.0 + 2 * n) for n in range(6)]


def test_what_varies_between_blocks_is_beyond_what_sampling_by_session_makes() -> None:
    bad, weight = sum(one.defect_weight for one in BLOCKS), sum(one.weight for one in BLOCKS)
    rate = bad / weight
    squares = sum(max(min(one.defect_products, one.defect_weight**2), one.defect_weight_squares) for one in BLOCKS)
    seen = sum((one.defect_weight - rate * one.weight) ** 2 for one in BLOCKS) * 6 / 5
    expected = (seen - squares) / sum((rate * one.weight) ** 2 for one in BLOCKS)
    assert expected > 0.0025
    assert spread(BLOCKS) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("blocks", [[], BLOCKS[:1], [Sums.counted(9, 0)] * 4, [Sums()] * 4, [Sums.counted(100, 5)] * 4])
def test_blocks_that_look_steady_or_say_nothing_vary_by_5_in_100(blocks: list[Sums]) -> None:
    assert spread(blocks) == 0.05**2


def test_two_blocks_are_enough_to_vary() -> None:
    assert spread([Sums.counted(100, 1), Sums.counted(100, 60)]) > 0.1


def seen(z: float | None, times: float) -> RateChange:
    return RateChange(0.02 * times, 0.02, times, z, NOW)


@pytest.mark.parametrize(("length", "limit"), [(HOUR, 3.6), (6 * HOUR, 3.1), (DAY, 4.2)])
def test_a_window_fires_above_its_z_and_not_at_it(length: float, limit: float) -> None:
    family = rises.FAMILIES["default"]
    assert fired({length: seen(limit, 2.0)}, family) == ()
    assert fired({length: seen(limit + 1e-9, 2.0)}, family) == (length,)
    assert fired({length: seen(None, 2.0)}, family) == ()


def test_three_days_fire_only_while_their_last_day_is_above_the_margin() -> None:
    family, three = rises.FAMILIES["default"], 3 * DAY
    assert fired({three: seen(9.0, 2.0)}, family) == ()
    assert fired({three: seen(9.0, 2.0), DAY: seen(0.0, 1.25)}, family) == ()
    assert fired({three: seen(9.0, 2.0), DAY: seen(0.0, 1.26)}, family) == (three,)
    assert fired({three: seen(9.0, 2.0), DAY: seen(9.0, 1.26), HOUR: seen(9.0, 2.0)}, family) == (HOUR, DAY, three)


def test_a_firing_alert_is_held_by_any_window_but_that_of_an_hour() -> None:
    assert not held({HOUR: seen(99.0, 9.0)})
    assert held({6 * HOUR: seen(1.01, 1.0)})
    assert not held({6 * HOUR: seen(1.0, 9.0)})


@pytest.mark.parametrize(
    ("z", "times", "expected"), [(3.7, 2.1, True), (3.6, 2.1, False), (3.7, 2.0, False), (None, 9.0, False)]
)
def test_an_incident_is_above_both_limits(z: float | None, times: float, expected: bool) -> None:
    assert is_incident({HOUR: seen(z, times)}, rises.HOURS_LOST) is expected
    assert is_incident({DAY: seen(9.0, 9.0)}, rises.HOURS_LOST) is False


def test_the_second_limit_makes_an_incident_where_the_first_has_no_window_or_is_not_reached() -> None:
    assert is_incident({6 * HOUR: seen(3.2, 2.1)}, rises.HOURS_LOST)
    assert is_incident({HOUR: seen(1.0, 1.0), 6 * HOUR: seen(3.2, 2.1)}, rises.HOURS_LOST)


# -- gates


@pytest.mark.parametrize("between", [0.0, 0.04])
def test_the_limits_of_a_ratio_are_where_z_is_196_with_one_session_more_on_their_side(between: float) -> None:
    found = ratio(NOW, Base(BASE, between))
    assert found is not None
    assert found[0] == pytest.approx(60 / 320 / (210 / 5000), rel=1e-12)
    more_base, more_now = max(5000 / 3000, 520 / 210), max(320 / 200, 190 / 60)
    of_now, of_base = 190 / 60**2, (520 + more_base**2) / (210 + more_base) ** 2 + between
    times = 60 / 320 / ((210 + more_base) / 5000)
    assert gamma_ratio_z(times / found[1], of_now, of_base) == pytest.approx(1.959964, rel=1e-6)
    of_now, of_base = (190 + more_now**2) / (60 + more_now) ** 2, 520 / 210**2 + between
    times = (60 + more_now) / 320 / (210 / 5000)
    assert gamma_ratio_z(times / found[2], of_now, of_base) == pytest.approx(-1.959964, rel=1e-6)


def test_a_base_of_earlier_periods_has_their_spread_and_that_of_one_period_more() -> None:
    base = Base.of([*BLOCKS, Sums()])
    assert base.sums == sum(BLOCKS, Sums())
    assert base.spread == pytest.approx(spread(BLOCKS) * 7 / 6, rel=1e-12)
    assert Base.of([]) == Base(Sums(), 0.0)


def test_a_gate_shows_the_value_and_the_limits_that_it_decided_by() -> None:
    found, known = below(NOW, 0.5), estimate(NOW)
    assert known is not None
    assert found.answer is GateDecision.PASS
    assert (found.value, found.lower, found.upper, found.more) == (known.rate, known.lower, known.upper, 0)
    assert below(NOW, 0.01).answer is GateDecision.FAIL
    undecided = below(NOW, known.lower)
    assert undecided.answer is GateDecision.NOT_ENOUGH_DATA
    assert below(NOW, known.upper).answer is GateDecision.NOT_ENOUGH_DATA
    assert undecided.more is not None
    assert undecided.more > 0


@pytest.mark.parametrize(
    ("now", "limit"), [(Sums.counted(40, 4), 0.05), (Sums.counted(20, 0), 0.02), (Sums(), 0.1), (NOW, 0.15)]
)
def test_so_many_more_answers_decide_and_one_fewer_does_not(now: Sums, limit: float) -> None:
    found = below(now, limit)
    assert found.more is not None
    shape = now if now.judged else Sums.counted(1, 0)
    answers = [below(shape.scaled(now.judged + found.more - fewer), limit).answer for fewer in (0, 1)]
    assert answers[0] is not GateDecision.NOT_ENOUGH_DATA
    assert answers[1] is GateDecision.NOT_ENOUGH_DATA


def test_a_ratio_gate_promises_answers_of_the_release_only_where_there_is_a_base() -> None:
    assert at_most_times(Sums(), Base(BASE), 2.0).more is not None
    assert at_most_times(NOW, Base(Sums()), 2.0).more is None
    assert at_most_times(NOW, Base(Sums()), 2.0).value is None
