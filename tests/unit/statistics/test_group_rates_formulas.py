"""The z of groups once more from its definition, and who is compared at all."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from monitor.statistics.diagnosis.cases import CaseSums, Factor, JudgedCase, Prepared, sums_of
from monitor.statistics.group_rates import compare_groups, corrected_z, group_sums, worse_z

EVERY = CaseSums(900, 210, 180, weight=640.0, timed=655.0, bad_weight=130.0, bad_squares=104.0, good_squares=330.0)
GROUPS = [
    CaseSums(120, 60, 50, weight=90.0, timed=96.0, bad_weight=45.0, bad_squares=40.0, good_squares=38.0),
    CaseSums(30, 4, 4, weight=25.0, timed=24.0, bad_weight=3.0, bad_squares=2.5, good_squares=30.0),
    CaseSums(9, 9, 8, weight=8.0, timed=8.5, bad_weight=8.0, bad_squares=7.0, good_squares=0.0),
]


def z_of(ratio: float, first: float, second: float, of_limit: float) -> float:
    x = ratio ** (1 / 3)
    return ((1 - first / 9) * x - (1 - second / 9)) / math.sqrt(first / 9 * x**2 + second / 9 + of_limit / 9)


@pytest.mark.parametrize("own", GROUPS, ids=["many", "few", "all bad"])
def test_z_compares_the_odds_of_a_group_with_those_of_all_others_in_its_hours(own: CaseSums) -> None:
    out = 130.0 - own.bad_weight
    unit = (104.0 - own.bad_squares) / out
    expected = (out + unit) / (655.0 - own.timed) * own.timed / own.weight
    good = own.weight - own.bad_weight
    odds = own.bad_weight / (good + max(own.bad_squares / own.bad_weight, 330.0 / 510.0))
    good_count = (good**2 / own.good_squares if own.good_squares else 0.0) + 1
    z = z_of(
        odds * (1 - expected) / expected,
        own.bad_squares / own.bad_weight**2,
        1 / good_count,
        1 / (out / unit + 1) / (1 - expected) ** 2,
    )
    assert worse_z(own, EVERY) == pytest.approx(z, rel=1e-9)


def test_where_no_other_answer_is_bad_one_unit_more_is() -> None:
    own = CaseSums(90, 50, 50, weight=90.0, timed=90.0, bad_weight=50.0, bad_squares=60.0, good_squares=40.0)
    every = CaseSums(290, 50, 50, weight=290.0, timed=290.0, bad_weight=50.0, bad_squares=60.0, good_squares=240.0)
    expected = 1.2 / 200.0
    odds = 50 / (40 + 1.2)
    z = z_of(odds * (1 - expected) / expected, 60 / 2500, 1 / (1600 / 40 + 1), 1 / (1 - expected) ** 2)
    assert worse_z(own, every) == pytest.approx(z, rel=1e-9)


@pytest.mark.parametrize(("tried", "sides"), [(1, 1), (7, 1), (40, 2), (0, 1)])
def test_the_level_of_5_in_100_is_shared_out_among_the_groups_and_sides(tried: int, sides: int) -> None:
    tail = 1 - NormalDist().cdf(corrected_z(tried, sides=sides))
    assert tail == pytest.approx(0.05 / sides / max(tried, 1), rel=1e-9)


def document(name: str) -> Factor:
    return Factor("document", "document", name)


def cases(group: int, bad: int, others: int = 95, other_bad: int = 5, sessions: int = 10**6) -> list[JudgedCase]:
    """The bad answers of the group are in so many sessions."""
    own = [JudgedCase(9.0 + at, at < bad, f"g{at % sessions}", (document("own"),)) for at in range(group)]
    rest = [JudgedCase(9.5 + at, at < other_bad, f"o{at}", (document("rest"),)) for at in range(others)]
    return [*own, *rest]


def z_of_group(given: list[JudgedCase], name: str = "own") -> float | None:
    return next(one.z for one in compare_groups(given).groups if one.factor.value == name)


@pytest.mark.parametrize(("number", "compared"), [(4, False), (5, True), (90, True)])
def test_a_group_is_compared_from_5_answers_on(number: int, compared: bool) -> None:
    assert (z_of_group(cases(number, 4, others=200)) is not None) is compared


@pytest.mark.parametrize(("others", "compared"), [(5, True), (4, False)])
def test_a_group_of_more_than_9_in_10_answers_is_not_compared(others: int, compared: bool) -> None:
    given = cases(45, 20, others=others, other_bad=1)
    assert (z_of_group(given) is not None) is compared
    assert compare_groups(given).tried == (2 if compared else 0)


@pytest.mark.parametrize(("bad", "sessions", "finite"), [(2, 99, False), (3, 99, True), (6, 2, False), (6, 3, True)])
def test_a_group_needs_bad_answers_of_three_sessions(bad: int, sessions: int, finite: bool) -> None:
    z = z_of_group(cases(20, bad, sessions=sessions))
    assert z is not None
    assert math.isfinite(z) is finite


def test_a_group_is_surely_worse_from_the_limit_on_and_says_its_sums() -> None:
    given = cases(20, 12)
    found = compare_groups(given)
    own = next(one for one in found.groups if one.factor.value == "own")
    assert found.limit == corrected_z(found.tried)
    assert own.surely_worse
    assert own.z is not None
    assert own.z > found.limit
    assert own.sums == group_sums(given)[document("own")] == sums_of(Prepared(given[:20]).rows)
    assert found.whole == sums_of(Prepared(given).rows)
    assert own.beside is None
    assert not next(one for one in found.groups if one.factor.value == "rest").surely_worse


def test_answers_of_which_none_is_bad_have_no_worse_group() -> None:
    found = compare_groups(cases(20, 0, other_bad=0))
    assert [one.z for one in found.groups] == [None, -math.inf] or [one.z for one in found.groups] == [-math.inf] * 2
    assert not any(one.surely_worse for one in found.groups)
    assert compare_groups([]).groups == ()
