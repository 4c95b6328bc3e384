"""`RagWorkersReplaced`: worker processes end again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import HOUR, REPLICAS, Test, expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import Condition, Increases, Observed, PrometheusRule, SelfAlert
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.quantities import format_duration

NAME: Final = "RagWorkersReplaced"
_WINDOW: Final = 1800.0
_LIMIT: Final = 5
"""Replaced processes within the window. A text that crashes its reader costs one or two, and is then set aside."""
_REPLACED: Final = "ragmonitor_workers_replaced_total"
_SPAN: Final = format_duration(_WINDOW)


class _WorkersReplaced(Condition):
    """Counts the worker processes that were replaced."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(observed)
        self._increases = Increases(_WINDOW)

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """Yield one finding for the process."""
        found = {
            labels["reason"]: self._increases.of(labels["reason"], value, now)
            for labels, value in self.observed.replaced_workers()
        }
        reasons = ", ".join(f"{reason} {number:.0f}" for reason, number in found.items() if number)
        text = (
            f"{sum(found.values()):.0f} worker processes were replaced in the last {_SPAN}"
            f"{f' ({reasons})' if reasons else ''}. The limit is {_LIMIT}."
        )
        status = AlertStatus.FIRING if sum(found.values()) > _LIMIT else AlertStatus.OK
        yield Subject(NAME, Severity.WARNING), ConditionResult(status, text, window=_WINDOW)


def _tests() -> Iterator[Test]:
    one, other = REPLICAS
    fires = [expect_firing(NAME, HOUR), expect_firing(NAME, 2 * HOUR, {"severity": "warning"})]
    silent = [expect_firing(NAME, 2 * HOUR)]
    for title, reason, values, checks in (
        ("six of one replica in half an hour: fires", "died", "0x12 1+1x24", fires),
        ("for memory: fires", "memory", "0x12 2+2x24", fires),
        ("two for one text: silent", "hung", "0x12 2x24", silent),
        ("one an hour: silent", "died", "0x5 1x12 2x12", silent),
        ("none: silent", "died", "0x36", silent),
    ):
        series = [
            input_series(_REPLACED, {"reason": reason, "instance": one}, values),
            input_series(_REPLACED, {"reason": reason, "instance": other}, "0x36"),
        ]
        yield promtool_test(f"{NAME}: {title}", series, checks)
    yield promtool_test(f"{NAME}: no data: silent", [], silent)


ALERT = SelfAlert(
    name=NAME,
    summary="Worker processes end and are replaced again and again.",
    condition=_WorkersReplaced,
    rules=(
        PrometheusRule(
            f"max(sum by (instance) (increase({_REPLACED}[{_SPAN}]))) > {_LIMIT}",
            'A replica has replaced {{ $value | printf "%.0f" }} worker processes in the last'
            f" {_SPAN}. `{_REPLACED}` has the reasons.",
        ),
    ),
    keep_firing_for=900.0,
    tests=_tests,
)
