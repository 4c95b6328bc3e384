"""A cap on judgements: kept whatever comes, and no case without a chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.samplers._bucket import THINNEST, Bucket

HOUR = 3600.0


@given(
    at_most=st.floats(0.5, 500),
    seconds=st.sampled_from([HOUR, 24 * HOUR]),
    came=st.lists(st.tuples(st.floats(0, 900), st.integers(1, 60), st.floats(0.001, 1)), min_size=1, max_size=60),
)
def test_the_expectation_of_any_stretch_of_time_is_within_the_cap_and_what_the_bucket_holds(at_most, seconds, came):
    bucket, now, taken = Bucket(at_most, 0.0, seconds=seconds, least=2.0), 0.0, []
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
    bucket = Bucket(60.0, 0.0)
    bucket.refill(HOUR)
    for _ in range(5):
        assert bucket.room == 1
        bucket.take(1.0)
    bucket.take(1.0)
    assert bucket.room == pytest.approx(0.8)


def test_a_flood_settles_at_what_the_cap_lets_in():
    bucket, taken = Bucket(200.0, 0.0, least=2.0), 0.0
    for second in range(3 * 3600):
        bucket.refill(float(second))
        chance = 0.5 * bucket.room
        bucket.take(chance)
        taken += chance if second >= 2 * 3600 else 0.0
    assert taken == pytest.approx(200, rel=0.01)


def test_time_that_goes_backwards_gives_nothing():
    bucket = Bucket(60.0, 100.0)
    bucket.refill(40.0)
    assert bucket.level == bucket.size / 2
