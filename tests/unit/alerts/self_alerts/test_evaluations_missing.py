"""`RagEvaluationsMissing` in process: what was due by traffic and by habit, and was not judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerts.engine import AlertEngine
from monitor.alerts.self_alert import Observed, SelfAlertChecks
from monitor.alerts.self_alerts.evaluations_missing import EvaluationsMissing
from monitor.alerts.state import AlertState, AlertStatus, ConditionResult
from monitor.clock import ManualClock
from monitor.statistics.windows import Windows
from tests.support.results import judged

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


class World:
    """Looked at every five minutes."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.begin()

    def begin(self) -> None:
        """The process starts."""
        self.checks = SelfAlertChecks(Observed(self.clock))
        self.engine = AlertEngine([], Windows(self.clock), checks=self.checks)

    def pass_hours(self, hours: float, *, received: float, judged: float, app: str = "shop") -> list[bool]:
        """So many an hour are received by `app` and judged in the shop; whether the alert fires, look by look."""
        fires = []
        for _ in range(round(hours * 12)):
            self.clock.advance(5 * MINUTE)
            self.checks.on_received(app, round(received / 12))
            for number in range(round(judged / 12)):
                self.saw(number)
            fires.append(bool(self.firing()))
        return fires

    def saw(self, number: int, evaluator: str = "grounded") -> None:
        self.checks.on_result(replace(judged(number), evaluator=evaluator, evaluated_at=self.clock.now()), "shop")

    def restore(self, an_hour: Callable[[float], int]) -> None:
        """What the history has of the last three days, by the hours before now."""
        for hour in range(72, 0, -1):
            at = self.clock.now() - hour * HOUR
            self.checks.on_history("shop", "grounded", at + HOUR / 2, an_hour(hour))

    def firing(self) -> list[AlertState]:
        return [state for state in self.engine.evaluate(self.clock.now()) if state.firing]


def test_requests_without_verdicts_are_told_after_an_hour_and_ten_minutes_until_one_is_judged() -> None:
    world = World()
    assert not any(world.pass_hours(6, received=120, judged=60))
    silent = world.pass_hours(1, received=120, judged=0)
    assert not any(silent)
    assert world.pass_hours(0.5, received=120, judged=0)[-1]
    (state,) = world.firing()
    assert dict(state.labels) == {
        "alertname": "RagEvaluationsMissing",
        "app": "shop",
        "evaluator": "grounded",
        "severity": "warning",
    }
    assert state.annotations["description"] == (
        "grounded scored no answers from shop in the last hour. Given its traffic and the last three days, about 49"
        " were expected."
    )
    world.saw(1)
    assert world.firing() == []


def test_without_requests_nothing_is_missing() -> None:
    world = World()
    world.pass_hours(6, received=120, judged=60)
    assert not any(world.pass_hours(6, received=0, judged=0))


def test_an_app_whose_traces_are_received_under_a_gateway_is_measured_by_the_traffic_of_all() -> None:
    world = World()
    assert not any(world.pass_hours(6, received=120, judged=60, app="gateway"))
    assert world.pass_hours(1.5, received=120, judged=0, app="gateway")[-1]
    (state,) = world.firing()
    assert (state.app, state.evaluator) == ("shop", "grounded")
    assert not world.pass_hours(1.5, received=0, judged=0, app="gateway")[-1], "no requests arrive either"


def test_an_app_that_only_the_history_knows_is_not_missed_for_the_traffic_of_others() -> None:
    world = World()
    world.restore(lambda _: 60)
    assert not any(world.pass_hours(30, received=120, judged=0, app="bank")), "its service may be gone"


def test_an_app_with_traffic_of_its_own_is_not_measured_by_that_of_others() -> None:
    world = World()
    world.pass_hours(6, received=120, judged=60)
    assert not any(world.pass_hours(6, received=120, judged=0, app="bank"))


