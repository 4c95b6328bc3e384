"""Which alerts hold others back: only those at least as grave, of the same app and evaluator."""

from __future__ import annotations

import pytest

from monitor.alerts.catalogue import held_back, inhibitions
from monitor.alerts.notify.delivery_state import DeliveryState
from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState, AlertStatus, Subject

HIGH, RISE, UNSCORED = "RagDefectRateHigh", "RagDefectRateRegression", "RagUnscoredHigh"
MISSING, BUDGET, LAG = "RagEvaluationsMissing", "RagJudgeBudgetSpent", "RagLagHigh"
PAUSED = "RagEvaluatorPaused"


def alert(name: str, severity: str, app: str = "shop", evaluator: str = "grounded") -> AlertState:
    subject = Subject(name, Severity(severity), app, evaluator)
    return AlertState(
        status=AlertStatus.FIRING,
        severity=subject.severity,
        app=app,
        evaluator=evaluator,
        threshold=None,
        since=0.0,
        labels=subject.labels,
    )


def told(*states: AlertState) -> list[tuple[str, str]]:
    delivery = DeliveryState()
    delivery.update(states, 0.0, 0.0)
    return [(notice.state.name, notice.state.severity.value) for notice in delivery.due(0.0)]


@pytest.mark.parametrize(
    ("source", "target", "is_held_back"),
    [
        ((HIGH, "critical"), (HIGH, "warning"), True),
        ((HIGH, "critical"), (RISE, "warning"), True),
        ((RISE, "critical"), (HIGH, "warning"), True),
        ((HIGH, "critical"), (RISE, "critical"), False),
        ((HIGH, "critical"), (UNSCORED, "warning"), False),
        ((UNSCORED, "critical"), (UNSCORED, "warning"), True),
        ((UNSCORED, "critical"), (HIGH, "critical"), True),
        ((UNSCORED, "warning"), (HIGH, "critical"), False),
        ((UNSCORED, "warning"), (HIGH, "warning"), True),
        ((UNSCORED, "warning"), (RISE, "warning"), True),
        ((UNSCORED, "warning"), (MISSING, "warning"), True),
        ((BUDGET, "warning"), (MISSING, "warning"), True),
        ((BUDGET, "warning"), (HIGH, "warning"), False),
        ((LAG, "warning"), (HIGH, "warning"), False),
        ((PAUSED, "warning"), (MISSING, "warning"), True),
        ((PAUSED, "warning"), (UNSCORED, "warning"), True),
        ((PAUSED, "warning"), (UNSCORED, "critical"), False),
        ((PAUSED, "warning"), (HIGH, "warning"), False),
    ],
)
def test_an_alert_is_held_back_only_by_one_that_explains_it(
    source: tuple[str, str], target: tuple[str, str], is_held_back: bool
) -> None:
    assert told(alert(*source), alert(*target)) == ([source] if is_held_back else [source, target])


def test_what_is_held_back_is_never_graver_than_what_holds_it_back() -> None:
    for rule in inhibitions():
        if rule.source_severity is not Severity.CRITICAL and rule.sources != (BUDGET,):
            assert rule.target_severity is Severity.WARNING


def test_another_app_or_evaluator_holds_nothing_back_and_a_budget_does_so_for_all_apps() -> None:
    warning = alert(HIGH, "warning")
    assert held_back([alert(HIGH, "critical", app="bank"), warning]) == []
    assert held_back([alert(HIGH, "critical", evaluator="relevance"), warning]) == []
    missing = alert(MISSING, "warning", app="bank")
    assert held_back([alert(BUDGET, "warning", app=""), missing]) == [missing]


def test_what_was_held_back_is_told_once_nothing_explains_it_any_more() -> None:
    delivery = DeliveryState()
    warning, trouble = alert(HIGH, "warning"), alert(UNSCORED, "warning")
    delivery.update([warning, trouble], 0.0, 0.0)
    delivery.sent(delivery.due(0.0), 0.0, 0.0)
    delivery.update([warning], 1.0, 1.0)
    assert [(notice.state.name, notice.ended) for notice in delivery.due(1.0)] == [(UNSCORED, 1.0), (HIGH, None)]


def test_two_thousand_alerts_that_nobody_takes_cost_no_second() -> None:
    delivery = DeliveryState()
    states = [alert(HIGH, severity, app=f"app {number}") for number in range(1000) for severity in Severity]
    for _ in range(10):
        delivery.update(states, 0.0, 0.0)
        assert len(delivery.due(0.0)) == 1000
