"""When single severe cases page: limits, expected false pages, repeated errors."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.severe_cases import (
    MOST_SESSIONS,
    all_wrong,
    expected_false_pages,
    sessions_to_page,
    tail,
    unexplained_limits,
)


def test_the_limits_at_three_false_pages_a_month() -> None:
    assert unexplained_limits(3.0)[:5] == (2, 46, 151, 309, 506)
    assert [sessions_to_page(one) for one in (0, 2, 3, 46, 47, 151, 152)] == [1, 1, 2, 2, 3, 3, 4]


def test_every_session_pages_if_any_number_of_false_pages_is_accepted() -> None:
    assert sessions_to_page(10_000, math.inf) == 1
    assert expected_false_pages(40, math.inf) == 40


def test_with_more_than_all_limits_nothing_pages() -> None:
    assert sessions_to_page(unexplained_limits()[-1] + 1) is None


@given(x=st.integers(0, 3000), accepted=st.floats(0.05, 30))
def test_it_takes_the_fewest_sessions_with_which_false_pages_seldom_begin(x: int, accepted: float) -> None:
    needed = sessions_to_page(x, accepted)
    seldom = [(x + 1) * tail((x + 1) / 720, one - 1) <= accepted for one in range(1, MOST_SESSIONS + 1)]
    assert needed == (seldom.index(True) + 1 if any(seldom) else None)


@given(accepted=st.floats(0.05, 100), confirmed=st.floats(0.05, 3000))
def test_no_volume_of_false_cases_brings_more_false_pages_than_accepted(accepted: float, confirmed: float) -> None:
    assert expected_false_pages(confirmed, accepted) <= accepted


@pytest.mark.parametrize("accepted", [0.3, 1.0, 3.0, 30.0])
def test_just_below_each_limit_false_pages_are_within_what_is_accepted(accepted: float) -> None:
    shares = (0.8, 0.9, 0.95, 1.0, 1.05)
    volumes = [limit * share for limit in unexplained_limits(accepted) if limit > 0 for share in shares]
    assert max(expected_false_pages(one, accepted) for one in volumes) <= 0.7 * accepted


@given(x=st.integers(0, 500))
def test_more_unexplained_sessions_never_make_a_page_easier(x: int) -> None:
    assert (sessions_to_page(x) or 99) <= (sessions_to_page(x + 1) or 99)


@pytest.mark.parametrize("confirmed", [0.3, 1, 3, 30, 100])
def test_the_expected_number_of_false_pages_is_that_of_simulated_months(confirmed: float) -> None:
    rng, pages, months = random.Random(7), 0, 400
    at, times = -30 * 24.0, []
    while at < months * 720:
        at += rng.expovariate(confirmed / 720)
        times.append(at)
    oldest = 0
    for index, now in enumerate(times):
        while times[oldest] < now - 721:
            oldest += 1
        within = 0
        while index - within >= 0 and times[index - within] > now - 1:
            within += 1
        if now > 0:
            pages += within == sessions_to_page(index - within + 1 - oldest)
    assert pages / months == pytest.approx(expected_false_pages(confirmed), rel=0.2, abs=0.1)


def test_asking_again_leaves_the_share_of_errors_that_repeat() -> None:
    assert all_wrong(0.001, 2, 0.0) == pytest.approx(1e-6)
    assert all_wrong(0.001, 2, 0.5) / 0.001 == pytest.approx(0.5, abs=0.001)
    assert all_wrong(0.001, 2, 1.0) == 0.001
    assert all_wrong(0.01, 1, 0.3) == pytest.approx(0.01)
