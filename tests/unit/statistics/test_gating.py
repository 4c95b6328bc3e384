"""The three answers of a release gate."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from monitor.statistics.gating import Base, GateDecision, at_most_times, below, ratio
from monitor.statistics.rates import Z_95, Sums, estimate

WEIGHTED = st.builds(
    lambda good, defects: sum(
        [*(Sums.of(one, defect=False) for one in good), *(Sums.of(one, defect=True) for one in defects)], Sums()
    ),
    st.lists(st.floats(1, 50), min_size=1, max_size=30),
    st.lists(st.floats(1, 50), max_size=10),
)


@pytest.mark.parametrize(
    ("judged", "defects", "answer"),
    [
        (500, 60, GateDecision.FAIL),
        (500, 5, GateDecision.PASS),
        (500, 25, GateDecision.NOT_ENOUGH_DATA),
        (10, 0, GateDecision.NOT_ENOUGH_DATA),
    ],
)
def test_the_bound_of_the_interval_decides_on_a_rate_of_5_percent(
    judged: int, defects: int, answer: GateDecision
) -> None:
    assert below(Sums.counted(judged, defects), 0.05).answer is answer


@given(WEIGHTED, st.floats(0.001, 0.999))
def test_a_rate_fails_above_its_lower_limit_and_passes_below_its_upper_one(sums: Sums, limit: float) -> None:
    found, expected = below(sums, limit), estimate(sums, Z_95)
    assert expected is not None
    assert (found.answer is GateDecision.FAIL) == (expected.lower > limit)
    assert (found.answer is GateDecision.PASS) == (expected.upper < limit)


def test_nothing_judged_is_never_a_pass_and_says_how_many_good_answers_it_takes() -> None:
    found = below(Sums(), 0.05)
    assert (found.answer, found.value) == (GateDecision.NOT_ENOUGH_DATA, None)
    assert found.more is not None
    assert below(Sums.counted(found.more, 0), 0.05).answer is GateDecision.PASS
    assert below(Sums.counted(found.more - 1, 0), 0.05).answer is GateDecision.NOT_ENOUGH_DATA


@pytest.mark.parametrize(("judged", "defects"), [(100, 8), (100, 2), (40, 0)])
def test_so_many_more_of_the_same_do_decide(judged: int, defects: int) -> None:
    found = below(Sums.counted(judged, defects), 0.05)
    assert found.answer is GateDecision.NOT_ENOUGH_DATA
    assert found.more is not None
    more = Sums.counted(judged, defects).scaled(judged + found.more)
    assert below(more, 0.05).answer is not GateDecision.NOT_ENOUGH_DATA


def test_a_rate_that_is_the_limit_is_not_promised_to_be_decided() -> None:
    assert below(Sums.counted(100, 5), 0.05).more is None


@pytest.mark.parametrize(
    ("now", "base", "answer"),
    [
        (Sums.counted(500, 60), Sums.counted(500, 10), GateDecision.FAIL),
        (Sums.counted(1000, 50), Sums.counted(1000, 50), GateDecision.PASS),
        (Sums.counted(50, 3), Sums.counted(500, 10), GateDecision.NOT_ENOUGH_DATA),
        (Sums.counted(500, 60), Sums(), GateDecision.NOT_ENOUGH_DATA),
        (Sums(), Sums.counted(500, 60), GateDecision.NOT_ENOUGH_DATA),
        (Sums.counted(500, 0), Sums.counted(500, 0), GateDecision.NOT_ENOUGH_DATA),
        (Sums.counted(500, 0), Sums.counted(500, 60), GateDecision.PASS),
    ],
)
def test_the_bound_of_the_ratio_decides_on_twice_as_high(now: Sums, base: Sums, answer: GateDecision) -> None:
    assert at_most_times(now, Base(base), 2.0).answer is answer


@given(WEIGHTED, WEIGHTED, st.floats(0, 2))
def test_a_ratio_lies_within_its_limits(now: Sums, base: Sums, spread: float) -> None:
    found = ratio(now, Base(base, spread))
    assert found is not None
    value, lower, upper = found
    assert 0 <= lower <= value <= upper


@given(WEIGHTED, WEIGHTED, st.floats(0.2, 5))
def test_the_limit_of_a_ratio_is_where_paulson_s_z_is_1_96(now: Sums, base: Sums, times: float) -> None:
    """So a ratio that is surely above by its interval is so by the test that the PromQL has."""
    assume(now.defects)
    found = ratio(now, Base(base))
    assert found is not None
    pseudo = base.weight / base.judged
    if base.defects:
        pseudo = max(pseudo, base.defect_weight_squares / base.defect_weight)
    weight, squares = base.defect_weight + pseudo, base.defect_weight_squares + pseudo**2
    b1, b2 = now.defect_weight_squares / now.defect_weight**2 / 9, squares / weight**2 / 9
    rates = now.defect_weight / now.weight / (weight / base.weight)
    x = (rates / times) ** (1 / 3)
    z = ((1 - b1) * x - (1 - b2)) / math.sqrt(b1 * x * x + b2)
    assume(abs(z - Z_95) > 1e-6)
    assert (found[1] > times) == (z > Z_95)


def test_a_base_that_varies_from_hour_to_hour_makes_the_interval_wider() -> None:
    steady = Base.of([Sums.counted(100, 5)] * 20)
    bursts = Base.of([Sums.counted(100, 0), Sums.counted(100, 10)] * 10)
    assert steady.sums == bursts.sums
    now = Sums.counted(300, 30)
    narrow, wide = ratio(now, steady), ratio(now, bursts)
    assert narrow is not None
    assert wide is not None
    assert wide[1] < narrow[1] < narrow[2] < wide[2]


def test_sides_at_the_very_limit_are_decided_as_seldom_as_is_said() -> None:
    """Drawn 800 times: either limit is missed in 2.5 %, and what chance adds."""
    rng = random.Random(3)
    failed = passed = 0
    for _ in range(800):
        now, base = (Sums.counted(200, sum(rng.random() < rate for _ in range(200))) for rate in (0.1, 0.05))
        found = ratio(now, Base(base))
        assert found is not None
        failed, passed = failed + (found[1] > 2), passed + (found[2] < 2)
    assert 0 < failed <= 800 * 0.042
    assert 0 < passed <= 800 * 0.042
