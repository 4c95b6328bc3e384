"""`RagUnscoredHigh`: many evaluations produce no score, so the rates rest on too few of the sampled answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor.alerts import regression, threshold
from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promql import EVALUATIONS, OWN_EVALUATORS, PAIR, record
from monitor.alerts.prometheus.promtool import (
    HOUR,
    Series,
    Test,
    evaluation_counters,
    expect_firing,
    promtool_test,
    unscored_counter,
)
from monitor.alerts.prometheus.rates import lower_limit_of_counts
from monitor.alerts.self_alert import Condition, Inhibits, Observed, PrometheusRule, ResultSelector, SelfAlert
from monitor.alerts.self_alerts import evaluations_missing
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.model.outcome import EvaluationResult, Score, Unscored, UnscoredReason
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.rates import estimate
from monitor.statistics.windows import Windows

NAME: Final = "RagUnscoredHigh"

LIMITS: Final = {Severity.CRITICAL: 0.5, Severity.WARNING: 0.1}
"""The share of evaluations without a score above which too few are scored: under a half, under nine tenths.

Evaluations left out by a spent budget do not count: a budget is a choice, and has an alert of its own.
"""
_Z: Final = 3.09
_WINDOW: Final = 3600.0


class _UnscoredHigh(Condition):
    """Sums up the outcomes of the last hour by app and evaluator."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(observed)
        self._outcomes = Windows(observed.clock, longest=_WINDOW)

    def on_result(self, result: EvaluationResult, app: str) -> None:
        """Count an outcome, whether or not it is a score."""
        outcome = result.outcome
        unscored = isinstance(outcome, Unscored) and outcome.reason is not UnscoredReason.BUDGET
        if unscored or isinstance(outcome, Score):
            self._outcomes.add(app, result.evaluator, result.evaluated_at, 1.0, defect=unscored)

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """Yield one finding for each app, evaluator and severity."""
        for app, evaluator in self._outcomes.keys():  # noqa: SIM118 - not a mapping
            for severity, limit in LIMITS.items():
                yield Subject(NAME, severity, app, evaluator), self._decide(app, evaluator, limit, now)

    def _decide(self, app: str, evaluator: str, limit: float, now: float) -> ConditionResult:
        found = estimate(self._outcomes.sums(app, evaluator, _WINDOW, now), _Z)
        span = format_duration(_WINDOW)
        if found is None:
            nothing = f"{evaluator} evaluated no answers from {app} in the last {span}."
            return ConditionResult(AlertStatus.NOT_ENOUGH_DATA, nothing, limit, _WINDOW)
        text = (
            f"{precise_percent(found.rate)} of the {found.judged} evaluations of answers from {app} by {evaluator} in"
            f" the last {span} produced no score (at least {precise_percent(found.lower)})."
            f" The limit is {precise_percent(limit)}."
        )
        status = AlertStatus.FIRING if found.lower > limit else AlertStatus.OK
        return ConditionResult(status, text, limit, _WINDOW, found)


_UNSCORED = record(
    f"{PAIR}unscored:increase1h", 'sum by (app, evaluator) (increase(ragmonitor_unscored_total{reason!="budget"}[1h]))'
)
_LOST, _SCORED = _UNSCORED["record"], EVALUATIONS["record"]


def _rule(severity: Severity, limit: float) -> PrometheusRule:
    return PrometheusRule(
        f"{lower_limit_of_counts(_LOST, _SCORED, _Z)}\n> {limit:g}\n{OWN_EVALUATORS}",
        "At least {{ $value | humanizePercentage }} of the evaluations of answers from {{ $labels.app }} by"
        " {{ $labels.evaluator }} in the last hour produced no score. ragmonitor_unscored_total has the reasons.",
        severity,
    )


def _tests() -> Iterator[Test]:
    pair = ("shop", "any")
    of = {"app": "shop", "evaluator": "any"}
    warning, critical = ({**of, "severity": severity} for severity in ("warning", "critical"))
    scored = evaluation_counters(*pair, [(4 * HOUR, 10.0, 0.0)])
    none_scored = evaluation_counters(*pair, [(4 * HOUR, 0.0, 0.0)])
    end = 4 * HOUR

    def lost(each: float, reason: str = "timeout", **how: Any) -> list[Series]:
        return unscored_counter(*pair, reason, [(2 * HOUR, 0), (2 * HOUR, each)], **how)

    cases: tuple[tuple[str, list[Series], tuple[Mapping[str, str], ...]], ...] = (
        ("a third without a score: a warning fires", [*scored, *lost(10)], (warning,)),
        ("a third, after a restart: a warning fires", [*scored, *lost(10, reset_at=3 * HOUR)], (warning,)),
        ("most without a score: fires", [*scored, *lost(100)], (critical, warning)),
        ("all without a score: fires", [*none_scored, *lost(100)], (critical, warning)),
        ("one in fifty: silent", [*scored, *lost(0.4)], ()),
        ("a third, left out by the budget: silent", [*scored, *lost(10, "budget")], ()),
        ("too few: silent", [*evaluation_counters(*pair, [(end, 0.1, 0.0)]), *lost(0.1)], ()),
        ("no data: silent", [], ()),
    )
    for name, series, firing in cases:
        checks = [expect_firing(NAME, 2 * HOUR), expect_firing(NAME, end, *firing)]
        yield promtool_test(f"{NAME}: {name}", series, checks)


_RATES = (threshold.NAME, regression.NAME)
_BELOW = (*_RATES, evaluations_missing.NAME)

ALERT = SelfAlert(
    name=NAME,
    summary="Many evaluations produce no score.",
    condition=_UnscoredHigh,
    records=(EVALUATIONS, _UNSCORED),
    rules=tuple(_rule(severity, limit) for severity, limit in LIMITS.items()),
    keep_firing_for=900.0,
    inhibits=(
        Inhibits((NAME,), "the critical alert replaces its warning", Severity.CRITICAL, Severity.WARNING),
        Inhibits(_RATES, "most scores are missing: no rate can be trusted", Severity.CRITICAL),
        Inhibits(_BELOW, "many scores are missing: fix the judge first", target_severity=Severity.WARNING),
    ),
    answers=ResultSelector(("app", "evaluator"), "unscored"),
    tests=_tests,
)
