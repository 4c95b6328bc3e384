"""`RagStorageFailing`: a database cannot be written, or records were dropped because it could not be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.prometheus.promtool import HOUR, REPLICAS, Series, Test, expect_firing, input_series, promtool_test
from monitor.alerts.self_alert import Condition, Increases, Observed, PrometheusRule, SelfAlert
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.quantities import format_duration

NAME: Final = "RagStorageFailing"
_PENDING: Final = 120.0
_WINDOW: Final = 900.0
"""Seconds for which a single dropped record keeps the alert firing."""
_FAILING: Final = "ragmonitor_database_failing"
_UNWRITTEN: Final = "ragmonitor_database_unwritten_records_total"
_SPAN: Final = format_duration(_WINDOW)
_HOLD: Final = format_duration(_PENDING)


class _StorageFailing(Condition):
    """Looks at which databases cannot be written, and how many records were dropped."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(observed)
        self._since: dict[str, float] = {}
        self._increases = Increases(_WINDOW)

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """Yield one finding for the process: the subject of an alert has no label for a database."""
        failing = [labels["database"] for labels, value in self.observed.failing_databases() if value]
        self._since = {name: self._since.get(name, now) for name in failing}
        late = sorted(name for name, since in self._since.items() if now - since >= _PENDING)
        lost = {
            labels["database"]: self._increases.of(labels["database"], value, now)
            for labels, value in self.observed.unwritten_records()
        }
        texts = [f"The database {name} cannot be written; its new records wait." for name in late]
        texts += [
            f"{number:.0f} records of {name} were dropped in the last {_SPAN}."
            for name, number in lost.items()
            if number
        ]
        status = AlertStatus.FIRING if texts else AlertStatus.OK
        text = " ".join(texts) or "Every database can be written."
        yield Subject(NAME, Severity.WARNING), ConditionResult(status, text, window=_WINDOW)


def _tests() -> Iterator[Test]:
    one, other = REPLICAS
    labels = {"severity": "warning"}
    end = 2 * HOUR

    def series(name: str, values: str) -> list[Series]:
        beside = input_series(name, {"database": "history", "instance": other}, "0x36")
        return [input_series(name, {"database": "history", "instance": one}, values), beside]

    fires = [expect_firing(NAME, HOUR), expect_firing(NAME, end, labels)]
    silent = [expect_firing(NAME, end)]
    for title, given, checks in (
        ("one cannot be written for an hour: fires", series(_FAILING, "0x12 1x24"), fires),
        ("it could not, and can again: silent", series(_FAILING, "0x12 1x6 0x18"), silent),
        ("the first record was dropped: fires", series(_UNWRITTEN, "0x22 1x14"), fires),
        ("records were dropped long ago: silent", series(_UNWRITTEN, "0x6 7x30"), silent),
        ("all can be written: silent", [*series(_FAILING, "0x36"), *series(_UNWRITTEN, "0x36")], silent),
        ("no data: silent", [], silent),
    ):
        yield promtool_test(f"{NAME}: {title}", given, checks)


ALERT = SelfAlert(
    name=NAME,
    summary="A database of the monitor cannot be written.",
    condition=_StorageFailing,
    rules=(
        PrometheusRule(
            f"max(max by (database) (min_over_time({_FAILING}[{_HOLD}])) > 0"
            f" or sum by (database) (increase({_UNWRITTEN}[{_SPAN}])) > 0)",
            f"A database cannot be written, or records were dropped in the last {_SPAN}: `{_FAILING}` and"
            f" `{_UNWRITTEN}` show which one. The usual cause is a full disk.",
        ),
    ),
    keep_firing_for=300.0,
    tests=_tests,
)
