"""How a monitor is doing, by its counters and by what its JSON API says."""

from __future__ import annotations

import pytest

from monitor.errors import MonitorError
from monitor.operations.watch.watcher import FiringAlert, evaluator_states
from monitor.pipeline.introspection.evaluator_status import State
from tests.support.fake_monitor import FakeMonitor

START = 1_700_000_000.0


@pytest.mark.parametrize(
    ("judged", "defects", "state"),
    [(400, 200, "critical"), (400, 80, "warning"), (400, 8, "ok"), (5, 1, "not_enough_data")],
)
def test_a_state_is_that_of_an_alert_on_what_is_shown(judged: int, defects: int, state: str) -> None:
    fake = FakeMonitor()
    fake.judge(judged, defects)
    watcher = fake.watcher()
    watcher.look(START)
    (rate,) = watcher.status().rates
    assert (rate.state, rate.thresholds["warning"]) == (state, 0.1)


def test_where_no_alert_is_configured_there_is_no_state() -> None:
    fake = FakeMonitor()
    fake.judge(400, 200, app="other")
    watcher = fake.watcher()
    watcher.look(START)
    assert [rate.state for rate in watcher.status().rates] == ["no_alert"]


def test_the_json_api_knows_the_states_better() -> None:
    fake = FakeMonitor()
    fake.judge(400, 200)
    firing = {"name": "RagDefectRateHigh", "severity": "warning", "app": "shop", "evaluator": "groundedness"}
    rate = {"app": "shop", "evaluator": "groundedness", "state": "warning", "firing": [firing]}
    fake.overview = {"apps": [{"rates": [rate, "nonsense"]}], "alerts": None}
    watcher = fake.watcher()
    watcher.look(START)
    status = watcher.status()
    assert status.rates[0].state == "warning"
    assert status.alerts == [FiringAlert(**firing, description="")]


def test_the_first_look_has_the_figures_since_the_start_and_later_ones_both() -> None:
    fake = FakeMonitor()
    fake.judge(100, 50)
    watcher = fake.watcher()
    watcher.look(START)
    first = watcher.status()
    assert (first.watched, first.long_enough, first.rates[0].since_start.judged) == (0.0, False, 100)
    fake.judge(100, 10)
    watcher.look(START + 40)
    later = watcher.status()
    assert (later.watched, later.long_enough) == (40.0, True)
    assert (later.rates[0].window.judged, later.rates[0].since_start.judged) == (100, 200)


def test_a_monitor_that_is_away_for_a_while_is_waited_for() -> None:
    fake = FakeMonitor()
    fake.judge(100, 50)
    watcher = fake.watcher()
    fake.away = True
    with pytest.raises(MonitorError, match="no monitor responds"):
        watcher.look(START)
    fake.away = False
    watcher.look(START)
    fake.away = True
    watcher.look(START + 30, patient=True)
    status = watcher.status()
    assert status.problem.startswith("http://127.0.0.1:9464")
    assert (status.at, status.rates[0].since_start.judged) == (START, 100)
    fake.away = False
    watcher.look(START + 32, patient=True)
    assert watcher.status().problem == ""


def test_an_explanation_of_another_state_is_left_out() -> None:
    stale = {"groundedness": {"state": "paused", "why": "The key.", "remedy": "Another key."}}
    found = evaluator_states({"groundedness": "error", "tone": "unheard_of"}, stale)
    assert {name: (one.state, one.why) for name, one in found.items()} == {"groundedness": (State.ERROR, "")}


def test_a_rate_by_an_own_rule_of_an_alert_has_a_row_a_threshold_and_a_state_of_its_own() -> None:
    fake = FakeMonitor()
    fake.judge(1000, 10)
    metrics = fake.metrics
    metrics.rule_alert_threshold.labels("shop", "groundedness", "ungrounded", "critical").set(0.05)
    for defect, number in (("true", 300), ("false", 700)):
        labels = ("shop", "groundedness", "v1", "ungrounded", defect)
        metrics.rule_evaluations.labels(*labels).inc(number)
        metrics.rule_weight.labels(*labels).inc(number)
        metrics.rule_weight_squares.labels(*labels).inc(number)
    watcher = fake.watcher()
    watcher.look(START)
    status = watcher.status()
    usual, own = status.rates
    assert (usual.defect_rule, usual.state, dict(usual.thresholds)) == ("", "ok", {"warning": 0.1, "critical": 0.3})
    assert (own.defect_rule, own.state, dict(own.thresholds)) == ("ungrounded", "critical", {"critical": 0.05})
    assert (usual.since_start.defects, own.since_start.defects) == (10, 300)


def test_the_json_api_knows_the_state_by_each_rule() -> None:
    fake = FakeMonitor()
    fake.judge(1000, 10)
    labels = ("shop", "groundedness", "v1", "ungrounded", "true")
    fake.metrics.rule_evaluations.labels(*labels).inc(1)
    fake.metrics.rule_weight.labels(*labels).inc(1)
    rate = {"app": "shop", "evaluator": "groundedness", "state": "warning"}
    by_rule = [{"defect_rule": "ungrounded", "state": "not_enough_data"}, "odd"]
    fake.overview = {"apps": [{"rates": [{**rate, "by_rule": by_rule}]}]}
    watcher = fake.watcher()
    watcher.look(START)
    assert [one.state for one in watcher.status().rates] == ["warning", "not_enough_data"]
