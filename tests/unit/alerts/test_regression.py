"""A rise against the week before, from verdicts to a state: when it fires, what it says, how it ends."""

from __future__ import annotations

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.regression import decide
from monitor.alerts.state import AlertState, AlertStatus
from monitor.clock import ManualClock
from monitor.statistics.rates import Sums
from monitor.statistics.windows import Windows

HOUR, DAY = 3600.0, 86400.0
MIDNIGHT = 19_675 * DAY


class World:
    """Hundred judged an hour, all in its middle, and a look at the end of each."""

    def __init__(self, **policy: object) -> None:
        self.clock = ManualClock(MIDNIGHT)
        self.windows = Windows(self.clock, baselines=True)
        self.engine = AlertEngine(
            [AlertPolicy.model_validate({"evaluator": "grounded", "regression": True, **policy})], self.windows
        )

    def hours(self, count: int, defects: int, judged: int = 100) -> AlertState:
        for _ in range(count):
            self.clock.advance(HOUR / 2)
            sums = Sums(judged, defects, 10.0 * judged, 10.0 * defects, 100.0 * defects)
            if judged:
                self.windows.add_sums("shop", "grounded", self.clock.now(), sums)
            self.clock.advance(HOUR / 2)
            state = self.state()
        return state

    def state(self) -> AlertState:
        (state,) = self.engine.evaluate(self.clock.now())
        return state


def test_the_first_three_days_are_not_enough_to_compare_with() -> None:
    state = World().hours(3 * 24, 2)
    assert state.status is AlertStatus.NOT_ENOUGH_DATA
    assert state.annotations["description"] == (
        "No baseline for the share of answers from shop that are defective according to grounded: it has 2 of the"
        " 3 incident-free days that it needs."
    )


def test_a_rate_of_the_context_without_a_baseline_is_named_in_plain_words() -> None:
    found = decide("default", World().windows, "shop", "retrieval_empty", MIDNIGHT)
    assert found.description == (
        "No baseline for the share of answers from shop that rest on a retrieval that found nothing: it has 0 of the"
        " 3 incident-free days that it needs, and nothing was scored in the last 3d."
    )


def test_with_a_baseline_and_no_scores_since_it_says_that_nothing_was_scored() -> None:
    world = World()
    world.hours(8 * 24, 2)
    state = world.hours(4 * 24, 0, judged=0)
    assert state.status is AlertStatus.NOT_ENOUGH_DATA
    assert state.annotations["description"] == (
        "No recent value to compare for the share of answers from shop that are defective according to grounded:"
        " nothing was scored in the last 3d."
    )


def test_a_steady_rate_is_ok_and_a_clear_rise_fires_with_all_that_one_wants_to_know() -> None:
    world = World()
    state = world.hours(9 * 24, 2)
    assert state.status is AlertStatus.OK
    assert state.annotations["description"] == (
        "2 % of the answers from shop in the last 3d are defective according to grounded (7200 scored): 0.997 times the"
        " 2.01 % of the 7 days before."
    )
    state = world.hours(2, 12)
    assert state.status is AlertStatus.FIRING
    assert dict(state.labels) == {
        "alertname": "RagDefectRateRegression",
        "app": "shop",
        "evaluator": "grounded",
        "severity": "warning",
    }
    assert state.annotations["description"] == (
        "12 % of the answers from shop in the last 1h are defective according to grounded (100 scored): 5.98 times the"
        " 2.01 % of the 7 days before. The rise is clear (more than 1.25 times) in the last 1h, 6h."
    )
    assert state.window == HOUR
    assert state.estimate is not None
    assert (state.estimate.rate, state.estimate.judged) == (0.12, 100)
    assert state.threshold is not None
    assert abs(state.threshold - 1.25 * 0.02006) < 1e-4


def test_a_rise_that_hides_by_night_is_one_alarm_until_a_quiet_day_and_none_begins_when_it_is_held_only() -> None:
    world = World()
    world.hours(9 * 24, 2)
    firing = [world.hours(1, 6 if hour % 24 < 12 else 2).firing for hour in range(3 * 24)]
    assert firing.index(True) < 12
    assert all(firing[firing.index(True) :])
    quiet = [world.hours(1, 2).firing for _ in range(36)]
    assert quiet.index(False) < 24
    assert not any(quiet[quiet.index(False) :])
    assert not world.hours(6, 4).firing, "enough to hold an alert, not to begin one"


def test_an_hour_of_many_defects_is_over_within_half_a_day() -> None:
    world = World()
    world.hours(9 * 24, 2)
    assert world.hours(1, 15).firing
    assert not world.hours(12, 2).firing


def test_it_fires_once_and_is_over_three_hours_after_no_window_fired_or_held() -> None:
    world = World()
    world.hours(9 * 24, 2)
    since = world.hours(2, 12).since
    firing = [world.hours(1, 2) for _ in range(20)]
    until = [state.status for state in firing].index(AlertStatus.OK)
    assert all(state.since == since for state in firing[:until])
    assert all(state.status is AlertStatus.OK for state in firing[until:])
    assert firing[until].since > since


def test_traffic_that_grows_or_stops_is_no_regression() -> None:
    world = World()
    world.hours(9 * 24, 2)
    assert world.hours(12, 20, judged=1000).status is AlertStatus.OK
    assert world.hours(12, 0, judged=0).status is AlertStatus.OK
    assert world.hours(4 * 24, 0, judged=0).status is AlertStatus.NOT_ENOUGH_DATA


def test_few_judged_are_not_mistaken_for_a_rise() -> None:
    world = World()
    world.hours(9 * 24, 0, judged=2)
    assert world.hours(1, 1, judged=2).status is AlertStatus.OK


def test_the_family_decides_how_readily_and_the_policy_how_gravely() -> None:
    def first_hour(family: str) -> int:
        world = World(regression=family, regression_severity="critical")
        world.hours(9 * 24, 2)
        for hour in range(1, 100):
            state = world.hours(1, 4)
            if state.firing:
                assert state.severity == "critical"
                return hour
        return 100

    assert first_hour("sensitive") <= first_hour("default") < first_hour("strict") < 100


def test_a_policy_may_have_thresholds_and_a_regression() -> None:
    world = World(warning="50%")
    world.windows.add("shop", "grounded", world.clock.now(), 1.0, defect=False)
    high, rise = (state.name for state in world.engine.evaluate(world.clock.now()))
    assert (high, rise) == ("RagDefectRateHigh", "RagDefectRateRegression")
