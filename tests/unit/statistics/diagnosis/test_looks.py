"""When an alert is looked at again, and what each look may spend."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.diagnosis.looks import FIRST_LOOK, GROWTH, looks_at, spent

COUNTS = st.integers(0, 10_000)


@pytest.mark.parametrize(
    ("begun", "bad", "looks"),
    [
        (0, 9, []),
        (0, 10, [10]),
        (3, 60, [10, 15, 23, 35, 53]),
        (20, 20, [20]),
        (20, 151, [20, 30, 45, 68, 102]),
        (200, 300, [200, 300]),
    ],
)
def test_looks_come_with_half_as_many_bad_answers_again(begun: int, bad: int, looks: list[int]) -> None:
    assert list(looks_at(begun, bad)) == looks


@given(COUNTS, COUNTS)
def test_from_one_look_to_the_next_the_answers_grow_by_half(begun: int, bad: int) -> None:
    looks = list(looks_at(begun, bad))
    assert all(one >= max(begun, FIRST_LOOK) for one in looks)
    assert all(later >= GROWTH * one for one, later in itertools.pairwise(looks))


@given(COUNTS, st.integers(0, 10**9))
def test_all_looks_together_spend_no_more_than_the_whole_level_and_each_of_them_some(begun: int, bad: int) -> None:
    parts, last = [], 0.0
    for look in looks_at(begun, bad):
        parts.append(spent(look) - last)
        last = spent(look)
    assert all(part > 0 for part in parts)
    assert sum(parts) <= 1.0


def test_a_first_look_spends_most_of_the_level_if_it_has_many_answers() -> None:
    assert spent(0) == 0.0
    assert [round(spent(bad), 2) for bad in (10, 20, 90)] == [0.5, 0.67, 0.9]
