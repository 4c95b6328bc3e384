"""The formulas of the excess, worked out once more from their definitions, with weights and sessions that differ."""

from __future__ import annotations

import math
from dataclasses import astuple

import pytest

from monitor.statistics.diagnosis.cases import CaseSums, WeighedCase
from monitor.statistics.diagnosis.excess import (
    HIGHEST,
    Sides,
    excess_z,
    expected_of,
    mix,
    own_rate,
    rise_share,
    share_interval,
    visible_share,
)

EVERY = Sides(
    CaseSums(900, 210, 180, weight=640.0, timed=655.0, bad_weight=130.0, bad_squares=104.0, good_squares=330.0),
    CaseSums(9000, 500, 450, weight=7000.0, timed=7000.0, bad_weight=350.0, bad_squares=315.0, good_squares=5100.0),
)
"""Usually 5 in 100 are bad, since the onset 20; a unit of bad answers weighs 0.9 before and 0.8 since."""

NO_WORSE = Sides(
    CaseSums(120, 60, 50, weight=90.0, timed=96.0, bad_weight=45.0, bad_squares=40.0, good_squares=38.0),
    CaseSums(1100, 40, 35, weight=800.0, timed=800.0, bad_weight=28.0, bad_squares=30.0, good_squares=600.0),
)
WORSE = Sides(
    CaseSums(160, 70, 66, weight=120.0, timed=115.0, bad_weight=52.0, bad_squares=45.0, good_squares=58.0),
    CaseSums(700, 80, 75, weight=500.0, timed=500.0, bad_weight=60.0, bad_squares=50.0, good_squares=330.0),
)
MORE = Sides(
    CaseSums(300, 110, 90, weight=200.0, timed=210.0, bad_weight=66.0, bad_squares=52.0, good_squares=110.0),
    CaseSums(600, 190, 170, weight=420.0, timed=420.0, bad_weight=130.0, bad_squares=110.0, good_squares=220.0),
)
NEW = Sides(NO_WORSE.now, CaseSums())
FACTORS = pytest.mark.parametrize("own", [NO_WORSE, WORSE, MORE, NEW], ids=["no worse", "worse", "more", "new"])
OUTCOMES = pytest.mark.parametrize("outcome", [False, True])


def z_of(ratio: float, first: float, second: float, of_limit: float = 0.0) -> float:
    x = ratio ** (1 / 3)
    return ((1 - first / 9) * x - (1 - second / 9)) / math.sqrt(first / 9 * x**2 + second / 9 + of_limit / 9)


class Before:
    """What was usual of a factor before the onset: by counts of units of its own size, and of the rest."""

    def __init__(self, own: CaseSums, every: CaseSums) -> None:
        unit = every.bad_squares / every.bad_weight
        self.unit = own.bad_squares / own.bad_weight if own.bad_weight else unit
        self.rest = (every.bad_weight - own.bad_weight + 0.5 * unit) / (every.weight - own.weight + 0.5 * unit)
        self.rest_count = (every.bad_weight - own.bad_weight) / unit
        self.seen, self.due = own.bad_weight / self.unit, own.weight * self.rest / self.unit
        self.prior = 4.0 if self.seen <= self.due else 1.0
        self.rate = self.rest * (self.seen + 1) / (self.due + 1)


def kept_of(own: Sides, *, outcome: bool) -> float:
    before, now = own.past.weight / EVERY.past.weight, own.now.weight / EVERY.now.weight
    return 1.0 if outcome else min(1.0, before / now)


@FACTORS
@OUTCOMES
def test_z_compares_the_odds_with_those_that_a_common_rise_makes(own: Sides, outcome: bool) -> None:
    before, now = Before(own.past, EVERY.past), own.now
    out_bad = EVERY.now.bad_weight - now.bad_weight
    out_unit = (EVERY.now.bad_squares - now.bad_squares) / out_bad
    out_count = out_bad / out_unit + 1
    out_rate = (out_bad + out_unit) / (EVERY.now.timed - now.timed)
    times = (before.seen + before.prior) / (before.due + before.prior)
    common = out_rate * now.timed
    multiplied, added = common * times, common + now.weight * before.rest * (times - 1)
    raised = min(max(multiplied, added), 0.98 * now.weight)
    kept = kept_of(own, outcome=outcome)
    mixed = kept * raised + (1 - kept) * common
    expected = min(mixed / now.weight, 0.98)
    uncertain = (kept * raised / mixed) ** 2 * (1 / (before.seen + before.prior) + 1 / before.rest_count)
    good = now.weight - now.bad_weight
    one_more = max(now.bad_squares / now.bad_weight, EVERY.now.good_squares / (EVERY.now.weight - EVERY.now.bad_weight))
    odds = now.bad_weight / (good + one_more)
    z = z_of(
        odds / (expected / (1 - expected)),
        now.bad_squares / now.bad_weight**2,
        1 / (good**2 / now.good_squares + 1),
        (1 / out_count + uncertain) / (1 - expected) ** 2,
    )
    assert excess_z(own, EVERY, outcome=outcome) == pytest.approx(z, rel=1e-9)


