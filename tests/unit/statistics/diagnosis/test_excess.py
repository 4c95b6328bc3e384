"""Whether a factor is worse than a common rise makes it: against exact tails, and the rules of its expectation."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from monitor.statistics.diagnosis.cases import CaseSums
from monitor.statistics.diagnosis.excess import (
    Sides,
    excess_z,
    mix,
    own_rate,
    rise_share,
    share_interval,
    visible_share,
)


def counted(cases: float, bad: float) -> CaseSums:
    """Cases of weight 1, each a unit of its own."""
    return CaseSums(round(cases), round(bad), round(bad), cases, cases, bad, bad, cases - bad)


EVERY = Sides(counted(1000, 200), counted(10_000, 500))


def exact_tail(cases: int, bad: int, rate: float) -> float:
    """The chance of as many bad ones or more."""
    return sum(math.comb(cases, one) * rate**one * (1 - rate) ** (cases - one) for one in range(bad, cases + 1))


@pytest.mark.parametrize(("cases", "bad", "rate"), [(50, 12, 0.1), (20, 9, 0.2), (200, 40, 0.1), (100, 70, 0.5)])
def test_z_is_the_tail_of_the_binomial_where_everything_else_is_known(cases: int, bad: int, rate: float) -> None:
    many = 1e7
    own = Sides(counted(cases, bad), counted(many, many * rate / 2))
    every = Sides(counted(many, many * rate), counted(2 * many, many * rate))
    tail = 1 - NormalDist().cdf(excess_z(own, every))
    assert tail == pytest.approx(exact_tail(cases, bad, rate), rel=0.1)


def test_a_factor_that_rose_as_all_did_does_not_stand_out() -> None:
    assert abs(excess_z(Sides(counted(100, 20), counted(1000, 50)), EVERY)) < 0.5


def test_a_factor_that_became_worse_than_all_stands_out() -> None:
    assert excess_z(Sides(counted(100, 60), counted(1000, 50)), EVERY) > 4


@pytest.mark.parametrize("bad", [40, 23])
def test_a_standing_risk_is_no_cause_whether_the_rise_multiplies_or_adds(bad: int) -> None:
    riskier = counted(1000, 100 if bad == 40 else 10)
    assert excess_z(Sides(counted(100, bad), riskier), EVERY) < 2.5


def test_a_factor_without_a_bad_answer_never_stands_out() -> None:
    assert excess_z(Sides(counted(100, 0), counted(1000, 50)), EVERY) == -math.inf


def test_a_factor_that_is_new_is_compared_with_the_rest() -> None:
    assert excess_z(Sides(counted(100, 70), CaseSums()), EVERY) > 4
    assert own_rate(CaseSums(), EVERY.past) == pytest.approx(0.05, rel=0.01)


def test_the_cause_of_nearly_the_whole_rise_can_be_tested() -> None:
    every = Sides(counted(1000, 120), counted(10_000, 500))
    assert excess_z(Sides(counted(150, 118), counted(1500, 75)), every) > 4


def test_the_share_is_what_a_factor_has_more_than_usual_over_what_all_have_more() -> None:
    assert rise_share(Sides(counted(100, 80), counted(1000, 50)), EVERY) == pytest.approx(75 / 150, abs=0.01)


def test_the_interval_of_the_share_is_as_wide_as_the_counts_before_can_move_it() -> None:
    """With all else certain, by the differences that one bad answer more, with the factor or without it, makes."""
    now, past = counted(100, 60), counted(1000, 50)

    def share(own: float, rest: float) -> float:
        every = Sides(EVERY.now, counted_exactly(10_000, 500 + own + rest))
        return rise_share(Sides(now, counted_exactly(1000, 50 + own)), every)

    by_own, by_rest = share(0.5, 0) - share(-0.5, 0), share(0, 0.5) - share(0, -0.5)
    half = 1.645 * math.sqrt(by_own**2 * 50 + by_rest**2 * 450)
    found = share_interval(Sides(now, past), EVERY, [], ())
    assert (found.upper - found.lower) / 2 == pytest.approx(half, rel=0.05)


def counted_exactly(cases: float, bad: float) -> CaseSums:
    """As `counted`, with parts of an answer."""
    return CaseSums(round(cases), round(bad), round(bad), cases, cases, bad, bad, cases - bad)


def test_more_of_what_was_always_bad_is_told_by_frequency_and_past_rate() -> None:
    own = Sides(counted(200, 140), counted(200, 140))
    found = mix(own, EVERY, squares=200, past_squares=200)
    assert found is not None
    assert found.z > 4
    assert 0.7 < found.share < 0.9


@pytest.mark.parametrize(
    "own",
    [Sides(counted(10, 7), counted(200, 140)), Sides(counted(200, 40), counted(200, 5))],
    ids=["no more frequent", "no worse before"],
)
def test_what_is_no_more_frequent_or_was_no_worse_is_not_more_of_it(own: Sides) -> None:
    assert mix(own, EVERY, squares=own.now.weight, past_squares=own.past.weight) is None


def test_with_more_bad_answers_a_smaller_cause_is_visible() -> None:
    few = Sides(counted(200, 40), counted(10_000, 500))
    many = Sides(counted(2000, 400), counted(10_000, 500))
    of_few, of_many = visible_share(few, 3.5), visible_share(many, 3.5)
    assert of_few is not None
    assert of_many is not None
    assert 0.1 <= of_many < of_few < 1


def test_with_a_handful_of_bad_answers_no_cause_is_visible() -> None:
    assert visible_share(Sides(counted(30, 4), counted(1000, 50)), 3.5) is None
    assert visible_share(EVERY, math.inf) is None


def test_a_few_bad_answers_are_no_cause_where_bad_ones_are_judged_more_often_than_good_ones() -> None:
    """Bad ones weigh 2, good ones 10: of a dozen answers with the factor, the good ones were just not judged."""
    since = CaseSums(180, 100, 100, 1000.0, 1000.0, 200.0, 400.0, 8000.0)
    before = CaseSums(1_200, 250, 250, 10_000.0, 10_000.0, 500.0, 1000.0, 95_000.0)
    own = CaseSums(6, 6, 6, 12.0, 12.0, 12.0, 24.0, 0.0)
    assert excess_z(Sides(own, CaseSums(weight=120.0, bad_weight=6.0, bad_squares=12.0)), Sides(since, before)) < 2
