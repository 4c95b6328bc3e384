"""Alerts that bring their own defect rule: several levels of one evaluator, each with its own windows."""

from __future__ import annotations

from dataclasses import replace

from monitor.alerts.catalogue import held_back, linked
from monitor.alerts.engine import AlertEngine
from monitor.alerts.notify.delivery_state import DeliveryState
from monitor.alerts.policy import AlertPolicy, export_thresholds, own_rules, policies_for
from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.state import AlertState, AlertStatus
from monitor.clock import ManualClock
from monitor.model.outcome import DefectRule, Score
from monitor.pipeline.configured_evaluator import defects_by
from monitor.statistics.windows import Windows
from tests.support.results import judged
from tests.support.runtime import runtime

LOW = DefectRule("at_least", 2, levels=("low", "medium", "high"))
HIGH = DefectRule("at_least", 6, levels=("high",))
POLICIES = (
    AlertPolicy(evaluator="violence", warning=0.3),
    AlertPolicy(evaluator="violence", defect=LOW, warning=0.05, critical=0.2),
    AlertPolicy(evaluator="violence", defect=HIGH, critical=0.001),
)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.windows = Windows(self.clock)
        self.ruled = RuleWindows(POLICIES, self.clock)
        self.number = 0
        self.engine = AlertEngine(
            POLICIES, self.windows, ruled=self.ruled, defects={"violence": "are of level medium or higher (4 or more)"}
        )

    def judge(self, *, score: float, count: int) -> None:
        for _ in range(count):
            self.number += 1
            one = judged(self.number, evaluator="violence", defect=score >= 4)
            defects = defects_by(own_rules(POLICIES)["violence"], Score(score, ""))
            one = replace(one, outcome=Score(score, ""), weight=1.0, alert_defects=defects)
            self.windows.add("shop", "violence", self.clock.now(), 1.0, one.defect)
            self.ruled.add(one, "shop", self.clock.now())

    def states(self) -> dict[tuple[str, str], AlertState]:
        found = self.engine.evaluate(self.clock.now())
        return {(one.labels.get("defect_rule", ""), one.severity.value): one for one in found}


def test_each_rule_fires_on_its_own_rate() -> None:
    world = World()
    world.judge(score=0, count=150)
    world.judge(score=2, count=30)
    states = world.states()
    assert {key: one.status for key, one in states.items()} == {
        ("", "warning"): AlertStatus.OK,
        ("low or higher", "critical"): AlertStatus.OK,
        ("low or higher", "warning"): AlertStatus.FIRING,
        ("high", "critical"): AlertStatus.NOT_ENOUGH_DATA,
    }
    world.judge(score=7, count=6)
    assert world.states()["high", "critical"].status is AlertStatus.FIRING


def test_the_text_names_the_level_of_the_alert_that_speaks() -> None:
    world = World()
    world.judge(score=0, count=150)
    world.judge(score=2, count=30)
    states = world.states()
    assert (
        states["low or higher", "warning"]
        .annotations["description"]
        .startswith(
            "16.7 % of the answers from shop in the last 1h are of level low or higher (2 or more) according to"
        )
    )
    assert "are of level medium or higher (4 or more) according to" in states["", "warning"].annotations["description"]


def test_a_critical_alert_replaces_the_warning_by_its_own_rule_and_no_other() -> None:
    world = World()
    world.judge(score=0, count=100)
    world.judge(score=2, count=100)
    world.judge(score=7, count=20)
    firing = [one for one in world.states().values() if one.firing]
    held = [(one.labels.get("defect_rule"), one.severity) for one in held_back(firing)]
    assert held == [("low or higher", "warning")]


def test_a_receiver_hears_of_both_levels_and_of_the_end_of_each() -> None:
    world, delivery = World(), DeliveryState()
    world.judge(score=7, count=100)
    firing = [one for one in world.states().values() if one.severity == "critical"]
    delivery.update(firing, 0.0, 0.0)
    due = delivery.due(0.0)
    assert {one.state.labels["defect_rule"] for one in due} == {"low or higher", "high"}
    delivery.sent(due, 0.0, 1_700_000_100.0)
    delivery.update(firing[:1], 1.0, 1.0)
    assert [one.state.labels["defect_rule"] for one in delivery.due(1.0)] == ["high"]


def test_the_link_of_an_alert_leads_to_the_answers_by_its_rule() -> None:
    world = World()
    world.judge(score=7, count=100)
    url = linked(world.states()["high", "critical"], "http://page").annotations["answers_url"]
    assert "outcome=score&defect_rule=high" in url


def test_thresholds_by_an_own_rule_are_exported_apart() -> None:
    metrics = runtime().metrics
    export_thresholds(POLICIES, ["shop"], metrics)
    shop = {"app": "shop", "evaluator": "violence"}
    value = metrics.registry.get_sample_value
    assert value("ragmonitor_alert_threshold_ratio", {**shop, "severity": "warning"}) == 0.3
    high = {**shop, "severity": "critical", "defect_rule": "high"}
    assert value("ragmonitor_rule_alert_threshold_ratio", high) == 0.001


def test_an_app_replaces_the_policy_with_the_same_rule_only() -> None:
    own = AlertPolicy(evaluator="violence", app="shop", defect=HIGH, critical=0.01)
    assert policies_for([own, *POLICIES], "shop", "violence") == [own, *POLICIES[:2]]
    assert {one.defect for one in policies_for([own, *POLICIES], "docs", "violence")} == {None, LOW, HIGH}
    assert own not in policies_for([own, *POLICIES], "docs", "violence")
