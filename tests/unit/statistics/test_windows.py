"""Rolling sums: what lies in a window is counted once, what does not is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.statistics.rates import Sums
from monitor.statistics.windows import DAY, Windows

HOUR = 3600.0
verdicts = st.lists(
    st.tuples(st.floats(min_value=0, max_value=2 * DAY), st.sampled_from([1.0, 2.5]), st.booleans()), max_size=60
)


def resolution(window: float) -> float:
    return 10 if window <= 600 else 60 if window <= 7200 else 600


def judged(windows: Windows, window: float, clock: ManualClock) -> int:
    return windows.sums("shop", "grounded", window, clock.now()).judged


def test_a_pair_that_was_never_seen_has_empty_sums() -> None:
    clock = ManualClock()
    assert Windows(clock).sums("shop", "grounded", HOUR, clock.now()) == Sums()


@given(verdicts, st.sampled_from([60.0, 600.0, HOUR, 2 * HOUR, 6 * HOUR, DAY]))
def test_a_window_counts_all_that_lies_in_it_and_little_that_does_not(
    ages: list[tuple[float, float, bool]], window: float
) -> None:
    """Exactly those younger than the window, and beyond it at most one bucket's worth."""
    clock = ManualClock()
    now = clock.now()
    windows = Windows(clock)
    for age, weight, defect in ages:
        windows.add("shop", "grounded", now - age, weight, defect)
    found = windows.sums("shop", "grounded", window, now)
    within = [one for one in ages if one[0] < window]
    about = [one for one in ages if one[0] <= window + resolution(window)]
    assert len(within) <= found.judged <= len(about)
    assert sum(defect for *_, defect in within) <= found.defects <= sum(defect for *_, defect in about)
    assert found.weight <= sum(weight for _, weight, _ in about) + 1e-9


def test_apps_and_evaluators_are_kept_apart() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    windows.add("shop", "grounded", clock.now(), 1, True)
    windows.add("shop", "relevance", clock.now(), 1, False)
    windows.add("bank", "grounded", clock.now(), 1, False)
    assert windows.keys() == (("bank", "grounded"), ("shop", "grounded"), ("shop", "relevance"))
    assert windows.sums("shop", "grounded", HOUR, clock.now()) == Sums.counted(1, 1)


def test_the_window_slides_as_time_goes_by() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    windows.add("shop", "grounded", clock.now(), 1, True)
    clock.advance(50 * 60)
    assert judged(windows, HOUR, clock) == 1
    clock.advance(12 * 60)
    assert judged(windows, HOUR, clock) == 0
    assert judged(windows, 6 * HOUR, clock) == 1


def test_a_verdict_of_the_future_counts_as_now() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    windows.add("shop", "grounded", clock.now() + DAY, 1, True)
    clock.advance(2 * HOUR)
    assert judged(windows, HOUR, clock) == 0


def test_a_verdict_older_than_the_longest_window_is_ignored() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    windows.add("shop", "grounded", clock.now() - DAY - 1, 1, True)
    assert windows.keys() == ()


def test_a_late_verdict_counts_in_the_windows_that_reach_back_to_it() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    windows.add("shop", "grounded", clock.now() - 3 * HOUR, 1, True)
    assert judged(windows, HOUR, clock) == 0
    assert judged(windows, 6 * HOUR, clock) == 1


def test_what_was_counted_before_the_clock_was_set_back_still_counts() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    windows.add("shop", "grounded", clock.now(), 1, True)
    clock.jump(-HOUR)
    assert judged(windows, 60, clock) == 1


def test_memory_is_bounded_however_long_it_runs() -> None:
    clock = ManualClock()
    windows = Windows(clock)
    for _ in range(3 * 24 * 60):
        clock.advance(60)
        windows.add("shop", "grounded", clock.now(), 1, False)
    assert sum(len(row) for row in windows._rows["shop", "grounded"]) < 350


@pytest.mark.parametrize("window", [0, -1, DAY + 1])
def test_a_window_that_is_not_kept_is_refused(window: float) -> None:
    with pytest.raises(ValueError, match="a window must be above 0"):
        Windows(ManualClock()).sums("shop", "grounded", window, 0)


@pytest.mark.parametrize("longest", [30.0, 600.0, 1800.0, HOUR, 7 * DAY])
def test_the_longest_window_can_be_chosen(longest: float) -> None:
    clock = ManualClock()
    windows = Windows(clock, longest)
    windows.add("shop", "grounded", clock.now(), 1, True)
    clock.advance(longest * 0.9)
    windows.add("shop", "grounded", clock.now(), 1, True)
    assert judged(windows, longest, clock) == 2
    clock.advance(longest * 0.9 + 600)
    assert judged(windows, longest, clock) in (0, 1)


@given(verdicts)
def test_verdicts_that_come_summed_by_the_minute_count_as_if_they_came_one_by_one(
    ages: list[tuple[float, float, bool]],
) -> None:
    clock = ManualClock()
    single, summed = Windows(clock), Windows(clock)
    minutes: dict[float, Sums] = {}
    for age, weight, defect in ages:
        minute = (clock.now() - age) // 60 * 60
        single.add("shop", "grounded", minute, weight, defect)
        minutes[minute] = minutes.get(minute, Sums()) + Sums.of(weight, defect=defect)
    for minute, sums in minutes.items():
        summed.add_sums("shop", "grounded", minute, sums)
    for window in (60.0, HOUR, 6 * HOUR, DAY):
        one, other = (each.sums("shop", "grounded", window, clock.now()) for each in (single, summed))
        assert (one.judged, one.defects) == (other.judged, other.defects)
        assert one.weight == pytest.approx(other.weight)
        assert one.defect_weight_squares == pytest.approx(other.defect_weight_squares)