@FACTORS
@OUTCOMES
def test_what_is_expected_without_a_rise_is_by_how_frequent_a_factor_was(own: Sides, outcome: bool) -> None:
    before, kept = Before(own.past, EVERY.past), kept_of(own, outcome=outcome)
    assert own_rate(own.past, EVERY.past) == pytest.approx(before.rate, rel=1e-9)
    expected = kept * before.rate + (1 - kept) * before.rest
    assert expected_of(own, EVERY, outcome=outcome) == pytest.approx(expected, rel=1e-9)
    rise = 130.0 - 640.0 * 350.0 / 7000.0
    share = (own.now.bad_weight - own.now.weight * expected) / rise
    assert rise_share(own, EVERY, outcome=outcome) == pytest.approx(share, rel=1e-9)


def past_variance(own: Sides, share: float, *, outcome: bool) -> float:
    """By the slopes of the share along the bad weight before, with and without the factor, by small differences."""
    before, kept = Before(own.past, EVERY.past), kept_of(own, outcome=outcome)
    unit = EVERY.past.bad_squares / EVERY.past.bad_weight

    def excess(with_it: float, without: float) -> float:
        """The numerator of the share less the share of the rise: both move it."""
        bad, rest_bad = own.past.bad_weight + with_it, EVERY.past.bad_weight - own.past.bad_weight + without
        rest = (rest_bad + unit / 2) / (EVERY.past.weight - own.past.weight + unit / 2)
        rate = rest * (bad / before.unit + 1) / (own.past.weight * rest / before.unit + 1)
        of_all = (bad + rest_bad) / EVERY.past.weight
        return share * EVERY.now.weight * of_all - own.now.weight * (kept * rate + (1 - kept) * rest)

    step = 1e-4
    by_own = (excess(step, 0) - excess(-step, 0)) / (2 * step)
    by_rest = (excess(0, step) - excess(0, -step)) / (2 * step)
    rest_bad = EVERY.past.bad_weight - own.past.bad_weight
    return by_own**2 * (own.past.bad_weight + before.unit) * before.unit + by_rest**2 * rest_bad * unit


ROWS = [WeighedCase(float(at), 0.2 + at % 5 / 8, at % 3 == 0, at % 7, (1,) if at % 4 < 2 else ()) for at in range(40)]
HAVING = [at for at, row in enumerate(ROWS) if row.factors]


@FACTORS
@OUTCOMES
@pytest.mark.parametrize("rows", [[], ROWS], ids=["the past alone", "both"])
def test_the_interval_of_the_share_is_by_unit_since_the_onset_and_by_slopes_before_it(
    own: Sides, outcome: bool, rows: list[WeighedCase]
) -> None:
    share, expected = rise_share(own, EVERY, outcome=outcome), expected_of(own, EVERY, outcome=outcome)
    units = dict.fromkeys(range(7), 0.0)
    for at, row in enumerate(rows):
        own_part = row.bad - expected if at in HAVING else 0.0
        units[row.unit] += row.weight * (own_part - share * (row.bad - 0.05))
    rise = 130.0 - 640.0 * 0.05
    variance = sum(one**2 for one in units.values()) + past_variance(own, share, outcome=outcome)
    half = 1.644854 * math.sqrt(variance) / rise
    found = share_interval(own, EVERY, rows, HAVING, outcome=outcome)
    tolerance = 5e-3 if own is not NEW else 2e-2  # the slope of a shrunk rate is taken at the rate of the rest
    assert astuple(found) == pytest.approx((share, share - half, share + half), rel=tolerance)


@pytest.mark.parametrize("own", [WORSE, MORE], ids=["worse", "more"])
def test_a_mix_is_as_certain_as_its_frequency_and_its_rate_before(own: Sides) -> None:
    squares, past_squares = 75.0, 260.0
    found, before = mix(own, EVERY, squares=squares, past_squares=past_squares), Before(own.past, EVERY.past)
    now, past = own.now, own.past
    frequency = (now.weight / 640.0) / (past.weight / 7000.0)
    more = z_of(frequency, squares / now.weight**2, past_squares / past.weight**2)
    rest_bad, rest_squares = 350.0 - past.bad_weight, 315.0 - past.bad_squares
    ratio = (past.bad_weight / past.weight) / (rest_bad / (7000.0 - past.weight))
    worse = z_of(ratio, past.bad_squares / past.bad_weight**2, 1 / (rest_bad**2 / rest_squares + 1))
    rise, extra = 130.0 - 640.0 * 0.05, now.weight - 640.0 * past.weight / 7000.0
    assert found is not None
    assert found.z == pytest.approx(min(more, worse), rel=1e-9)
    assert found.share == pytest.approx(extra * (before.rate - before.rest) / rise, rel=1e-9)
    assert found.plain_share == pytest.approx(extra * (past.bad_weight / past.weight - before.rest) / rise, rel=1e-9)


