from __future__ import annotations

import itertools

from monitor.clock import ManualClock
from monitor.judge.admission import FEWEST, LONGEST_HOLD, PROBE_EVERY, WINDOW, Breaker


def call(breaker: Breaker, *, well: bool) -> None:
    held = breaker.enter()
    assert held is not None
    if well:
        held.succeeded()
    else:
        held.failed()


def opened(clock: ManualClock) -> Breaker:
    breaker = Breaker(clock)
    for _ in range(FEWEST):
        call(breaker, well=False)
    assert breaker.is_open
    return breaker


def test_it_opens_at_half_failures_of_twenty_calls():
    """J11."""
    breaker = Breaker(ManualClock())
    for number in range(FEWEST - 1):
        call(breaker, well=number % 2 == 0)
    assert not breaker.is_open
    call(breaker, well=False)
    assert breaker.is_open


def test_what_the_first_failed_call_met_is_kept_until_it_closes():
    clock = ManualClock()
    breaker = Breaker(clock)
    for number in range(FEWEST):
        held = breaker.enter()
        assert held is not None
        held.failed("connection refused" if number == 0 else "no answer")
    assert breaker.is_open
    assert breaker.cause == "connection refused"
    clock.advance(PROBE_EVERY)
    probe = breaker.enter()
    assert probe is not None
    probe.failed("another thing")
    assert breaker.cause == "connection refused"
    clock.advance(PROBE_EVERY)
    call(breaker, well=True)
    assert not breaker.is_open
    assert breaker.cause == ""


def test_a_failure_that_has_left_the_window_is_no_cause():
    clock = ManualClock()
    breaker = Breaker(clock)
    held = breaker.enter()
    assert held is not None
    held.failed("long ago")
    clock.advance(WINDOW + 1)
    for _ in range(FEWEST):
        held = breaker.enter()
        assert held is not None
        held.failed("now")
    assert breaker.cause == "now"


def test_it_stays_closed_below_half():
    """J11."""
    breaker = Breaker(ManualClock())
    for number in range(90):
        call(breaker, well=number % 3 != 0)
    assert not breaker.is_open


def test_failures_older_than_the_window_do_not_count():
    """J11."""
    clock = ManualClock()
    breaker = Breaker(clock)
    for _ in range(FEWEST - 1):
        call(breaker, well=False)
    clock.advance(WINDOW + 1)
    call(breaker, well=False)
    assert not breaker.is_open


def test_while_open_one_probe_goes_out_every_fifteen_seconds_and_no_more():
    """J11."""
    clock = ManualClock()
    breaker = opened(clock)
    probes = []
    for _ in range(600):
        clock.advance(0.1)
        held = breaker.enter()
        if held is not None:
            assert held.probe
            probes.append(clock.monotonic())
            assert breaker.enter() is None
            held.failed()
    assert len(probes) in (3, 4)
    assert all(later - earlier >= PROBE_EVERY for earlier, later in itertools.pairwise(probes))


def test_a_probe_that_succeeds_closes_it_and_forgets_the_failures():
    clock = ManualClock()
    changes: list[bool] = []
    breaker = Breaker(clock, changes.append)
    breaker.trip()
    clock.advance(PROBE_EVERY)
    call(breaker, well=True)
    assert not breaker.is_open
    assert changes == [True, False]
    for _ in range(FEWEST - 1):
        call(breaker, well=False)
    assert not breaker.is_open


def test_a_probe_that_did_not_take_place_makes_room_for_the_next():
    clock = ManualClock()
    breaker = opened(clock)
    clock.advance(PROBE_EVERY)
    held = breaker.enter()
    assert held is not None
    held.left()
    held.succeeded()  # what is reported after the end is ignored
    assert breaker.is_open
    clock.advance(PROBE_EVERY)
    assert breaker.enter() is not None


def test_told_to_open_for_longer_it_sends_no_probe_before():
    """J4: a Retry-After that is too long to wait for in a call."""
    clock = ManualClock()
    breaker = Breaker(clock)
    breaker.trip(120)
    breaker.trip()  # a shorter time does not shorten it
    clock.advance(119)
    assert breaker.enter() is None
    assert breaker.opens_in == 1
    clock.advance(1)
    assert breaker.enter() is not None


def test_asked_to_hold_it_says_until_when_and_sends_no_probe_before():
    """J4: a `Retry-After` of an hour or less is kept to the second."""
    clock = ManualClock(1_700_000_000.0)  # 22:13:20 UTC
    breaker = Breaker(clock)
    breaker.hold(3600, "HTTP 429")
    breaker.hold(60, "HTTP 503")  # a shorter time does not shorten it
    assert breaker.asked == (
        "the provider asked for no calls until 23:14 UTC; the first evaluation after that tries again"
    )
    assert breaker.cause == "HTTP 429"
    assert breaker.opens_in == 3600
    clock.advance(3600)
    assert breaker.enter() is not None


def test_asked_to_hold_for_more_than_an_hour_it_sends_a_probe_after_an_hour():
    clock = ManualClock(1_700_000_000.0)
    breaker = Breaker(clock)
    breaker.hold(86_400)
    assert breaker.asked == (
        "the provider asked for no calls for more than an hour; the first evaluation after 23:14 UTC tries again"
    )
    assert breaker.opens_in == LONGEST_HOLD


def test_a_probe_that_fails_without_asking_for_time_ends_what_was_asked_for():
    clock = ManualClock()
    breaker = Breaker(clock)
    breaker.hold(120)
    clock.advance(120)
    call(breaker, well=False)
    assert breaker.is_open
    assert breaker.asked == ""
    assert breaker.opens_in == PROBE_EVERY


def test_calls_that_were_on_their_way_when_it_opened_do_not_close_it():
    clock = ManualClock()
    breaker = Breaker(clock)
    early = breaker.enter()
    assert early is not None
    breaker.trip()
    early.succeeded()
    assert breaker.is_open
