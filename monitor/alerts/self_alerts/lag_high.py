"""`RagLagHigh`: traces wait long to be evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import HOUR, REPLICAS, STEP, Test, expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import Condition, PrometheusRule, SelfAlert
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.quantities import format_duration

NAME: Final = "RagLagHigh"
_LIMIT: Final = 1800.0
"""Seconds that the oldest trace may wait. With the default settings a trace is complete after 10 minutes at the latest,
and its evaluation is given up after 10 more."""
_OLDEST: Final = "ragmonitor_oldest_pending_timestamp_seconds"


class _LagHigh(Condition):
    """Looks at the oldest unfinished trace."""

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """Yield one finding for the process."""
        oldest = self.observed.oldest_pending()
        waited = max(now - oldest, 0.0) if oldest else 0.0
        text = (
            f"The oldest unfinished trace has been waiting for {waited / 60:.0f} minutes."
            f" The limit is {format_duration(_LIMIT)}."
        )
        status = AlertStatus.FIRING if waited > _LIMIT else AlertStatus.OK
        yield Subject(NAME, Severity.WARNING), ConditionResult(status, text)


def _tests() -> Iterator[Test]:
    one, other = ({"instance": replica} for replica in REPLICAS)
    stuck, idle = "0x12 3600x24", "0x36"  # since the first hour
    beside = input_series(_OLDEST, other, f"0+{60 * STEP}x36")  # the newest trace of the other replica
    fires = [expect_firing(NAME, HOUR), expect_firing(NAME, 2 * HOUR, {"severity": "warning"})]
    silent = [expect_firing(NAME, 2 * HOUR)]
    gone = input_series(_OLDEST, one, "0x12 3600x3 _x20")
    for title, series, checks in (
        ("a trace waits in one of two replicas: fires", [input_series(_OLDEST, one, stuck), beside], fires),
        ("the replica in which it waits is gone: silent", [gone, beside], silent),
        ("nothing waits: silent", [input_series(_OLDEST, one, idle)], silent),
        ("no data: silent", [], silent),
    ):
        yield promtool_test(f"{NAME}: {title}", series, checks)


ALERT = SelfAlert(
    name=NAME,
    summary="Traces wait too long to be evaluated.",
    condition=_LagHigh,
    rules=(
        PrometheusRule(
            f"time() - min({_OLDEST} > 0) > {_LIMIT:g}",
            "The oldest unfinished trace has been waiting for {{ $value | humanizeDuration }}. The limit is"
            f" {format_duration(_LIMIT)}.",
        ),
    ),
    keep_firing_for=300.0,
    tests=_tests,
)
