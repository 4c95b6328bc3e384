"""A cap on judgements: kept whatever comes, and no case without a chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.limits import THINNEST, CalendarCap, Pacer, TokenBucket

HOUR = 3600.0


@given(
    at_most=st.floats(0.5, 500),
    seconds=st.sampled_from([HOUR, 24 * HOUR]),
    came=st.lists(st.tuples(st.floats(0, 900), st.integers(1, 60), st.floats(0.001, 1)), min_size=1, max_size=60),
)
def test_the_expectation_of_any_stretch_of_time_is_within_the_cap_and_what_the_bucket_holds(at_most, seconds, came):
    bucket, now, taken = TokenBucket(at_most, 0.0, period=seconds, least=2.0), 0.0, []
    for wait, cases, wanted in came:
        now += wait
        bucket.refill(now)
        for _ in range(cases):
            room = bucket.room
            assert THINNEST <= room <= 1
            bucket.take(wanted * room)
            taken.append((now, wanted * room, wanted * THINNEST))
    for first in {at for at, _, _ in taken}:
        within = [(chance, floor) for at, chance, floor in taken if first <= at <= first + seconds]
        extra = sum(floor for _, floor in within)
        assert sum(chance for chance, _ in within) <= at_most + bucket.size + extra + 1e-9


def test_nothing_is_thinned_while_half_of_the_bucket_is_left():
    bucket = TokenBucket(60.0, 0.0)
    bucket.refill(HOUR)
    for _ in range(5):
        assert bucket.room == 1
        bucket.take(1.0)
    bucket.take(1.0)
    assert bucket.room == pytest.approx(0.8)


def test_a_flood_settles_at_what_the_cap_lets_in():
    bucket, taken = TokenBucket(200.0, 0.0, least=2.0), 0.0
    for second in range(3 * 3600):
        bucket.refill(float(second))
        chance = 0.5 * bucket.room
        bucket.take(chance)
        taken += chance if second >= 2 * 3600 else 0.0
    assert taken == pytest.approx(200, rel=0.01)


def test_time_that_goes_backwards_gives_nothing():
    bucket = TokenBucket(60.0, 100.0)
    bucket.refill(40.0)
    assert bucket.level == bucket.size / 2


def test_a_bucket_that_refuses_allows_a_sixth_of_the_hour_at_once_and_the_hour_over_time():
    bucket = TokenBucket(60.0, 0.0, least=1.0, filled=1.0)
    assert sum(bucket.try_take(0.0) for _ in range(100)) == 10
    assert not bucket.try_take(59.0)
    assert bucket.try_take(60.0)
    assert sum(bucket.try_take(60.0 + second) for second in range(3600)) == pytest.approx(60, abs=1)


def test_a_bucket_of_less_than_one_token_a_burst_still_gives_whole_ones():
    bucket = TokenBucket(2.0, 0.0, least=1.0, filled=1.0)
    assert [bucket.try_take(at) for at in (0.0, 0.0, 1799.0, 1800.0)] == [True, False, False, True]


def test_a_cap_holds_within_a_calendar_period_and_opens_with_the_next():
    cap = CalendarCap(2, 3600)
    cap.turn(7199.0)
    cap.use(2)
    assert not cap.fits(0.1)
    assert cap.ends == 7200
    cap.turn(7200.0)
    assert cap.fits(2)


def test_a_cap_is_not_opened_again_by_a_clock_that_is_set_back():
    cap = CalendarCap(2, 3600)
    cap.turn(7200.0)
    cap.use(2)
    cap.turn(100.0)
    assert not cap.fits(1)


def test_what_is_left_of_a_cap_follows_the_share():
    cap = CalendarCap(100, 3600)
    cap.turn(0.0, 0.5)
    cap.use(20)
    cap.turn(0.0, 1.0)
    assert cap.limit == 80
    cap.turn(3600.0, 1.0)
    assert cap.limit == 100


_SHARES = st.floats(0.02, 1)
_AMOUNTS = st.floats(0, 30)


@given(
    st.lists(st.tuples(_SHARES, st.booleans(), st.booleans(), _AMOUNTS), min_size=1, max_size=20),
    st.floats(1, 100),
)
def test_a_cap_that_is_restarted_at_any_point_allows_what_one_that_runs_on_allows(steps, limit):
    runs_on, restarted, hour = CalendarCap(limit, HOUR), CalendarCap(limit, HOUR), 0
    for share, restart, next_hour, amount in steps:
        hour += next_hour
        if restart:
            kept = restarted.index, restarted.used, restarted.used_by_all()
            restarted = CalendarCap(limit, HOUR)
            restarted.restore(*kept)
        for cap in (runs_on, restarted):
            cap.turn(hour * HOUR, share)
        assert (restarted.index, restarted.used) == (runs_on.index, runs_on.used)
        assert restarted.limit == pytest.approx(runs_on.limit, rel=1e-9, abs=1e-9)
        if runs_on.fits(amount):
            for cap in (runs_on, restarted):
                cap.use(amount)


@given(
    st.lists(
        st.tuples(st.lists(st.tuples(st.floats(0.1, 1), st.booleans()), min_size=3, max_size=3), st.floats(0, 1)),
        min_size=1,
        max_size=20,
    )
)
def test_a_fleet_that_spends_alike_spends_a_cap_once_whatever_the_shares_and_restarts(steps):
    """Each replica takes what it would of the whole, in proportion to its share, or else all that it has left."""
    fleet = [CalendarCap(100.0, HOUR) for _ in range(3)]
    spent = 0.0
    for weights_and_restarts, demand in steps:
        total = sum(weight for weight, _ in weights_and_restarts)
        for place, (weight, restart) in enumerate(weights_and_restarts):
            if restart:
                kept = fleet[place].index, fleet[place].used, fleet[place].used_by_all()
                fleet[place] = CalendarCap(100.0, HOUR)
                fleet[place].restore(*kept)
            cap, share = fleet[place], weight / total
            cap.turn(0.0, share)
            amount = min(demand * 100.0 * share, max(cap.limit - cap.used, 0.0))
            assert amount == 0 or cap.fits(amount)
            cap.use(amount)
            spent += amount
    assert spent <= 100.0 * (1 + 1e-9)


def test_the_pace_is_even():
    """J9: requests_per_minute waits, it does not fail."""
    pacer = Pacer(60)
    assert [pacer.turn(0.0) for _ in range(3)] == [0, 1, 2]
    assert [pacer.turn(10.0) for _ in range(2)] == [0, 1]


def test_without_a_pace_nobody_waits():
    pacer = Pacer(None)
    assert [pacer.turn(0.0) for _ in range(3)] == [0, 0, 0]


def test_a_share_of_the_places_is_as_much_slower():
    pacer = Pacer(60)
    assert [pacer.turn(0.0, 0.25) for _ in range(3)] == [0, 4, 8]
