"""`RagEvaluatorPaused`: no call to a judge can succeed until someone acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import HOUR, REPLICAS, Series, Test, expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import Condition, Inhibits, PrometheusRule, SelfAlert
from monitor.alerts.self_alerts import evaluations_missing, unscored_high
from monitor.alerts.state import AlertStatus, ConditionResult, Subject

NAME: Final = "RagEvaluatorPaused"
_SAME: Final = ("evaluator",)
_EXPLAINED: Final = (unscored_high.NAME, evaluations_missing.NAME)


class _EvaluatorPaused(Condition):
    """Checks whether the evaluators' judges are paused."""

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:  # noqa: ARG002 - a pause is now
        """Yield one finding for each evaluator that asks a judge."""
        for evaluator, why in self.observed.pauses():
            text = f"{evaluator}: {why or 'its judge is not paused.'}"
            finding = ConditionResult(AlertStatus.FIRING if why else AlertStatus.OK, text)
            yield Subject(NAME, Severity.WARNING, evaluator=evaluator), finding


def _tests() -> Iterator[Test]:
    labels = {"evaluator": "any", "severity": "warning"}
    end = 5 * HOUR

    def state(replica: str, name: str, values: str) -> Series:
        series = {"evaluator": "any", "state": name, "instance": replica}
        return input_series("ragmonitor_evaluator_state", series, values)

    one, other = REPLICAS
    yield promtool_test(
        f"{NAME}: paused in one of two replicas: fires, and ends with the pause",
        [state(one, "paused", "0x28 1x12 0x20"), state(other, "paused", "0x60")],
        [expect_firing(NAME, 2 * HOUR), expect_firing(NAME, 3 * HOUR, labels), expect_firing(NAME, end)],
    )
    yield promtool_test(f"{NAME}: another state: silent", [state(one, "error", "1x60")], [expect_firing(NAME, end)])
    yield promtool_test(f"{NAME}: no data: silent", [], [expect_firing(NAME, end)])


ALERT = SelfAlert(
    name=NAME,
    summary="A judge is paused until its set-up, its API key, its account or its model is fixed.",
    condition=_EvaluatorPaused,
    rules=(
        PrometheusRule(
            'max by (evaluator) (ragmonitor_evaluator_state{state="paused"}) > 0',
            "The judge of {{ $labels.evaluator }} is paused: it has no API key or address, or its provider rejects the"
            " key, asks for payment or does not have the model. The web UI and the log (event judge_paused) say which,"
            " and how to fix it.",
        ),
    ),
    inhibits=(Inhibits(_EXPLAINED, "a paused judge is why there are no scores", None, Severity.WARNING, _SAME),),
    tests=_tests,
)
