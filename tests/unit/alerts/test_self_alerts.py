"""Alerts on the monitor's own state: verdicts that do not come, a budget that is spent, answers that wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monitor.alerts.engine import AlertEngine
from monitor.alerts.self_alert import Observed, SelfAlertChecks
from monitor.alerts.state import AlertState
from monitor.clock import ManualClock
from monitor.model.outcome import Outcome, Score, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.statistics.windows import Windows
from tests.support.results import judged

SCORED, TIMEOUT, BUDGET = Score(4.0, ""), Unscored(UnscoredReason.TIMEOUT), Unscored(UnscoredReason.BUDGET)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.oldest = 0.0
        self.pauses: dict[str, str] = {}
        checks = SelfAlertChecks(Observed(self.clock, lambda: self.oldest, self.pauses.items))
        self.saw = checks.on_result
        self.engine = AlertEngine([], Windows(self.clock), checks=checks)

    def see(self, count: int, outcome: Outcome, app: str = "shop") -> None:
        for number in range(count):
            one = replace(judged(number), evaluator="grounded", outcome=outcome, evaluated_at=self.clock.now())
            self.saw(one, app)

    def firing(self) -> Sequence[AlertState]:
        return [state for state in self.engine.evaluate(self.clock.now()) if state.firing]

    def names(self) -> list[tuple[str, str]]:
        return [(state.name, state.severity.value) for state in self.firing()]


def test_a_monitor_that_has_seen_nothing_has_no_trouble() -> None:
    assert World().firing() == []


def test_a_third_without_a_verdict_is_a_warning_and_most_are_critical() -> None:
    world = World()
    world.see(100, SCORED)
    world.see(50, TIMEOUT)
    (warning,) = world.firing()
    assert dict(warning.labels) == {
        "alertname": "RagUnscoredHigh",
        "app": "shop",
        "evaluator": "grounded",
        "severity": "warning",
    }
    assert warning.annotations["description"] == (
        "33.3 % of the 150 evaluations of answers from shop by grounded in the last 1h produced no score (at least"
        " 22.1 %). The limit is 10 %."
    )
    world.see(800, TIMEOUT)
    assert world.names() == [("RagUnscoredHigh", "critical"), ("RagUnscoredHigh", "warning")]


def test_few_without_a_verdict_and_what_does_not_apply_are_no_trouble() -> None:
    world = World()
    world.see(98, SCORED)
    world.see(2, TIMEOUT)
    world.see(1, TIMEOUT, app="bank")
    world.see(500, Skipped(SkippedReason.NO_RETRIEVAL))
    assert world.firing() == []


def test_it_is_over_a_quarter_of_an_hour_after_the_last_hour_was_good() -> None:
    world = World()
    world.see(100, TIMEOUT)
    assert world.firing()
    world.clock.advance(3700)
    world.see(100, SCORED)
    assert world.firing()
    world.clock.advance(901)
    assert world.firing() == []


def test_a_spent_budget_is_told_once_for_an_evaluator_and_is_no_missing_verdict() -> None:
    world = World()
    world.see(1, BUDGET)
    world.see(200, BUDGET, app="bank")
    (state,) = world.firing()
    assert dict(state.labels) == {
        "alertname": "RagJudgeBudgetSpent",
        "evaluator": "grounded",
        "severity": "warning",
    }
    assert "left 201 evaluations by grounded unscored" in state.annotations["description"]
    world.clock.advance(1000)
    assert world.names() == [("RagJudgeBudgetSpent", "warning")]
    world.clock.advance(1801)
    assert world.firing() == []


def test_a_paused_judge_is_told_at_once_for_its_evaluators_and_until_it_answers() -> None:
    world = World()
    world.pauses |= {"grounded": "its key. Write a valid one.", "polite": ""}
    (state,) = world.firing()
    assert dict(state.labels) == {"alertname": "RagEvaluatorPaused", "evaluator": "grounded", "severity": "warning"}
    assert state.annotations["description"] == "grounded: its key. Write a valid one."
    world.pauses["grounded"] = ""
    assert world.firing() == []


def test_a_trace_that_waits_for_half_an_hour_is_told_until_it_is_done() -> None:
    world = World()
    world.oldest = world.clock.now() - 1790
    assert world.firing() == []
    world.clock.advance(20)
    (state,) = world.firing()
    assert dict(state.labels) == {"alertname": "RagLagHigh", "severity": "warning"}
    assert state.annotations["description"].startswith("The oldest unfinished trace has been waiting for 30 minutes")
    world.oldest = 0.0
    assert world.firing()
    world.clock.advance(301)
    assert world.firing() == []
