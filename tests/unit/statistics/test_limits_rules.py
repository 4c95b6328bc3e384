"""The numbers of buckets, caps and paces, each worked out by hand."""

from __future__ import annotations

import pytest

from monitor.statistics.limits import CalendarCap, Pacer, TokenBucket


@pytest.mark.parametrize(("limit", "least", "size"), [(60.0, 0.0, 10.0), (6.0, 2.0, 2.0), (18.0, 2.0, 3.0)])
def test_a_bucket_holds_a_sixth_of_its_limit_or_what_it_must_and_begins_half_full(
    limit: float, least: float, size: float
) -> None:
    bucket = TokenBucket(limit, 0.0, least=least)
    assert (bucket.size, bucket.level) == (pytest.approx(size), pytest.approx(size / 2))
    assert TokenBucket(limit, 0.0, least=least, filled=0.25).level == pytest.approx(size / 4)


@pytest.mark.parametrize(
    ("period", "seconds", "level"), [(3600.0, 60.0, 6.0), (7200.0, 60.0, 5.5), (3600.0, 900.0, 10.0)]
)
def test_a_bucket_refills_evenly_until_it_is_full(period: float, seconds: float, level: float) -> None:
    bucket = TokenBucket(60.0, 100.0, period=period)
    bucket.refill(100.0 + seconds)
    assert bucket.level == pytest.approx(level)
    bucket.refill(100.0 + seconds)
    assert bucket.level == pytest.approx(level)


def test_a_bucket_gives_whole_tokens_while_it_has_them() -> None:
    bucket = TokenBucket(60.0, 0.0)
    assert [bucket.try_take(0.0) for _ in range(6)] == [True] * 5 + [False]
    assert bucket.level == 0.0
    assert not bucket.try_take(59.0)
    assert bucket.try_take(60.0)
    assert bucket.level == pytest.approx(0.0)
    assert bucket.try_take(240.0, 3.0)
    assert not bucket.try_take(240.0, 0.5)


def test_room_falls_in_proportion_below_half_and_never_to_0() -> None:
    bucket = TokenBucket(60.0, 0.0)
    rooms = []
    for _ in range(6):
        rooms.append(bucket.room)
        bucket.take(1.0)
    assert rooms == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.001])
    assert bucket.level == 0.0


def test_what_was_left_in_a_bucket_is_restored_with_what_came_meanwhile() -> None:
    bucket = TokenBucket(60.0, 0.0)
    bucket.restore(2.0, 1000.0, 120.0)
    assert bucket.level == pytest.approx(4.0)
    bucket.refill(1060.0)
    assert bucket.level == pytest.approx(5.0)
    bucket.restore(99.0, 1000.0, 0.0)
    assert bucket.level == 10.0


def test_a_bucket_is_scaled_with_its_tokens() -> None:
    bucket = TokenBucket(60.0, 0.0)
    bucket.scale(0.5)
    assert (bucket.limit, bucket.size, bucket.level) == (30.0, 5.0, 2.5)
    bucket = TokenBucket(6.0, 0.0, least=2.0)
    bucket.scale(4.0)
    assert (bucket.limit, bucket.level) == (24.0, 4.0)


def test_a_cap_begins_its_period_with_nothing_used() -> None:
    cap = CalendarCap(10.0, 3600.0)
    assert (cap.index, cap.limit, cap.used) == (-1, 0.0, 0.0)
    cap.turn(7200.0, 0.5)
    assert (cap.index, cap.limit, cap.used, cap.ends) == (2, 5.0, 0.0, 10800.0)
    assert (cap.index_of(7199.9), cap.index_of(7200.0)) == (1, 2)


def test_a_cap_fits_what_fills_it_and_no_more() -> None:
    cap = CalendarCap(10.0, 3600.0)
    cap.turn(0.0)
    cap.use(9.0)
    assert cap.fits(1.0)
    assert not cap.fits(1.001)
    cap.use(-2.0)
    assert cap.used == 7.0
    for _ in range(30):
        cap.use(0.1)
    assert cap.fits(0.0)  # 3 and a rounding error more


