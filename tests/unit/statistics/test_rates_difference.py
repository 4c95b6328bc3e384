from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.rates import Z_95, Difference, Sums
from monitor.statistics.rates import difference as difference_of_sums


def difference(first: tuple[int, int], second: tuple[int, int], z: float) -> Difference:
    """Of (defects, scored) on both sides, each answer a session of its own."""
    found = difference_of_sums(*(Sums.counted(judged, defects) for defects, judged in (first, second)), z)
    assert found is not None
    return found


COUNTS = st.integers(1, 200).flatmap(lambda judged: st.tuples(st.integers(0, judged), st.just(judged)))


@pytest.mark.parametrize(
    ("first", "second", "value", "lower", "upper"),
    [  # Newcombe's own examples, Table II, method 10; his difference is first minus second
        ((48, 80), (56, 70), 0.2, 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.6, 0.1705, 0.8090),
        ((0, 10), (10, 10), 1.0, 0.6075, 1.0),
        ((0, 29), (5, 56), 0.0893, -0.0381, 0.1926),
    ],
)
def test_published_examples_come_out(first, second, value, lower, upper):
    found = difference(first, second, Z_95)
    assert found == pytest.approx((value, lower, upper), abs=6e-5)


@pytest.mark.parametrize(
    ("judged", "before", "after"), [(60, 0.02, 0.02), (60, 0.02, 0.2), (40, 0.1, 0.1), (50, 0.3, 0.6)]
)
def test_the_interval_holds_the_true_difference_in_about_95_cases_of_100(judged, before, after):
    def mass(share: float) -> list[float]:
        return [math.comb(judged, k) * share**k * (1 - share) ** (judged - k) for k in range(judged + 1)]

    covered = sum(
        p * q
        for first, p in enumerate(mass(before))
        for second, q in enumerate(mass(after))
        if p * q > 1e-9
        and (found := difference((first, judged), (second, judged), Z_95)).lower <= after - before <= found.upper
    )
    assert covered > 0.94


@given(COUNTS, COUNTS)
def test_the_interval_holds_the_difference_and_stays_between_minus_one_and_one(first, second):
    found = difference(first, second, Z_95)
    assert -1 - 1e-12 <= found.lower <= found.value <= found.upper <= 1 + 1e-12
    turned = difference(second, first, Z_95)
    assert (turned.value, turned.lower, turned.upper) == pytest.approx((-found.value, -found.upper, -found.lower))


def test_nothing_judged_is_no_difference_of_zero():
    assert difference_of_sums(Sums(), Sums.counted(2, 1), Z_95) is None


def test_a_difference_is_clear_where_its_interval_leaves_zero_out():
    assert difference((1, 100), (20, 100), Z_95).clear
    assert not difference((1, 100), (3, 100), Z_95).clear


def test_answers_that_agree_within_sessions_count_as_so_many_sessions():
    """Bad answers that come ten at a time are no clearer a rise than a tenth of them."""
    sides = (Sums.counted(1000, 0, 10), Sums.counted(1000, 100, 10))
    agreeing = difference_of_sums(*sides, Z_95)
    assert agreeing == pytest.approx(difference((0, 100), (10, 100), Z_95))
    assert agreeing.lower < difference((0, 1000), (100, 1000), Z_95).lower
