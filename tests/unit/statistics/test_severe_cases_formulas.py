"""False pages once more by sums over Poisson counts, and each limit from both sides."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from monitor.statistics.severe_cases import (
    MOST_SESSIONS,
    all_wrong,
    expected_false_pages,
    sessions_to_page,
    tail,
    unexplained_limits,
)


def poisson(mean: float, number: int) -> float:
    return math.exp(-mean) * float(Fraction(mean) ** number / math.factorial(number))


@pytest.mark.parametrize("mean", [0.001, 0.5, 3.0, 12.0])
@pytest.mark.parametrize("least", [0, 1, 2, 5])
def test_a_tail_is_the_sum_of_all_that_many_or_more(mean: float, least: int) -> None:
    assert tail(mean, least) == pytest.approx(sum(poisson(mean, number) for number in range(least, 100)), rel=1e-6)


def test_nothing_comes_of_a_mean_of_0() -> None:
    assert [tail(0.0, least) for least in (0, 1, 2)] == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("accepted", [0.5, 3.0, 40.0])
def test_with_one_session_more_than_a_limit_a_page_would_begin_too_often(accepted: float) -> None:
    limits = unexplained_limits(accepted)
    assert len(limits) == MOST_SESSIONS == 10

    def begins(sessions: int, unexplained: float) -> float:
        """How often in 30 days a session comes in whose hour there are as many as a page needs, with itself."""
        return (unexplained + 1) * tail((unexplained + 1) / 720, sessions - 1)

    for number, limit in enumerate(limits, start=1):
        assert begins(number, limit + 1) > accepted
        assert limit == -1 or begins(number, limit) <= accepted
        assert sessions_to_page(limit + 1, accepted) == (number + 1 if number < 10 else None)
        assert sessions_to_page(max(limit, 0), accepted) == next(
            at + 1 for at, one in enumerate(limits) if max(limit, 0) <= one
        )


@pytest.mark.parametrize(("confirmed", "accepted"), [(0.5, 3.0), (4.0, 3.0), (30.0, 3.0), (90.0, 0.5)])
def test_false_pages_are_expected_as_often_as_sessions_meet_what_is_needed(confirmed: float, accepted: float) -> None:
    expected = 0.0
    for unexplained in range(170):
        needed = sessions_to_page(unexplained, accepted)
        if needed is not None:
            expected += confirmed * poisson(confirmed, unexplained) * poisson(confirmed / 720, needed - 1)
    assert expected_false_pages(confirmed, accepted) == pytest.approx(expected, rel=1e-9)


def test_no_false_case_is_no_false_page_and_each_is_one_where_all_page() -> None:
    assert expected_false_pages(0.0) == 0.0
    assert expected_false_pages(7.5, math.inf) == 7.5
    assert sessions_to_page(1e9, math.inf) == 1


@pytest.mark.parametrize("calls", [1, 2, 4])
@pytest.mark.parametrize("correlation", [Fraction(0), Fraction(1, 5), Fraction(3, 4)])
def test_all_calls_are_wrong_as_a_beta_binomial_says(calls: int, correlation: Fraction) -> None:
    error, expected = Fraction(1, 10), Fraction(1)
    for wrong in range(calls):  # after so many wrong ones: the share of errors is drawn towards what was seen
        weight = correlation / (1 - correlation)
        expected *= (error + weight * wrong) / (1 + weight * wrong)
    assert all_wrong(0.1, calls, float(correlation)) == pytest.approx(float(expected), rel=1e-9)


def test_a_judge_that_always_repeats_itself_errs_as_often_as_once() -> None:
    assert all_wrong(0.1, 5, 1.0) == 0.1
