"""Hours, their baselines and their incidents once more, recomputed from all results for every hour."""

from __future__ import annotations

import math

import pytest

from monitor.statistics.blocks import REMEMBERED, Blocks
from monitor.statistics.change import DAYS_LOST, HOURS_LOST, WINDOWS, RateChange, change, is_incident, spread
from monitor.statistics.rates import Sums

START = 19_675 * 24
"""Midnight, in hours since 1970."""


class Recomputed:
    """What is to be compared and excluded at the end of each hour, from a dictionary of hours by their end."""

    def __init__(self, hours: dict[int, Sums]) -> None:
        self.hours, self.first = hours, min(hours)
        self.bad_hours: set[int] = set()
        self.bad_days: set[int] = set()

    def total(self, end: int, count: int) -> Sums:
        return Sums.total(self.hours[hour] for hour in range(end - count + 1, end + 1) if hour in self.hours)

    def ends(self, settled: int, gap: int, size: int) -> list[int]:
        last = settled - gap
        bad = self.bad_hours if size < 24 else self.bad_days
        return [end for end in range(last, last - 168, -1) if end % size == 0 and end >= self.first and end not in bad]

    def compared(self, settled: int, seconds: float) -> RateChange | None:
        window = next(one for one in WINDOWS if one.length == seconds)
        gap, size = round(window.gap / 3600), round(window.block / 3600)
        base = Sums.total(self.hours[end] for end in self.ends(settled, gap, 1) if end in self.hours)
        blocks = [self.total(end, size) for end in self.ends(settled, gap, size)]
        return change(self.total(settled, round(seconds / 3600)), base, spread(blocks))

    def settle(self, end: int) -> None:
        found: dict[float, RateChange] = {}
        for window in WINDOWS:
            if window.length < 86400 or (window.length == 86400 and end % 24 == 0):
                one = self.compared(end, window.length)
                if one is not None:
                    found[window.length] = one
        if is_incident(found, HOURS_LOST):
            self.bad_hours.add(end)
        if is_incident(found, DAYS_LOST):
            self.bad_days.add(end)


def defects(hour: int) -> int:
    """About 4 in 100; two bad hours, a bad half day, and at last a bad day."""
    usual = 3 + hour * 7 % 4
    if hour in (130, 131):
        return 45
    if 180 <= hour < 190 or 230 <= hour < 254:
        return 16
    return usual


def results(hour: int) -> Sums | None:
    """A hundred an hour and a few more; none at some hours of the night."""
    return None if hour % 24 in (2, 3) else Sums.counted(100 + hour % 5, defects(hour))


def test_all_that_is_decided_by_the_hour_is_what_all_results_say() -> None:
    blocks, known = Blocks(), {}
    compared: Recomputed | None = None
    for hour in range(12 * 24 + 5):
        end = START + hour + 1
        one = results(hour)
        if one is not None:
            blocks.add((end - 1) * 3600.0 + 1800.0, one)
            known[end] = one
        compared = compared or Recomputed(known)
        compared.settle(end)
        if hour % 17 and hour < 270:
            continue
        now = end * 3600.0
        up_to_a_day = {window.length: compared.total(end, round(window.length / 3600)) for window in WINDOWS[:3]}
        found = blocks.changes(up_to_a_day, now)
        for window in WINDOWS:
            expected = compared.compared(end, window.length)
            one_found = found.get(window.length)
            assert (one_found is None) == (expected is None), (hour, window)
            if expected is not None:
                assert one_found is not None
                assert one_found.now == expected.now
                assert one_found.ratio == pytest.approx(expected.ratio, rel=1e-9), (hour, window)
                assert one_found.z == (None if expected.z is None else pytest.approx(expected.z, rel=1e-9))
        assert blocks.clean_days(now) == len(compared.ends(end, 24, 24))
    assert compared is not None
    assert len(compared.bad_hours) > 4
    assert compared.bad_days


def test_a_late_result_counts_in_its_hour_and_in_the_days_that_it_belongs_to() -> None:
    blocks, known = Blocks(), {}
    for hour in range(9 * 24):
        end = START + hour + 1
        blocks.add((end - 1) * 3600.0, Sums.counted(100, 4))
        known[end] = Sums.counted(100, 4)
    now = (START + 9 * 24) * 3600.0
    blocks.changes({}, now)
    late = START + 5 * 24 + 7
    blocks.add((late - 1) * 3600.0 + 5.0, Sums.counted(200, 30))
    known[late] += Sums.counted(200, 30)
    blocks.add((START + 9 * 24) * 3600.0 + 3599.0, Sums.counted(100, 4))
    known[START + 9 * 24 + 1] = Sums.counted(100, 4)
    compared, settled = Recomputed(known), START + 9 * 24 + 1
    found = blocks.changes({}, settled * 3600.0)
    for window in WINDOWS:
        expected = compared.compared(settled, window.length)
        assert expected is not None
        assert found[window.length].z == pytest.approx(expected.z, rel=1e-9)


def test_twenty_days_of_history_restore_everything() -> None:
    assert REMEMBERED == 20 * 86400
    assert math.isfinite(REMEMBERED)
