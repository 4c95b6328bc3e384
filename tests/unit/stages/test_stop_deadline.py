"""The one time limit of a stop."""

from __future__ import annotations

from monitor.clock import ManualClock
from monitor.stages.stop_deadline import STOP_WITHIN, StopDeadline


def test_each_step_takes_what_the_steps_before_it_have_left():
    clock = ManualClock()
    stop = StopDeadline(clock)
    stop.begin()
    whole = stop.left("sinks")
    assert stop.left("requests") < whole < stop.left("connections") < STOP_WITHIN
    clock.advance(stop.left("requests"))
    assert stop.left("requests") == 0
    assert 0 < stop.left("sinks") < whole
    clock.advance(STOP_WITHIN)
    assert stop.left("sinks") == stop.left("connections") == 0, "a step that comes too late takes no time"


def test_it_counts_from_the_first_request_to_stop():
    clock = ManualClock()
    stop = StopDeadline(clock)
    clock.advance(3600)
    whole = stop.left("requests")
    stop.begin()
    assert stop.left("requests") == whole
    clock.advance(1)
    stop.begin()
    assert stop.left("requests") == whole - 1


def test_a_wall_clock_that_jumps_changes_nothing():
    clock = ManualClock()
    stop = StopDeadline(clock)
    stop.begin()
    whole = stop.left("requests")
    clock.jump(-86_400)
    assert stop.left("requests") == whole