def test_a_mix_is_certain_only_as_far_as_it_is_more_frequent() -> None:
    rarely = Sides(WORSE.now._replace(weight=46.2), WORSE.past)  # half an answer more than before
    found = mix(rarely, EVERY, squares=30.0, past_squares=260.0)
    assert found is not None
    assert found.z == pytest.approx(z_of(46.2 / 640 / (500 / 7000), 30 / 46.2**2, 260 / 500**2), rel=1e-9)


@pytest.mark.parametrize(
    "own",
    [
        Sides(WORSE.now._replace(weight=640.0 * 500.0 / 7000.0), WORSE.past),  # as frequent as before
        Sides(WORSE.now, WORSE.past._replace(bad_weight=0.0, bad_squares=0.0)),
        Sides(EVERY.now, EVERY.past),
        Sides(NO_WORSE.now, NO_WORSE.past),
    ],
    ids=["as frequent", "never bad", "all answers", "no worse"],
)
def test_there_is_no_mix_of_what_is_as_frequent_or_was_no_worse_or_has_no_rest(own: Sides) -> None:
    assert mix(own, EVERY, squares=50.0, past_squares=100.0) is None


def test_a_rest_without_a_bad_answer_counts_as_one_unit() -> None:
    past = MORE.past._replace(bad_weight=350.0, bad_squares=315.0)
    found = mix(Sides(MORE.now, past), EVERY, squares=75.0, past_squares=260.0)
    assert found is not None
    more = z_of((200 / 640) / (420 / 7000), 75 / 200**2, 260 / 420**2)
    worse = z_of((350 / 420) / (0.9 / 6580), 315 / 350**2, 1.0)
    assert found.z == pytest.approx(min(more, worse), rel=1e-9)


def test_no_rate_above_98_in_100_is_expected_of_a_factor() -> None:
    every = CaseSums(
        1000, 700, 700, weight=1000.0, timed=1000.0, bad_weight=700.0, bad_squares=700.0, good_squares=300.0
    )
    always = CaseSums(500, 500, 500, weight=500.0, timed=500.0, bad_weight=500.0, bad_squares=500.0)
    assert own_rate(always, every) == HIGHEST == 0.98


def test_the_smallest_visible_share_is_the_first_hundredth_at_which_z_is_reached_4_times_in_5() -> None:
    limit, rise = 3.5, 130.0 - 640.0 * 0.05
    unit = 104.0 / 130.0

    def z_at(share: float) -> float:
        weight = share * rise / (0.7 - 0.05)
        bad = 0.7 * weight
        now = CaseSums(
            weight=weight, timed=weight, bad_weight=bad, bad_squares=bad * unit, good_squares=(weight - bad) * unit
        )
        part = weight / 640.0
        past = CaseSums(weight=part * 7000.0, bad_weight=part * 350.0, bad_squares=part * 315.0)
        return excess_z(Sides(now, past), EVERY)

    first = next(number / 100 for number in range(10, 101) if z_at(number / 100) >= limit + 0.841621)
    assert visible_share(EVERY, limit) == pytest.approx(first)
    assert 0.1 < first < 1
    for wanted in (2.0, 2.7, 4.5, 5.5):
        first = next(number / 100 for number in range(10, 101) if z_at(number / 100) >= wanted + 0.841621)
        assert visible_share(EVERY, wanted) == pytest.approx(first)


def test_a_cause_of_which_fewer_than_three_units_are_bad_is_not_visible() -> None:
    few = Sides(EVERY.now._replace(weight=20.0, timed=20.0, bad_weight=3.9, bad_squares=3.9 * 1.2), EVERY.past)
    found = visible_share(few, -5.0)
    rise = 3.9 - 20 * 0.05
    least = math.ceil(100 * 3 * 1.2 / 0.7 * (0.7 - 0.05) / rise) / 100
    assert found is None or found == pytest.approx(least)
    assert least > 1


@pytest.mark.parametrize("limit", [math.inf, math.nan])
def test_without_a_limit_nothing_is_visible(limit: float) -> None:
    assert visible_share(EVERY, limit) is None


def test_nothing_is_visible_without_a_rise_or_where_7_in_10_were_bad_before() -> None:
    level = Sides(EVERY.now._replace(bad_weight=32.0), EVERY.past)
    assert visible_share(level, 3.5) is None
    bad = Sides(EVERY.now._replace(bad_weight=600.0), EVERY.past._replace(bad_weight=4900.0))
    assert visible_share(bad, 3.5) is None
