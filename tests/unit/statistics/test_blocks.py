"""Eleven days in hours: what they are compared with, what stays out of it, and what a restart restores."""

from __future__ import annotations

import random

import pytest

from monitor.clock import ManualClock
from monitor.statistics.blocks import REMEMBERED, Blocks
from monitor.statistics.change import DAY, FAMILIES, HOUR, fired
from monitor.statistics.rates import Sums
from monitor.statistics.windows import Windows

MIDNIGHT = 19_675 * DAY


def sums(judged: int, defects: int) -> Sums:
    return Sums(judged, defects, float(judged), float(defects), float(defects))


class Service:
    """A hundred judged an hour, with as many defects among them as the test says."""

    def __init__(self) -> None:
        self.blocks = Blocks()
        self.windows = Windows(ManualClock(MIDNIGHT), baselines=True)
        self.now = MIDNIGHT
        self.history: list[tuple[float, Sums]] = []

    def hours(self, count: int, defects: int, judged: int = 100) -> None:
        for _ in range(count):
            one = sums(judged, defects)
            self.blocks.add(self.now + 60, one)
            self.history.append((self.now, one))
            self.now += HOUR

    def base_rate(self, window: float = HOUR) -> float:
        return self.blocks.changes({HOUR: sums(100, 4)}, self.now)[window].base_rate

    def fires(self) -> tuple[float, ...]:
        last = {length: self.last(length) for length in (HOUR, 6 * HOUR, DAY)}
        return fired(self.blocks.changes(last, self.now), FAMILIES["default"])

    def last(self, length: float) -> Sums:
        found = Sums()
        for at, one in self.history:
            if self.now - length <= at < self.now:
                found += one
        return found


def test_the_baseline_is_the_seven_days_that_ended_a_day_ago_and_three_days_ago_for_three_days() -> None:
    service = Service()
    service.hours(2 * 24, 50)  # more than eight days ago
    service.hours(7 * 24, 2)
    service.hours(24, 4)
    assert service.base_rate() == pytest.approx((168 * 2 + 1) / 168 / 100)
    two_of_the_days_above = service.blocks.changes({}, service.now)[3 * DAY].base_rate
    assert two_of_the_days_above == pytest.approx((48 * 50 + 120 * 2 + 1) / 168 / 100)


def test_days_are_known_from_the_first_verdict_on_and_counted_a_day_later() -> None:
    service = Service()
    service.hours(72, 2)
    assert service.blocks.clean_days(service.now) == 2
    service.hours(24, 2)
    assert service.blocks.clean_days(service.now) == 3
    service.hours(8 * 24, 2)
    assert service.blocks.clean_days(service.now) == 7


def test_an_incident_does_not_enter_the_baseline() -> None:
    service = Service()
    service.hours(7 * 24, 2)
    service.hours(12, 20)
    service.hours(12 + 24, 2)
    days = service.blocks.clean_days(service.now)
    assert service.base_rate() < 0.0225, "the twelve bad hours, and those whose last six hours were bad, are not there"
    assert days == 6


def test_without_that_one_bad_half_day_would_hide_a_rise_for_days() -> None:
    service = Service()
    service.hours(7 * 24, 2)
    service.hours(12, 20)
    service.hours(12 + 24, 2)
    service.hours(12, 8)
    assert service.fires()


def test_a_steady_service_does_not_fire_and_one_that_doubles_does() -> None:
    service = Service()
    service.hours(9 * 24, 2)
    assert service.fires() == ()
    service.hours(24, 5)
    assert service.fires()


def test_a_lasting_rise_of_three_times_fires_ends_by_itself_and_is_armed_again() -> None:
    """Reasoned in the rule, not simulated there: held for about five days, then blind for about four."""
    service = Service()
    service.hours(9 * 24, 2)
    firing = []
    for _ in range(14):
        service.hours(24, 6)
        enough = service.blocks.clean_days(service.now) >= 3
        firing.append(bool(service.fires()) and enough)
    assert firing[:3] == [True] * 3
    assert not any(firing[-4:])
    service.hours(24, 18)
    assert service.fires()
    assert service.blocks.clean_days(service.now) >= 3


def test_hours_without_a_verdict_count_as_blocks_once_the_service_is_known() -> None:
    service = Service()
    service.hours(24, 2)
    service.now += 3 * DAY
    assert service.blocks.clean_days(service.now) == 3


def test_a_history_fed_in_order_gives_the_state_of_the_process_that_wrote_it() -> None:
    service = Service()
    rng = random.Random(4)
    for _ in range(20 * 24):
        service.hours(1, 20 if rng.random() < 0.05 else rng.randrange(1, 5))
    again = Blocks()
    for at, one in service.history:
        if at >= service.now - REMEMBERED:
            again.add(at, one)
    day = {HOUR: service.last(HOUR), 6 * HOUR: service.last(6 * HOUR), DAY: service.last(DAY)}
    assert again.clean_days(service.now) == service.blocks.clean_days(service.now)
    assert again.changes(day, service.now) == service.blocks.changes(day, service.now)


def test_memory_is_bounded_however_long_it_runs_and_however_long_it_was_silent() -> None:
    service = Service()
    service.hours(40 * 24, 2)
    assert len(service.blocks._hours) <= 11 * 24 + 1
    assert len(service.blocks._bad_hours) <= 11 * 24 + 1
    service.now += 400 * DAY
    service.hours(1, 2)
    assert len(service.blocks._hours) == 1


def test_a_clock_set_back_unsettles_nothing() -> None:
    service = Service()
    service.hours(9 * 24, 2)
    before = service.base_rate()
    service.now -= 5 * HOUR
    assert service.base_rate() == before
    service.hours(1, 2)
    assert service.base_rate() == before


def test_windows_compare_only_where_they_keep_baselines() -> None:
    clock = ManualClock(MIDNIGHT)
    plain, compared = Windows(clock), Windows(clock, baselines=True)
    for _ in range(9 * 24 * 6):
        clock.advance(600)
        for windows in (plain, compared):
            windows.add("shop", "grounded", clock.now(), 1.0, defect=False)
    assert plain.changes("shop", "grounded", clock.now()) == ({}, 0)
    changes, days = compared.changes("shop", "grounded", clock.now())
    assert (set(changes), days) == ({HOUR, 6 * HOUR, DAY, 3 * DAY}, 7)
    assert compared.changes("shop", "other", clock.now()) == ({}, 0)
    with pytest.raises(ValueError, match="a day or more"):
        Windows(clock, HOUR, baselines=True)