def test_a_change_of_the_share_scales_what_is_left() -> None:
    cap = CalendarCap(12.0, 3600.0)
    cap.turn(0.0, 0.5)
    cap.use(2.0)
    cap.turn(10.0, 0.25)
    assert cap.limit == pytest.approx(2.0 + 4.0 / 2)
    cap.turn(20.0, 1.0)
    assert cap.limit == pytest.approx(2.0 + 2.0 * 4)
    cap.use(50.0)
    cap.turn(30.0, 0.5)
    assert cap.limit == pytest.approx(6.0)
    cap.turn(3600.0, 0.5)
    assert (cap.limit, cap.used) == (6.0, 0.0)


def test_a_restart_within_a_period_goes_on_with_what_was_used() -> None:
    cap = CalendarCap(12.0, 3600.0)
    cap.restore(3, 4.0)
    cap.turn(3 * 3600.0 + 5.0, 0.5)
    assert (cap.index, cap.used, cap.limit) == (3, 4.0, 6.0)
    cap.restore(3, 4.0)
    cap.turn(4 * 3600.0, 1.0)
    assert (cap.index, cap.used, cap.limit) == (4, 0.0, 12.0)


def test_a_restart_with_another_share_scales_what_is_left() -> None:
    cap = CalendarCap(40.0, 86_400.0)
    cap.turn(0.0, 0.5)
    cap.use(5.0)
    assert (cap.used_by_all(), cap.used_by_all(2.0)) == (10.0, 14.0)
    again = CalendarCap(40.0, 86_400.0)
    again.restore(0, 5.0, 10.0)
    assert again.used_by_all() == 10.0
    again.turn(5.0, 1.0)
    assert (again.index, again.used, again.limit) == (0, 5.0, 35.0)
    again.use(30.0)
    again.turn(6.0, 0.5)
    assert (again.used, again.limit, again.used_by_all()) == (35.0, 20.0, 40.0)
    again.turn(86_400.0, 0.5)
    assert (again.limit, again.used, again.used_by_all()) == (20.0, 0.0, 0.0)


@pytest.mark.parametrize(("limit", "of_this"), [(60.0, 30.0), (50.0, 20.0), (40.0, 10.0), (20.0, 10.0), (4.0, 4.0)])
def test_a_limit_that_was_changed_counts_and_what_was_used_stays_used(limit: float, of_this: float) -> None:
    cap = CalendarCap(limit, 3600.0)
    cap.restore(0, 10.0, 40.0)  # with a quarter of the places
    cap.turn(1.0, 1.0)
    assert cap.limit == of_this
    assert not cap.fits(max(limit - 40.0, 0.0) + 0.1)


def test_an_overspent_cap_stays_overspent_over_a_rebalance_and_a_larger_limit() -> None:
    cap = CalendarCap(20.0, 3600.0)
    cap.restore(0, 20.0, 40.0)
    cap.turn(1.0, 0.5)
    cap.turn(2.0, 1.0)
    larger = CalendarCap(50.0, 3600.0)
    larger.restore(0, 20.0, cap.used_by_all())
    larger.turn(3.0, 1.0)
    assert larger.limit == 30.0


def test_all_processes_have_used_no_less_than_this_one() -> None:
    cap = CalendarCap(40.0, 3600.0)
    cap.restore(0, 20.0, 3.0)
    assert cap.used_by_all() == 20.0


def test_a_pace_has_a_slot_every_interval_that_our_share_makes() -> None:
    pacer = Pacer(30.0)
    assert [pacer.turn(100.0, share) for share in (1.0, 0.5, 1.0)] == [0.0, 2.0, 6.0]
    assert pacer.turn(107.5) == 0.5
    assert pacer.turn(200.0) == 0.0
    assert Pacer(None).turn(5.0) == 0.0
