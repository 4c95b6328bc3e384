"""The test of a rise against the week before: its formula, its limits, and what is an incident."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.change import (
    DAY,
    DAYS_LOST,
    FAMILIES,
    FLOOR,
    HOUR,
    HOURS_LOST,
    MARGIN,
    WINDOWS,
    RateChange,
    change,
    fired,
    held,
    is_incident,
    spread,
)
from monitor.statistics.rates import Sums

sums = st.builds(
    lambda good, bad, weight: Sums(
        good + bad, bad, (good + bad) * weight, bad * weight, bad * weight**2, good * weight**2
    ),
    st.integers(0, 500),
    st.integers(0, 50),
    st.sampled_from([1.0, 10.0, 20.0]),
)
judged = sums.filter(lambda one: one.judged > 0)


def equal(count: int, defects: int, weight: float = 1.0) -> Sums:
    return Sums(count, defects, count * weight, defects * weight, defects * weight**2)


def seen(z: float | None, ratio: float) -> RateChange:
    return RateChange(ratio * 0.02, 0.02, ratio, z, equal(100, 5))


def test_the_formula_by_hand() -> None:
    """20 of 100 against 20 of 1000 (21 with the pseudo defect), with nothing but the floor for a spread."""
    one = change(equal(100, 20), equal(1000, 20), FLOOR**2)
    assert one is not None
    b1, b2 = 1 / 20 / 9, (1 / 21 + FLOOR**2 * 8 / 7) / 9
    x = (0.2 / 0.021 / 1.25) ** (1 / 3)
    assert one.ratio == pytest.approx(0.2 / 0.021)
    assert one.z == pytest.approx(((1 - b1) * x - (1 - b2)) / math.sqrt(b1 * x * x + b2))
    assert one.z == pytest.approx(5.8441, abs=1e-4)


@pytest.mark.parametrize(
    ("now", "base", "blocks", "z", "ratio"),
    [
        (
            Sums(40, 4, 400, 40, 400),
            Sums(3000, 60, 30000, 600, 6000),
            [Sums(100, 1, 1000, 10.0 + more, 100.0 + 10 * more) for more in range(0, 30, 5)],
            2.01,
            4.918,
        ),
        (
            Sums(240, 20, 3600, 300, 5000),
            Sums(1680, 40, 25200, 500, 8000),
            [Sums(240, 4, 3600, 60, 900), Sums(240, 6, 3600, 90, 1400), Sums(240, 4, 3600, 50, 800)],
            3.6222,
            4.0698,
        ),
        (equal(100, 20), equal(1000, 0), [], 8.5979, 200.0),
    ],
    ids=["equal weights", "unequal weights", "no defect before"],
)
def test_figures_of_the_rule_as_it_was_simulated(
    now: Sums, base: Sums, blocks: list[Sums], z: float, ratio: float
) -> None:
    """Computed by the code that the simulations ran."""
    one = change(now, base, spread(blocks))
    assert one is not None
    assert (one.z, one.ratio) == (pytest.approx(z, abs=5e-5), pytest.approx(ratio, abs=5e-5))


def test_the_spread_by_hand() -> None:
    """Rates of 1 % and 3 % in turn vary by half of their mean, beyond what 1,000 judged a block explain."""
    blocks = [equal(1000, 10), equal(1000, 30)] * 4
    deviations = 8 * 10**2 * 8 / 7
    assert spread(blocks) == pytest.approx((deviations - 160) / (0.02**2 * 8 * 1000**2))


@pytest.mark.parametrize("blocks", [[], [equal(10, 5)], [equal(10, 0)] * 7, [Sums()] * 7])
def test_blocks_that_cannot_vary_have_the_floor_for_a_spread(blocks: list[Sums]) -> None:
    assert spread(blocks) == FLOOR**2


def test_nothing_judged_in_the_window_or_before_is_no_comparison() -> None:
    assert change(Sums(), equal(100, 2), 0.01) is None
    assert change(equal(100, 2), Sums(), 0.01) is None


def test_a_window_without_a_defect_has_a_ratio_but_is_never_sure() -> None:
    one = change(equal(100, 0), equal(1000, 20), 0.01)
    assert one is not None
    assert (one.ratio, one.z) == (0.0, None)


counts = st.tuples(st.integers(0, 500), st.integers(0, 50)).filter(any)


@given(counts, counts.filter(lambda base: base[1] > 0), st.lists(counts, max_size=8), st.sampled_from([2, 10, 100]))
def test_sessions_that_agree_are_as_clear_as_so_many_single_answers(
    now: tuple[int, int], base: tuple[int, int], blocks: list[tuple[int, int]], size: int
) -> None:
    """What varies by session between the blocks of a baseline with defects is counted once, not twice."""

    def compared(per_session: int) -> RateChange | None:
        def sums(of: tuple[int, int]) -> Sums:
            return Sums.counted(sum(of) * per_session, of[1] * per_session, per_session)

        return change(sums(now), sums(base), spread([sums(one) for one in blocks]))

    single, agreeing = compared(1), compared(size)
    assert single is not None
    assert agreeing is not None
    assert agreeing.ratio == pytest.approx(single.ratio)
    assert (agreeing.z is None) == (single.z is None)
    if single.z is not None:
        assert agreeing.z == pytest.approx(single.z, rel=1e-6, abs=1e-6)


@given(judged, judged, st.floats(0.0025, 1))
def test_as_many_defects_per_answer_as_before_or_fewer_are_never_a_regression(
    now: Sums, base: Sums, extra: float
) -> None:
    one = change(now, base, extra)
    if one is not None and one.z is not None and one.ratio <= 1:
        assert one.z < min(FAMILIES["sensitive"].values())


@given(judged, judged, st.floats(0.0025, 0.2), st.floats(1.01, 4))
def test_a_baseline_that_varies_more_makes_what_is_sure_less_so(
    now: Sums, base: Sums, extra: float, factor: float
) -> None:
    one, other = change(now, base, extra), change(now, base, extra * factor)
    if one is not None and one.z is not None and one.z > 2.3 and now.defects >= 5:
        assert other is not None
        assert other.z is not None
        assert other.z < one.z


@given(judged, judged, st.lists(judged, max_size=8), st.sampled_from([0.5, 3.0, 1000.0]))
def test_the_unit_of_the_weights_does_not_matter(now: Sums, base: Sums, blocks: list[Sums], unit: float) -> None:
    def scaled(one: Sums) -> Sums:
        return replace(
            one,
            weight=one.weight * unit,
            defect_weight=one.defect_weight * unit,
            defect_weight_squares=one.defect_weight_squares * unit**2,
        )

    one = change(now, base, spread(blocks))
    other = change(scaled(now), scaled(base), spread([scaled(block) for block in blocks]))
    assert one is not None
    assert other is not None
    assert other.ratio == pytest.approx(one.ratio)
    assert (other.z is None) == (one.z is None)
    if one.z is not None:
        assert other.z == pytest.approx(one.z, rel=1e-6, abs=1e-6)


@given(st.lists(judged, min_size=2, max_size=20))
def test_the_spread_is_finite_and_not_below_the_floor(blocks: list[Sums]) -> None:
    assert FLOOR**2 <= spread(blocks) < math.inf


@given(judged, st.integers(1, 40), judged)
def test_the_more_defects_the_surer(now: Sums, more: int, base: Sums) -> None:
    """Further answers of the same weight, all defective."""
    weight = now.weight / now.judged
    worse = now + Sums(more, more, more * weight, more * weight, more * weight**2)
    one, other = change(now, base, FLOOR**2), change(worse, base, FLOOR**2)
    assert one is not None
    assert other is not None
    if one.z is not None and other.z is not None and one.z > 0:
        assert other.z > one.z


def test_the_families_are_ordered_and_each_knows_every_window() -> None:
    for window in WINDOWS:
        of = {name: family[window.length] for name, family in FAMILIES.items()}
        assert of["sensitive"] < of["default"] < of["strict"]


def test_a_window_fires_above_its_own_threshold_only() -> None:
    changes = {HOUR: seen(3.6, 3), 6 * HOUR: seen(3.2, 3), DAY: seen(4.1, 3)}
    assert fired(changes, FAMILIES["default"]) == (6 * HOUR,)
    assert fired(changes, FAMILIES["strict"]) == ()
    assert fired(changes, FAMILIES["sensitive"]) == (HOUR, 6 * HOUR, DAY)


@pytest.mark.parametrize(
    ("day", "fires"), [(seen(0.5, MARGIN + 0.01), True), (seen(0.5, MARGIN), False), (None, False)]
)
def test_three_days_count_only_while_the_last_one_is_above_the_margin(day: RateChange | None, fires: bool) -> None:
    changes = {3 * DAY: seen(5, 2), **({DAY: day} if day is not None else {})}
    assert bool(fired(changes, FAMILIES["default"])) is fires


def test_six_hours_and_more_hold_an_alert_while_they_are_rather_above_and_an_hour_never_does() -> None:
    assert not held({HOUR: seen(9, 9)})
    assert held({6 * HOUR: seen(1.1, 1.5)})
    assert held({DAY: seen(1.1, 1.5)})
    assert not held({6 * HOUR: seen(1, 1.5), DAY: seen(None, 0)})
    assert held({3 * DAY: seen(1.1, 1.5), DAY: seen(0.1, MARGIN + 0.01)})
    assert not held({3 * DAY: seen(1.1, 1.5), DAY: seen(-1, MARGIN)}), "three days remember what is over"


@given(
    st.dictionaries(
        st.sampled_from([one.length for one in WINDOWS[1:]]), st.builds(seen, st.floats(-5, 9), st.floats(0.5, 5))
    )
)
def test_what_fires_by_six_hours_or_more_would_also_be_held(changes: dict[float, RateChange]) -> None:
    for family in FAMILIES.values():
        if fired(changes, family):
            assert held(changes)


def test_an_incident_is_both_sure_and_large() -> None:
    assert is_incident({HOUR: seen(3.7, 2.1)}, HOURS_LOST)
    assert is_incident({6 * HOUR: seen(3.2, 2.1)}, HOURS_LOST)
    assert not is_incident({HOUR: seen(3.7, 2.0), 6 * HOUR: seen(3.1, 5)}, HOURS_LOST)
    assert not is_incident({HOUR: seen(None, 2.1)}, HOURS_LOST)
    assert is_incident({DAY: seen(3.2, 1.7)}, DAYS_LOST)
    assert not is_incident({DAY: seen(3.2, 1.6), HOUR: seen(9, 9)}, DAYS_LOST)
