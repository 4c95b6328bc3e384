"""Writes tests of the rules for `promtool test rules`: each alert fires when it must, and is silent when it must.

They are made from the same policies as the rules, with traffic that fits their thresholds, so that anybody who changes
the rules or runs another version of Prometheus can check that they still work. The rules are evaluated once an hour,
since the baseline of a regression takes days of traffic: everything is checked at whole hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from monitor.alerts import regression
from monitor.alerts.policy import AlertPolicy, Family, Severity, needs_baselines
from monitor.alerts.prometheus import severe
from monitor.alerts.prometheus.promql import DEFECT_RULE, RateSeries, dump
from monitor.alerts.prometheus.promtool import (
    DAY,
    HOUR,
    OTHER,
    REPLICAS,
    STEP,
    VERSION,
    Series,
    Test,
    evaluation_counters,
    expect_firing,
    gauge_series,
    promtool_test,
)
from monitor.alerts.prometheus.rules import groups
from monitor.alerts.rate_names import rate_alert
from monitor.alerts.self_alert import self_alerts
from monitor.quantities import format_duration
from monitor.statistics.change import CLEAN_DAYS_NEEDED, FAMILIES
from monitor.statistics.rates import doubled, judged_to_tell

_HEADER = (
    "# Written by `rag-monitor rules --format tests` from the alert policies of the configuration. Do not edit.\n"
    "# Run it beside the rules: promtool test rules FILE\n"
)
_ENOUGH = 3.0
"""Answers scored, as a multiple of the number needed to detect a rate, so that no test depends on the last digit."""


def render_tests(policies: Sequence[AlertPolicy], *, rules_file: str = "rules.yml") -> str:
    """Write a promtool test file for the rules of these policies; `rules_file` is their path, relative to the tests."""
    on_rates = [one for one in policies if one.defect is None]
    document = {
        "rule_files": [rules_file],
        "evaluation_interval": "1h",
        "group_eval_order": [group["name"] for group in groups(policies)],
        "tests": [
            *(test for one in on_rates for item in one.thresholds.items() for test in _threshold(one, *item)),
            *_regressions(on_rates),
            *(test for one in policies if one.defect is not None for test in _by_own_rule(one)),
            *severe.tests(policies),
            *(test for alert in self_alerts() for test in alert.tests()),
        ],
    }
    return _HEADER + dump(document)


def _by_own_rule(policy: AlertPolicy) -> Iterator[Test]:
    """Yield the same tests for an alert with its own defect rule."""
    rule = _rule(policy)
    tests = [test for item in policy.thresholds.items() for test in _threshold(policy, *item)]
    for test in (*tests, *_regressions([policy], rule)):
        yield {**test, "name": f"{test['name']}, by the defect rule {rule!r}"}


def _rule(policy: AlertPolicy) -> str:
    return policy.defect.name if policy.defect is not None else ""


def _by(rule: str) -> dict[str, str]:
    """Return the label of a defect rule; no label for the evaluator's own."""
    return {DEFECT_RULE: rule} if rule else {}


def _threshold(policy: AlertPolicy, severity: Severity, limit: float) -> Iterator[Test]:
    """Yield one test for each case, since a policy may be for one app."""
    shortest = policy.by_length[0]
    window = HOUR * math.ceil(shortest.window / 3600)
    minutes = 2 * window + HOUR
    rate = doubled(limit)
    steps = max(shortest.window / 60 / STEP, 1)
    judged = math.ceil(_ENOUGH * judged_to_tell(limit, rate, shortest.z) / steps / len(REPLICAS))
    app = policy.app or "shop"
    rule, series = _rule(policy), RateSeries(by_rule=policy.defect is not None)
    pair = {"app": app, "evaluator": policy.evaluator, **_by(rule), "severity": severity.value}
    fired = {**pair, "version": VERSION}
    later = minutes + HOUR * math.ceil(policy.resolve_after / 3600)
    exported = gauge_series(series.exported("alert_threshold_ratio"), pair, limit, later)
    good = limit / 2

    def scored(*pieces: tuple[int, float, float], **how: Any) -> list[Series]:
        return evaluation_counters(app, policy.evaluator, pieces, rule=rule, **how)

    above, below = (minutes, judged, rate), (minutes, judged, good)
    one_defect = [(window, 0, 0), (STEP, 1 / rate / len(REPLICAS), rate), (minutes - window - STEP, 0, 0)]
    cases: tuple[tuple[str, list[Series], bool], ...] = (
        ("clearly above", scored(above), True),
        ("clearly above, counters reset", scored(above, reset_at=window), True),
        ("clearly above, one replica gone", scored((minutes, 2 * judged, rate), gone_at=window), True),
        ("below", scored(below), False),
        ("below, counters reset", scored(below, reset_at=window), False),
        ("below, one replica gone", scored((minutes, 2 * judged, good), gone_at=window), False),
        ("measured above, by a single defect", scored(*one_defect), False),
        (
            "clearly above in one version, below in another one beside it",
            [*scored(above), *scored(below, version=OTHER)],
            True,
        ),
        ("nothing scored", scored((minutes, 0, 0)), False),
        ("no data", [], False),
    )
    alert = rate_alert(policy.evaluator).name
    title = f"{alert} {severity} of {policy.evaluator}" + (f" in {policy.app}" if policy.app else "")
    for name, given, fires in cases:
        checks = [expect_firing(alert, minutes, *([fired] if fires else []))]
        if not fires:
            checks.insert(0, expect_firing(alert, window + HOUR))
        yield promtool_test(f"{title}: {name}: {'fires' if fires else 'silent'}", [*exported, *given], checks)
    replaced = [*scored((window, judged, rate)), *scored((later - window, judged, good), version=OTHER, since=window)]
    yield promtool_test(
        f"{title}: clearly above, then a new version below: ends with its version",
        [*exported, *replaced],
        [expect_firing(alert, window, fired), expect_firing(alert, later)],
    )


