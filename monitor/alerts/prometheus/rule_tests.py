"""Tests of the rules for `promtool test rules`: each alert fires when it must and is silent when it must.

Written from the same policies as the rules, with traffic made for their thresholds, so that whoever changes the rules
or runs another version of Prometheus can tell whether they still work. Rules are evaluated by the hour here, since the
baseline of a regression takes days of traffic; so all that is looked at happens at whole hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monitor.alerts.conditions.threshold import NAME
from monitor.alerts.policy import AlertPolicy, Severity
from monitor.alerts.prometheus.format import dump
from monitor.alerts.prometheus.promtool import (
    OTHER,
    REPLICAS,
    STEP,
    VERSION,
    Series,
    Test,
    counter_values,
    evaluation_counters,
    expect_firing,
    gauge_series,
    input_series,
    promtool_test,
)
from monitor.alerts.prometheus.rule_tests_canary import drifted
from monitor.alerts.prometheus.rule_tests_regression import rises
from monitor.alerts.prometheus.rules import groups
from monitor.alerts.trouble import BUDGET, LAG, MISSING, PAUSED, UNSCORED
from monitor.statistics.rates import doubled, judged_to_tell

_HEADER = (
    "# Written by `rag-monitor rules --format tests` from the alert policies of the configuration. Do not edit.\n"
    "# Run it beside the rules: promtool test rules FILE\n"
)
_HOUR, _DAY = 60, 1440  # minutes
_SHOP = ("shop", "any")
_ENOUGH = 3.0
"""How many times as many are judged as it takes to notice, so that a test does not depend on the last digit."""


def render_tests(policies: Sequence[AlertPolicy], *, rules_file: str = "rules.yml") -> str:
    """A promtool test file for the rules of the same policies, which `rules_file` holds, relative to the tests."""
    document = {
        "rule_files": [rules_file],
        "evaluation_interval": "1h",
        "group_eval_order": [group["name"] for group in groups(policies)],
        "tests": [
            *_high(policies),
            *rises(policies),
            *_missing(),
            *_unscored(),
            *_budget(),
            *_paused(),
            *_lag(),
            *drifted(),
        ],
    }
    return _HEADER + dump(document)


def _high(policies: Sequence[AlertPolicy]) -> Iterator[Test]:
    for policy in policies:
        for severity, threshold in policy.thresholds.items():
            yield from _threshold(policy, severity, threshold)


def _threshold(policy: AlertPolicy, severity: Severity, threshold: float) -> Iterator[Test]:
    """A case is a test of its own, since a policy may be for one app."""
    shortest = policy.by_length[0]
    window = _HOUR * math.ceil(shortest.window / 3600)
    minutes = 2 * window + _HOUR
    rate = doubled(threshold)
    steps = max(shortest.window / 60 / STEP, 1)
    judged = math.ceil(_ENOUGH * judged_to_tell(threshold, rate, shortest.z) / steps / len(REPLICAS))
    app = policy.app or "shop"
    pair = {"app": app, "evaluator": policy.evaluator, "severity": severity.value}
    fired = {**pair, "version": VERSION}
    later = minutes + _HOUR * math.ceil(policy.resolve_after / 3600)
    exported = gauge_series("ragmonitor_alert_threshold_ratio", pair, threshold, later)
    good = threshold / 2
    cases: tuple[tuple[str, list[Series], bool], ...] = (
        ("surely above", evaluation_counters(app, policy.evaluator, [(minutes, judged, rate)]), True),
        (
            "surely above, counters reset",
            evaluation_counters(app, policy.evaluator, [(minutes, judged, rate)], reset_at=window),
            True,
        ),
        (
            "surely above, one replica gone",
            evaluation_counters(app, policy.evaluator, [(minutes, 2 * judged, rate)], gone_at=window),
            True,
        ),
        ("below", evaluation_counters(app, policy.evaluator, [(minutes, judged, good)]), False),
        (
            "below, counters reset",
            evaluation_counters(app, policy.evaluator, [(minutes, judged, good)], reset_at=window),
            False,
        ),
        (
            "below, one replica gone",
            evaluation_counters(app, policy.evaluator, [(minutes, 2 * judged, good)], gone_at=window),
            False,
        ),
        (
            "measured above, but by one defect only",
            evaluation_counters(
                app,
                policy.evaluator,
                [(window, 0, 0), (STEP, 1 / rate / len(REPLICAS), rate), (minutes - window - STEP, 0, 0)],
            ),
            False,
        ),
        (
            "surely above in one version and below in another beside it",
            [
                *evaluation_counters(app, policy.evaluator, [(minutes, judged, rate)]),
                *evaluation_counters(app, policy.evaluator, [(minutes, judged, good)], version=OTHER),
            ],
            True,
        ),
        ("nothing judged", evaluation_counters(app, policy.evaluator, [(minutes, 0, 0)]), False),
        ("no data", [], False),
    )
    title = f"{NAME} {severity} of {policy.evaluator}" + (f" in {policy.app}" if policy.app else "")
    for name, series, fires in cases:
        checks = [expect_firing(NAME, minutes, *([fired] if fires else []))]
        if not fires:
            checks.insert(0, expect_firing(NAME, window + _HOUR))
        yield promtool_test(f"{title}: {name}: {'fires' if fires else 'silent'}", [*exported, *series], checks)
    replaced = [
        *evaluation_counters(app, policy.evaluator, [(window, judged, rate)]),
        *evaluation_counters(app, policy.evaluator, [(later - window, judged, good)], version=OTHER, since=window),
    ]
    yield promtool_test(
        f"{title}: surely above, then another version below: ends with its version",
        [*exported, *replaced],
        [expect_firing(NAME, window, fired), expect_firing(NAME, later)],
    )


def _missing() -> Iterator[Test]:
    of = {"app": "shop", "evaluator": "any"}
    labels = {**of, "severity": "warning"}

    def received(pieces: Sequence[tuple[int, float]], **how: Any) -> list[Series]:
        return [
            input_series(
                "ragmonitor_traces_received_total",
                {"app": "shop", "source": "otlp_grpc"},
                counter_values(pieces, **how),
            )
        ]

    busy = received([(8 * _HOUR, 100)])
    judged = [(4 * _HOUR, 10.0, 0.0), (4 * _HOUR, 0.0, 0.0)]
    always = [(8 * _HOUR, 10.0, 0.0)]
    end = 6 * _HOUR
    fires = [expect_firing(MISSING.name, 4 * _HOUR), expect_firing(MISSING.name, end, labels)]
    silent = [expect_firing(MISSING.name, end)]
    yield promtool_test(
        f"{MISSING.name}: requests, but no verdicts: fires", [*busy, *evaluation_counters(*_SHOP, judged)], fires
    )
    yield promtool_test(
        f"{MISSING.name}: no verdicts after a restart: fires",
        [*busy, *evaluation_counters(*_SHOP, judged, reset_at=4 * _HOUR + STEP)],
        fires,
    )
    yield promtool_test(f"{MISSING.name}: verdicts: silent", [*busy, *evaluation_counters(*_SHOP, always)], silent)
    yield promtool_test(
        f"{MISSING.name}: verdicts, one replica gone: silent",
        [*busy, *evaluation_counters(*_SHOP, always, gone_at=4 * _HOUR)],
        silent,
    )
    replaced = [
        *evaluation_counters(*_SHOP, [(4 * _HOUR, 10.0, 0.0)]),
        *evaluation_counters(*_SHOP, [(4 * _HOUR, 10.0, 0.0)], version=OTHER, since=4 * _HOUR),
    ]
    yield promtool_test(f"{MISSING.name}: verdicts of another version than before: silent", [*busy, *replaced], silent)
    yield promtool_test(
        f"{MISSING.name}: no requests either: silent",
        [*received([(4 * _HOUR, 100), (4 * _HOUR, 0)]), *evaluation_counters(*_SHOP, judged)],
        silent,
    )
    few = [(minutes, each / 50, rate) for minutes, each, rate in judged]
    yield promtool_test(
        f"{MISSING.name}: too few were ever due: silent", [*busy, *evaluation_counters(*_SHOP, few)], silent
    )
    yield promtool_test(f"{MISSING.name}: no data: silent", [], silent)


def _lost(reason: str, pieces: Sequence[tuple[int, float]], *, reset_at: int | None = None) -> list[Series]:
    labels = {"app": "shop", "evaluator": "any", "reason": reason}
    return [input_series("ragmonitor_unscored_total", labels, counter_values(pieces, reset_at=reset_at))]


def _unscored() -> Iterator[Test]:
    of = {"app": "shop", "evaluator": "any"}
    warning, critical = ({**of, "severity": severity} for severity in ("warning", "critical"))
    judged = evaluation_counters(*_SHOP, [(4 * _HOUR, 10.0, 0.0)])
    none_judged = evaluation_counters(*_SHOP, [(4 * _HOUR, 0.0, 0.0)])
    end = 4 * _HOUR

    def lost(each: float, reason: str = "timeout", **how: Any) -> list[Series]:
        return _lost(reason, [(2 * _HOUR, 0), (2 * _HOUR, each)], **how)

    cases: tuple[tuple[str, list[Series], tuple[Mapping[str, str], ...]], ...] = (
        ("a third without a verdict: a warning fires", [*judged, *lost(10)], (warning,)),
        ("a third, after a restart: a warning fires", [*judged, *lost(10, reset_at=3 * _HOUR)], (warning,)),
        ("most without a verdict: fires", [*judged, *lost(100)], (critical, warning)),
        ("all without a verdict: fires", [*none_judged, *lost(100)], (critical, warning)),
        ("one in fifty: silent", [*judged, *lost(0.4)], ()),
        ("a third, left out by the budget: silent", [*judged, *lost(10, "budget")], ()),
        ("too few: silent", [*evaluation_counters(*_SHOP, [(end, 0.1, 0.0)]), *lost(0.1)], ()),
        ("no data: silent", [], ()),
    )
    for name, series, firing in cases:
        checks = [expect_firing(UNSCORED.name, 2 * _HOUR), expect_firing(UNSCORED.name, end, *firing)]
        yield promtool_test(f"{UNSCORED.name}: {name}", series, checks)


def _budget() -> Iterator[Test]:
    end = 5 * _HOUR
    labels = {"evaluator": "any", "severity": "warning"}
    spent = [(2 * _HOUR, 0.0), (_HOUR, 3.0), (2 * _HOUR, 0.0)]
    fires = [
        expect_firing(BUDGET.name, 2 * _HOUR),
        expect_firing(BUDGET.name, 3 * _HOUR, labels),
        expect_firing(BUDGET.name, end),
    ]
    yield promtool_test(
        f"{BUDGET.name}: evaluations left out: fires, and ends when none is", _lost("budget", spent), fires
    )
    yield promtool_test(
        f"{BUDGET.name}: evaluations left out after a restart: fires",
        _lost("budget", spent, reset_at=2 * _HOUR + 2 * STEP),
        fires,
    )
    yield promtool_test(
        f"{BUDGET.name}: a restart alone: silent", _lost("budget", [(end, 0.0)], reset_at=_HOUR), [fires[0]]
    )
    yield promtool_test(
        f"{BUDGET.name}: another reason: silent", _lost("timeout", spent), [expect_firing(BUDGET.name, 3 * _HOUR)]
    )
    yield promtool_test(f"{BUDGET.name}: no data: silent", [], [expect_firing(BUDGET.name, end)])


def _paused() -> Iterator[Test]:
    labels = {"evaluator": "any", "severity": "warning"}
    end = 5 * _HOUR

    def state(replica: str, name: str, values: str) -> Series:
        series = {"evaluator": "any", "state": name, "instance": replica}
        return input_series("ragmonitor_evaluator_state", series, values)

    one, other = REPLICAS
    fires = [
        expect_firing(PAUSED.name, 2 * _HOUR),
        expect_firing(PAUSED.name, 3 * _HOUR, labels),
        expect_firing(PAUSED.name, end),
    ]
    yield promtool_test(
        f"{PAUSED.name}: paused in one of two replicas: fires, and ends with the pause",
        [state(one, "paused", "0x28 1x12 0x20"), state(other, "paused", "0x60")],
        fires,
    )
    yield promtool_test(
        f"{PAUSED.name}: another state: silent", [state(one, "error", "1x60")], [expect_firing(PAUSED.name, end)]
    )
    yield promtool_test(f"{PAUSED.name}: no data: silent", [], [expect_firing(PAUSED.name, end)])


def _lag() -> Iterator[Test]:
    name, labels = "ragmonitor_oldest_pending_timestamp_seconds", {"severity": "warning"}
    one, other = ({"instance": replica} for replica in REPLICAS)
    stuck, idle = "0x12 3600x24", "0x36"  # since the first hour
    fresh = f"0+{60 * STEP}x36"
    fires = [expect_firing(LAG.name, _HOUR), expect_firing(LAG.name, 2 * _HOUR, labels)]
    yield promtool_test(
        f"{LAG.name}: a trace waits in one of two replicas: fires",
        [input_series(name, one, stuck), input_series(name, other, fresh)],
        fires,
    )
    yield promtool_test(
        f"{LAG.name}: the replica that waits is gone: silent",
        [input_series(name, one, "0x12 3600x3 _x20"), input_series(name, other, fresh)],
        [expect_firing(LAG.name, 2 * _HOUR)],
    )
    yield promtool_test(
        f"{LAG.name}: nothing waits: silent", [input_series(name, one, idle)], [expect_firing(LAG.name, 2 * _HOUR)]
    )
    yield promtool_test(f"{LAG.name}: no data: silent", [], [expect_firing(LAG.name, 2 * _HOUR)])
