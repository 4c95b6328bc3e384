"""Sums by slice over the last day: they add up to the whole, and what is older is gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.statistics.rates import Sums
from monitor.statistics.slice_sums import BLOCK, Sliced

NOW = 1_700_000_000.0
PLACE = ("shop", "e")
DAY = 86400.0

ages = st.floats(0, 3 * DAY)


@given(st.lists(st.tuples(ages, st.sampled_from(["", "a", "b"]), st.booleans()), max_size=40))
def test_all_of_the_last_day_is_in_and_nothing_from_a_block_before(verdicts):
    clock = ManualClock(NOW)
    sliced = Sliced(clock)
    for age, value, defect in sorted(verdicts, reverse=True):
        sliced.add(PLACE, "tenant", value, NOW - age, Sums.of(2.0, defect=defect))
    found = sliced.of(*PLACE).get("tenant", {})
    for value in ("", "a", "b"):
        judged = found.get(value, Sums()).judged
        assert judged >= sum(1 for age, at, _ in verdicts if at == value and age <= DAY)
        assert judged <= sum(1 for age, at, _ in verdicts if at == value and age < DAY + 2 * BLOCK)


def test_memory_does_not_grow_with_traffic():
    clock = ManualClock(NOW)
    sliced = Sliced(clock)
    for hour in range(24 * 30):
        sliced.add(PLACE, "tenant", "a", NOW + hour * 3600, Sums.of(1.0, defect=False))
        clock.advance(3600)
    (row,) = sliced._sums[PLACE].values()
    assert len(row) <= 9


def test_a_value_that_made_room_is_forgotten_for_its_app_alone():
    sliced = Sliced(ManualClock(NOW))
    for app in ("shop", "docs"):
        sliced.add((app, "e"), "tenant", "a", NOW, Sums.of(1.0, defect=True))
    sliced.remove("shop", "tenant", "a")
    assert not sliced.of("shop", "e")
    assert sliced.of("docs", "e")["tenant"]["a"].defects == 1


def test_it_reaches_back_a_day_and_not_before_the_start():
    clock = ManualClock(NOW)
    sliced = Sliced(clock)
    assert sliced.since == NOW
    clock.advance(3 * DAY)
    assert sliced.since == NOW + 2 * DAY