def _regressions(policies: Sequence[AlertPolicy], rule: str = "") -> Iterator[Test]:
    """Yield the tests for each family and severity in the policies, all by the same defect rule."""
    if not needs_baselines(policies):
        return
    known = list(dict.fromkeys((p.regression, p.regression_severity) for p in policies if p.regression is not None))
    for family, severity in known:
        yield from _rise(family, severity, 6 * DAY, rule)
        yield from _new_version(family, severity, (CLEAN_DAYS_NEEDED + 1) * DAY, rule)


def _rise(family: Family, severity: Severity, before: int, rule: str) -> Iterator[Test]:
    """Put all cases into one test, each as an app, since promtool is slow over days of traffic."""
    minutes = before + 8 * HOUR
    rest = minutes - before
    judged, usual, risen = 20.0, 0.02, 0.1
    steady, rise = (before, judged, usual), (rest, judged, risen)
    cases: dict[str, tuple[Sequence[tuple[int, float, float]], dict[str, Any]]] = {
        "rises": ([steady, rise], {}),
        "rises, counters reset": ([steady, rise], {"reset_at": before - HOUR}),
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
        series += _needed(family, severity, app, minutes, rule)
        if pieces:
            series += evaluation_counters(app, "any", pieces, rule=rule, **how)
        if app in ("rises", "rises, counters reset"):
            fires.append(_risen(app, severity, rule))
    checks = [expect_firing(regression.NAME, before), expect_firing(regression.NAME, minutes, *fires)]
    yield promtool_test(f"{regression.NAME} {family}: fires for a rise and for nothing else", series, checks)


def _new_version(family: Family, severity: Severity, before: int, rule: str) -> Iterator[Test]:
    """Test that a new version is compared only with itself, once it has a baseline of its own."""
    armed, risen_for = 2 * before, 8 * HOUR
    minutes = armed + risen_for
    judged, usual, risen, worse = 20.0, 0.02, 0.1, 0.4
    steady, rise = (before, judged, usual), (risen_for, judged, risen)
    pieces: dict[str, tuple[Sequence[tuple[int, float, float]], Sequence[tuple[int, float, float]]]] = {
        "new version is higher, rises later": ([steady], [(armed - before, judged, risen), (risen_for, judged, worse)]),
        "new version after a rise": ([steady, rise], [(minutes - before - risen_for, judged, risen)]),
    }
    series: list[Series] = []
    for app, (old, new) in pieces.items():
        series += _needed(family, severity, app, minutes, rule)
        series += evaluation_counters(app, "any", old, rule=rule)
        begins = sum(length for length, _, _ in old)
        series += evaluation_counters(app, "any", new, version=OTHER, rule=rule, since=begins)
    end = before + risen_for
    resolved = end + HOUR * (2 + math.ceil(regression.HOLD / 3600))
    checks = [
        expect_firing(regression.NAME, before),
        expect_firing(regression.NAME, end, _risen("new version after a rise", severity, rule)),
        *(expect_firing(regression.NAME, resolved + days * DAY) for days in range(CLEAN_DAYS_NEEDED)),
        expect_firing(regression.NAME, minutes, _risen("new version is higher, rises later", severity, rule, OTHER)),
    ]
    yield promtool_test(
        f"{regression.NAME} {family}: a new version is silent until it has its own baseline", series, checks
    )


def _needed(family: Family, severity: Severity, app: str, minutes: int, rule: str) -> Iterator[Series]:
    """Yield the series that monitors export for an app with `regression`."""
    exported = RateSeries(by_rule=bool(rule)).exported("alert_regression_z")
    for window, z in FAMILIES[family].items():
        labels = {"app": app, "evaluator": "any", **_by(rule), "severity": severity.value}
        yield from gauge_series(exported, {**labels, "window": format_duration(window)}, z, minutes)


def _risen(app: str, severity: Severity, rule: str, version: str = VERSION) -> dict[str, str]:
    """Return the labels of the alert."""
    return {"app": app, "evaluator": "any", "version": version, **_by(rule), "severity": severity.value}
