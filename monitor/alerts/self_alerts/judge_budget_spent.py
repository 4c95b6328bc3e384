"""`RagJudgeBudgetSpent`: evaluations got no score because the judge's budget is spent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import HOUR, STEP, Test, expect_firing, promtool_test, unscored_counter
from monitor.alerts.self_alert import Condition, Inhibits, Observed, PrometheusRule, ResultSelector, SelfAlert
from monitor.alerts.self_alerts import evaluations_missing
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.model.outcome import EvaluationResult, Unscored, UnscoredReason
from monitor.quantities import format_duration, number_of
from monitor.statistics.windows import Windows

NAME: Final = "RagJudgeBudgetSpent"
_EXPLAINED: Final = (evaluations_missing.NAME,)
_WINDOW: Final = 900.0
"""Seconds for which a single evaluation left out by the budget means that the budget is spent."""
_SPAN: Final = format_duration(_WINDOW)


class _JudgeBudgetSpent(Condition):
    """Counts evaluations left out by the budget, by evaluator."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(observed)
        self._lost = Windows(observed.clock, longest=_WINDOW)

    def on_result(self, result: EvaluationResult, app: str) -> None:  # noqa: ARG002 - a budget is not an app's
        """Count an evaluation left out by the budget."""
        if isinstance(result.outcome, Unscored) and result.outcome.reason is UnscoredReason.BUDGET:
            self._lost.add("", result.evaluator, result.evaluated_at, 1.0, defect=True)

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """Yield one finding for each evaluator."""
        for _, evaluator in self._lost.keys():  # noqa: SIM118 - not a mapping
            lost = self._lost.sums("", evaluator, _WINDOW, now).judged
            left = number_of(lost, "evaluation")
            text = f"The judge's budget left {left} by {evaluator} unscored in the last {_SPAN}."
            finding = ConditionResult(AlertStatus.FIRING if lost else AlertStatus.OK, text, window=_WINDOW)
            yield Subject(NAME, Severity.WARNING, evaluator=evaluator), finding


def _tests() -> Iterator[Test]:
    pair, labels = ("shop", "any"), {"evaluator": "any", "severity": "warning"}
    end = 5 * HOUR
    spent = [(2 * HOUR, 0.0), (HOUR, 3.0), (2 * HOUR, 0.0)]
    before, after = expect_firing(NAME, 2 * HOUR), expect_firing(NAME, end)
    around = [before, expect_firing(NAME, 3 * HOUR, labels), after]
    restarted = unscored_counter(*pair, "budget", spent, reset_at=2 * HOUR + 2 * STEP)
    restart_alone = unscored_counter(*pair, "budget", [(end, 0.0)], reset_at=HOUR)
    other_reason = unscored_counter(*pair, "timeout", spent)
    for title, series, checks in (
        ("evaluations left out: fires, and ends when none is", unscored_counter(*pair, "budget", spent), around),
        ("evaluations left out after a restart: fires", restarted, around),
        ("a restart alone: silent", restart_alone, [before]),
        ("another reason: silent", other_reason, [expect_firing(NAME, 3 * HOUR)]),
        ("no data: silent", [], [after]),
    ):
        yield promtool_test(f"{NAME}: {title}", series, checks)


ALERT = SelfAlert(
    name=NAME,
    summary="The judge's budget is spent: evaluations are left unscored.",
    condition=_JudgeBudgetSpent,
    rules=(
        PrometheusRule(
            f'sum by (evaluator) (increase(ragmonitor_unscored_total{{reason="budget"}}[{_SPAN}])) > 0',
            'The judge\'s budget left {{ $value | printf "%.0f" }} evaluations by {{ $labels.evaluator }} unscored in'
            f" the last {_SPAN}.",
        ),
    ),
    keep_firing_for=1800.0,
    inhibits=(Inhibits(_EXPLAINED, "a spent budget is why nothing is evaluated", equal=("evaluator",)),),
    answers=ResultSelector(("evaluator",), "unscored"),
    tests=_tests,
)
