"""The engine: when a rate fires, when it does not, and how long."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from monitor.alerts.engine import AlertEngine
from monitor.alerts.policy import AlertPolicy
from monitor.alerts.state import AlertState, AlertStatus
from monitor.clock import ManualClock
from monitor.model.service_version import VersionChange
from monitor.statistics.correction import ConfusionCell, JudgeQuality, quality_of
from monitor.statistics.windows import Windows

HOUR = 3600.0


class World:
    """A clock, windows, an engine, and a stream of verdicts."""

    def __init__(self, *policies: AlertPolicy, qualities: Mapping[str, JudgeQuality] | None = None) -> None:
        self.clock = ManualClock()
        self.windows = Windows(self.clock)
        chosen = policies or [AlertPolicy(evaluator="grounded", critical=0.1)]
        self.engine = AlertEngine(chosen, self.windows, qualities=lambda: qualities or {})
        self.rng = random.Random(5)

    def judge(self, count: int, defects: int, *, over: float = 0.0, app: str = "shop", weight: float = 1.0) -> None:
        """`count` verdicts spread over the seconds to come, the defects evenly among them."""
        for number in range(count):
            self.clock.advance(over / count)
            defect = (number + 1) * defects // count > number * defects // count
            self.windows.add(app, "grounded", self.clock.now(), weight, defect)

    def states(self) -> list[AlertState]:
        return self.engine.evaluate(self.clock.now())

    def state(self) -> AlertState:
        (state,) = self.states()
        return state

    def status_after(self, seconds: float) -> AlertStatus:
        self.clock.advance(seconds)
        return self.state().status


def test_nothing_judged_means_no_state_for_every_app_and_not_enough_data_for_a_named_one() -> None:
    assert World().states() == []
    state = World(AlertPolicy(evaluator="grounded", app="shop", critical=0.1)).state()
    assert state.status is AlertStatus.NOT_ENOUGH_DATA
    assert state.estimate is None
    assert state.annotations["description"] == "grounded scored no answers from shop in the last 1d."


def test_an_evaluator_without_a_policy_has_no_state() -> None:
    world = World(AlertPolicy(evaluator="relevance", critical=0.1))
    world.judge(100, 100)
    assert world.states() == []


def test_a_rate_surely_above_the_threshold_fires_with_labels_that_name_no_replica() -> None:
    world = World()
    world.judge(200, 60, over=600)
    state = world.state()
    assert state.status is AlertStatus.FIRING
    assert dict(state.labels) == {
        "alertname": "RagDefectRateHigh",
        "app": "shop",
        "evaluator": "grounded",
        "severity": "critical",
    }
    assert state.window == HOUR
    assert state.annotations["description"] == (
        "30 % of the answers from shop in the last 1h are defective according to grounded (at least 20.5 %, 200"
        " scored). The threshold is 10 %."
    )


def test_an_alert_on_a_rate_has_the_version_that_the_evaluator_has_in_this_process() -> None:
    """As in Prometheus: labels tell whether two alerts are the same."""
    world = World()
    world.judge(200, 60, over=600)
    for versions, label in (({"grounded": "2+0a1b"}, "2+0a1b"), ({"relevance": "3"}, None)):
        (state,) = AlertEngine(world.engine.policies, world.windows, versions=versions).evaluate(world.clock.now())
        assert state.firing
        assert state.labels.get("version") == label


def test_a_rate_measured_above_but_not_surely_above_does_not_fire() -> None:
    world = World()
    world.judge(20, 4, over=600)
    state = world.state()
    assert state.status is AlertStatus.NOT_ENOUGH_DATA
    assert state.estimate is not None
    assert state.estimate.rate == 0.2
    assert "scored answers are needed to detect a rate of 20 %." in state.annotations["description"]


def test_two_defects_in_ten_do_not_fire_a_threshold_of_three_percent() -> None:
    world = World(AlertPolicy(evaluator="grounded", critical=0.03))
    world.judge(10, 2, over=600)
    assert world.state().status is AlertStatus.NOT_ENOUGH_DATA


def test_few_without_a_defect_are_not_enough_and_many_are_ok() -> None:
    world = World()
    world.judge(10, 0, over=60)
    assert world.state().status is AlertStatus.NOT_ENOUGH_DATA
    world.judge(40, 0, over=60)
    assert world.state().status is AlertStatus.OK


def test_a_rate_at_its_threshold_is_ok_once_a_clear_excess_would_have_shown() -> None:
    """The interval contains the threshold however many are judged: that must not stay "not enough data" for ever."""
    world = World()
    world.judge(100, 10, over=600)
    assert world.state().status is AlertStatus.NOT_ENOUGH_DATA
    world.judge(400, 40, over=600)
    assert world.state().status is AlertStatus.OK


def test_a_slow_rise_fires_in_the_long_window_only() -> None:
    world = World(AlertPolicy(evaluator="grounded", critical=0.03))
    world.judge(240, 16, over=24 * HOUR)
    state = world.state()
    assert state.status is AlertStatus.FIRING
    assert state.window == 24 * HOUR


def test_an_incident_that_is_over_does_not_keep_the_long_window_firing() -> None:
    world = World()
    world.judge(500, 250, over=HOUR)
    assert world.state().status is AlertStatus.FIRING
    world.judge(1000, 0, over=1.1 * HOUR)
    assert world.windows.sums("shop", "grounded", 6 * HOUR, world.clock.now()).defects == 250
    assert world.state().status is AlertStatus.FIRING  # held: this is the first quiet look
    assert world.status_after(301) is AlertStatus.OK


def test_traffic_that_stops_is_no_proof_that_an_incident_is_over() -> None:
    world = World()
    world.judge(500, 250, over=HOUR)
    assert world.status_after(2 * HOUR) is AlertStatus.FIRING
    assert world.status_after(24 * HOUR) is AlertStatus.FIRING
    assert world.status_after(300) is AlertStatus.NOT_ENOUGH_DATA


def test_an_alert_resolves_only_after_no_window_fired_for_the_whole_wait() -> None:
    world = World()
    world.judge(500, 250, over=60)
    assert world.state().status is AlertStatus.FIRING
    world.judge(2000, 0, over=1.2 * HOUR)
    since = world.state().since
    assert world.status_after(290) is AlertStatus.FIRING
    world.judge(2000, 1000, over=1)
    assert world.state().status is AlertStatus.FIRING
    world.judge(9000, 0, over=1.2 * HOUR)
    assert world.status_after(0) is AlertStatus.FIRING
    assert world.status_after(290) is AlertStatus.FIRING
    assert world.state().since == since
    assert world.status_after(10) is AlertStatus.OK
    assert world.state().since == world.clock.now()


def test_a_clock_set_back_does_not_hold_an_alert_for_as_long_as_the_jump() -> None:
    world = World()
    world.judge(500, 250, over=60)
    world.state()
    world.judge(2000, 0, over=1.2 * HOUR)
    assert world.state().status is AlertStatus.FIRING
    world.clock.jump(-1800)
    assert world.state().status is AlertStatus.FIRING
    assert world.status_after(301) is AlertStatus.OK


def test_both_severities_have_a_state_of_their_own_the_graver_first() -> None:
    world = World(AlertPolicy(evaluator="grounded", warning=0.05, critical=0.4))
    world.judge(200, 40, over=600)
    critical, warning = world.states()
    assert (critical.severity, critical.status) == ("critical", AlertStatus.OK)
    assert (warning.severity, warning.status) == ("warning", AlertStatus.FIRING)


def test_apps_are_kept_apart() -> None:
    world = World()
    world.judge(200, 100, over=600, app="bank")
    world.judge(200, 0, over=600, app="shop")
    assert [(state.app, state.status) for state in world.states()] == [
        ("bank", AlertStatus.FIRING),
        ("shop", AlertStatus.OK),
    ]
    assert world.engine.apps() == ("bank", "shop")


def test_weights_count_and_not_the_number_judged() -> None:
    """A boosted sample holds many defects that stand for little traffic."""
    world = World()
    world.judge(100, 50, over=60, weight=1.0)
    world.judge(100, 0, over=60, weight=50.0)
    assert world.state().status is AlertStatus.OK


def test_a_runbook_is_linked_where_there_is_an_address() -> None:
    world = World()
    world.judge(1, 0)
    engine = AlertEngine(world.engine.policies, world.windows, runbooks="https://example.org/runbooks/")
    (state,) = engine.evaluate(world.clock.now())
    assert state.annotations["runbook_url"] == "https://example.org/runbooks/RagDefectRateHigh.md"
    assert "runbook_url" not in world.state().annotations


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_month_at_ten_an_hour_is_quiet_and_a_real_rise_is_found(seed: int) -> None:
    """2 % defects against a threshold of 3 %: at most one alarm in ten days; 10 % is found within a day."""
    world = World(AlertPolicy(evaluator="grounded", critical=0.03))
    rng = random.Random(seed)

    def hours(count: int, rate: float) -> int:
        fired = 0
        before = AlertStatus.OK
        for _ in range(count):
            for _ in range(10):
                world.clock.advance(360)
                world.windows.add("shop", "grounded", world.clock.now(), 1.0, rng.random() < rate)
            now = world.state().status
            fired += now is AlertStatus.FIRING and before is not AlertStatus.FIRING
            before = now
        return fired

    assert hours(240, 0.02) <= 1
    assert hours(36, 0.10) >= 1 or world.state().firing


@pytest.mark.parametrize(
    ("age", "told"),
    [(HOUR, " Last change 1h ago: prompt 3 -> 4."), (8 * 24 * HOUR, ""), (None, "")],
)
def test_what_fires_names_the_last_change_of_the_week(age: float | None, told: str) -> None:
    world = World()
    world.judge(200, 100)
    change = VersionChange(world.clock.now() - age, "prompt 3 -> 4") if age is not None else None
    world.engine = AlertEngine(world.engine.policies, world.windows, changed=lambda _app, _evaluator: change)
    state = world.state()
    assert state.firing
    assert state.annotations["description"].endswith(f"The threshold is 10 %.{told}")


# -- alerts on the corrected rate


def a_judge(defects: int, good: int) -> JudgeQuality:
    """Finds nine of ten defects and calls one of ten good answers defective."""
    cells = ((True, True, 9 * defects), (False, True, defects), (True, False, good), (False, False, 9 * good))
    return quality_of(ConfusionCell(verdict, truth, n, float(n), float(n)) for verdict, truth, n in cells)


CORRECTED = AlertPolicy(evaluator="grounded", critical=0.1, rate="corrected")


def test_a_rate_that_is_only_the_judges_errors_fires_as_judged_and_not_as_corrected() -> None:
    for policy, status in ((None, AlertStatus.FIRING), (CORRECTED, AlertStatus.OK)):
        world = World(*([policy] if policy else []), qualities={"grounded": a_judge(100, 100)})
        world.judge(1000, 150, over=600)
        assert world.state().status is status
    assert (
        world.state()
        .annotations["description"]
        .endswith("The rate is corrected by human labels (1,000 defects, 1,000 good answers).")
    )


def test_a_rate_that_is_high_as_people_label_fires() -> None:
    world = World(CORRECTED, qualities={"grounded": a_judge(100, 100)})
    world.judge(1000, 500, over=600)
    state = world.state()
    assert state.status is AlertStatus.FIRING
    assert state.estimate is not None
    assert state.estimate.rate == pytest.approx(0.5)


@pytest.mark.parametrize("known", [{}, {"grounded": a_judge(5, 100)}])
def test_with_too_few_labels_the_judges_rate_fires_and_the_alert_says_so(known: dict[str, JudgeQuality]) -> None:
    world = World(CORRECTED, qualities=known)
    world.judge(1000, 150, over=600)
    state = world.state()
    assert state.status is AlertStatus.FIRING
    assert state.annotations["description"].endswith(
        "The rate is the judge's own: there are too few human labels to correct it."
    )


def test_labels_are_by_the_evaluators_own_rule_so_another_rule_cannot_be_corrected() -> None:
    with pytest.raises(ValueError, match="remove `defect`"):
        AlertPolicy.model_validate(
            {"evaluator": "grounded", "critical": 0.1, "rate": "corrected", "defect": {"below": 3}}
        )
