"""The sums of consecutive steps, for a trend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.statistics.rates import Sums
from monitor.statistics.windows import Windows

NOW = 1_700_000_000.0


@given(ages=st.lists(st.integers(0, 100_000), max_size=40), step=st.sampled_from([600, 1800, 3600]))
def test_each_verdict_counts_in_the_step_of_its_time(ages, step):
    windows = Windows(ManualClock(NOW))
    for age in ages:
        windows.add("shop", "e", NOW - age, 1.0, defect=False)
    count = 86400 // step
    first = (NOW // step - count + 1) * step
    expected = [0] * count
    for age in ages:
        at = int((NOW - age - first) // step)
        if 0 <= at < count:
            expected[at] += 1
    assert [one.judged for one in windows.series("shop", "e", step, count, NOW)] == expected


def test_an_unknown_pair_has_a_series_of_nothing():
    assert Windows(ManualClock(NOW)).series("a", "b", 10, 60, NOW) == [Sums()] * 60


@pytest.mark.parametrize(("step", "count"), [(10, 61), (60, 200), (7, 60), (1800, 49)])
def test_more_or_finer_steps_than_are_remembered_are_refused(step, count):
    with pytest.raises(ValueError, match="are not kept"):
        Windows(ManualClock(NOW)).series("a", "b", step, count, NOW)