def test_where_few_were_ever_due_none_is_missed() -> None:
    world = World()
    world.pass_hours(24, received=120, judged=12)
    assert not any(world.pass_hours(4, received=96, judged=0))


def test_it_is_due_by_the_traffic_of_the_hour_and_not_by_that_of_the_day() -> None:
    world = World()
    world.pass_hours(24, received=1200, judged=60)
    assert not any(world.pass_hours(3, received=120, judged=0))
    assert any(world.pass_hours(3, received=1200, judged=0))


def test_an_app_that_is_new_is_measured_by_its_own_time() -> None:
    world = World()
    world.pass_hours(48, received=0, judged=0)
    world.pass_hours(6, received=120, judged=24)
    assert not any(world.pass_hours(1, received=120, judged=0))
    assert any(world.pass_hours(1, received=120, judged=0))


def test_after_three_days_without_a_verdict_that_is_what_is_usual() -> None:
    world = World()
    world.pass_hours(12, received=120, judged=60)
    assert world.pass_hours(4, received=120, judged=0)[-1]
    assert not world.pass_hours(72, received=120, judged=0)[-1]


def test_a_restart_into_silence_is_noticed_by_what_the_history_has() -> None:
    world = World()
    world.restore(lambda _: 60)
    world.pass_hours(1, received=120, judged=0)
    assert world.pass_hours(1, received=120, judged=0)[-1]


def test_a_restart_in_a_quiet_hour_is_no_alarm() -> None:
    """Of the night's traffic alone it cannot be seen that by day there is more: the days before say so."""
    world = World()
    world.restore(lambda hour: 3 if hour % 24 in range(20, 25) or hour % 24 == 0 else 80)
    assert not any(world.pass_hours(3, received=12, judged=0))


def test_a_restart_whose_history_is_shorter_than_a_day_waits_for_a_day() -> None:
    world = World()
    for hour in range(10, 0, -1):
        world.checks.on_history("shop", "grounded", world.clock.now() - hour * HOUR, 60)
    assert not any(world.pass_hours(3, received=120, judged=0))


def test_an_older_history_and_apps_that_nobody_asks_change_nothing() -> None:
    clock = ManualClock()
    known = EvaluationsMissing(Observed(clock))
    known.on_history("shop", "grounded", clock.now() - 4 * DAY, 60)
    known.on_received("shop", 100)
    assert list(known.find(clock.now())) == []


@given(
    st.lists(st.tuples(st.sampled_from(["received", "judged"]), st.integers(1, 50), st.integers(0, 7200)), max_size=60)
)
def test_it_never_fires_within_an_hour_of_a_verdict_nor_without_requests(moves: list[tuple[str, int, int]]) -> None:
    clock = ManualClock()
    known = EvaluationsMissing(Observed(clock))
    last_verdict = last_request = float("-inf")
    for kind, number, seconds in moves:
        clock.advance(seconds)
        if kind == "judged":
            known.on_history("shop", "grounded", clock.now(), number)
            last_verdict = clock.now()
        else:
            known.on_received("shop", number)
            last_request = clock.now()
        findings: list[ConditionResult] = [finding for _, finding in known.find(clock.now())]
        for finding in findings:
            if finding.status is AlertStatus.FIRING:
                assert clock.now() - last_verdict >= HOUR
                assert clock.now() - last_request <= HOUR + 600


@pytest.mark.parametrize(("others", "missing"), [(60, ["grounded"]), (6, ["retrieval_empty"])])
def test_one_outage_is_one_alert_though_the_rates_of_context_stop_as_well(others: int, missing: list[str]) -> None:
    world = World()
    for _ in range(6 * 12):
        world.pass_hours(1 / 12, received=120, judged=0)
        for number in range(5):
            world.saw(number, "retrieval_empty")
        for number in range(others // 12):
            world.saw(number)
    world.restore(lambda _: others)
    assert not any(world.pass_hours(1, received=120, judged=0))
    assert world.pass_hours(0.5, received=120, judged=0)[-1]
    assert [state.evaluator for state in world.firing()] == missing
