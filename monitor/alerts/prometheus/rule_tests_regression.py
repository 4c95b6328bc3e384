"""Tests of `RagDefectRateRegression` for `promtool test rules`: days of traffic, for that is what a baseline takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from monitor.alerts.conditions import regression
from monitor.alerts.policy import AlertPolicy, Family, Severity, needs_baselines
from monitor.alerts.prometheus.promtool import (
    OTHER,
    VERSION,
    Series,
    Test,
    evaluation_counters,
    expect_firing,
    gauge_series,
    promtool_test,
)
from monitor.quantities import format_duration
from monitor.statistics.change import CLEAN_DAYS_NEEDED, FAMILIES

_HOUR, _DAY = 60, 1440  # minutes


def rises(policies: Sequence[AlertPolicy]) -> Iterator[Test]:
    """The tests for each family and severity that the policies have."""
    if not needs_baselines(policies):
        return
    known = list(dict.fromkeys((p.regression, p.regression_severity) for p in policies if p.regression is not None))
    for family, severity in known:
        yield from _rise(family, severity, 6 * _DAY)
        yield from _new_version(family, severity, (CLEAN_DAYS_NEEDED + 1) * _DAY)


def _rise(family: Family, severity: Severity, before: int) -> Iterator[Test]:
    """All cases in one test, each an app: what takes time is the days."""
    minutes = before + 8 * _HOUR
    rest = minutes - before
    judged, usual, risen = 20.0, 0.02, 0.1
    steady, rise = (before, judged, usual), (rest, judged, risen)
    cases: dict[str, tuple[Sequence[tuple[int, float, float]], dict[str, Any]]] = {
        "rises": ([steady, rise], {}),
        "rises, counters reset": ([steady, rise], {"reset_at": before - _HOUR}),
        "as before": ([(minutes, judged, usual)], {}),
        "as before, counters reset": ([(minutes, judged, usual)], {"reset_at": before}),
        "as before, one replica gone": ([(minutes, judged, usual)], {"gone_at": before}),
        "as before, more traffic": ([steady, (rest, 3 * judged, usual)], {}),
        "rises, too few samples": ([(before, judged / 200, usual), (rest, judged / 200, risen)], {}),
        "traffic stops": ([steady, (rest, 0, 0)], {}),
        "no data": ([], {}),
    }
    series: list[Series] = []
    fires = []
    for app, (pieces, how) in cases.items():
        series += _needed(family, severity, app, minutes)
        if pieces:
            series += evaluation_counters(app, "any", pieces, **how)
        if app in ("rises", "rises, counters reset"):
            fires.append(_risen(app, severity))
    checks = [expect_firing(regression.NAME, before), expect_firing(regression.NAME, minutes, *fires)]
    yield promtool_test(f"{regression.NAME} {family}: fires for a rise and for nothing else", series, checks)


def _new_version(family: Family, severity: Severity, before: int) -> Iterator[Test]:
    """Another version is compared with itself alone, and only once it has a baseline of its own."""
    armed, risen_for = 2 * before, 8 * _HOUR
    minutes = armed + risen_for
    judged, usual, risen, worse = 20.0, 0.02, 0.1, 0.4
    steady, rise = (before, judged, usual), (risen_for, judged, risen)
    pieces: dict[str, tuple[Sequence[tuple[int, float, float]], Sequence[tuple[int, float, float]]]] = {
        "another is higher, and rises later": ([steady], [(armed - before, judged, risen), (risen_for, judged, worse)]),
        "another, after a rise": ([steady, rise], [(minutes - before - risen_for, judged, risen)]),
    }
    series: list[Series] = []
    for app, (old, new) in pieces.items():
        series += _needed(family, severity, app, minutes)
        series += evaluation_counters(app, "any", old)
        series += evaluation_counters(app, "any", new, version=OTHER, since=sum(length for length, _, _ in old))
    end = before + risen_for
    resolved = end + _HOUR * (2 + math.ceil(regression.HOLD / 3600))
    checks = [
        expect_firing(regression.NAME, before),
        expect_firing(regression.NAME, end, _risen("another, after a rise", severity)),
        *(expect_firing(regression.NAME, resolved + days * _DAY) for days in range(CLEAN_DAYS_NEEDED)),
        expect_firing(regression.NAME, minutes, _risen("another is higher, and rises later", severity, OTHER)),
    ]
    yield promtool_test(
        f"{regression.NAME} {family}: another version has no baseline until it has its own", series, checks
    )


def _needed(family: Family, severity: Severity, app: str, minutes: int) -> Iterator[Series]:
    """What monitors export for an app that is watched for regressions."""
    for window, z in FAMILIES[family].items():
        labels = {"app": app, "evaluator": "any", "severity": severity.value, "window": format_duration(window)}
        yield from gauge_series("ragmonitor_alert_regression_z", labels, z, minutes)


def _risen(app: str, severity: Severity, version: str = VERSION) -> dict[str, str]:
    """The labels of its alert."""
    return {"app": app, "evaluator": "any", "version": version, "severity": severity.value}
