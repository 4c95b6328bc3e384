"""`RagMemoryShort`: receivers refuse data because the monitor is short of memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.prometheus.promtool import HOUR, REPLICAS, Test, expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import PrometheusRule, SelfAlert

NAME: Final = "RagMemoryShort"
_SHARE: Final = 0.25
"""Share of a quarter of an hour. A burst is over sooner: senders retry, and nothing is lost."""
_REFUSING: Final = "ragmonitor_memory_refusing"


def _tests() -> Iterator[Test]:
    one, other = ({"instance": replica} for replica in REPLICAS)
    beside = input_series(_REFUSING, other, "0x36")
    fires = [expect_firing(NAME, HOUR), expect_firing(NAME, 2 * HOUR, {"severity": "warning"})]
    silent = [expect_firing(NAME, 2 * HOUR)]
    for title, series, checks in (
        ("one of two replicas refuses for an hour: fires", [input_series(_REFUSING, one, "0x12 1x24"), beside], fires),
        ("it refused more than an hour ago: silent", [input_series(_REFUSING, one, "1x6 0x30"), beside], silent),
        ("no replica refuses: silent", [beside], silent),
        ("no data: silent", [], silent),
    ):
        yield promtool_test(f"{NAME}: {title}", series, checks)


ALERT = SelfAlert(
    name=NAME,
    summary="Receivers refuse data because the monitor is short of memory.",
    rules=(
        PrometheusRule(
            f"max(avg_over_time({_REFUSING}[15m])) > {_SHARE:g}",
            "A replica refused data for {{ $value | humanizePercentage }} of the last 15 minutes because it was short"
            " of memory (`limits.memory`).",
        ),
    ),
    keep_firing_for=300.0,
    tests=_tests,
)
