"""Tests of the rules for `promtool test rules`: each alert fires when it must and is silent when it must.

Written from the same policies as the rules, with traffic made for their thresholds, so that whoever changes the rules
or runs another version of Prometheus can tell whether they still work. Rules are evaluated by the hour here, since the
baseline of a regression takes days of traffic; so all that is looked at happens at whole hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from monitor.alerts import high
from monitor.alerts.policy import AlertPolicy, Severity
from monitor.alerts.rules import groups
from monitor.alerts.rules_format import dump
from monitor.alerts.rules_series import (
    OTHER,
    REPLICAS,
    STEP,
    VERSION,
    Series,
    Test,
    a_series,
    constant,
    counts,
    look,
    test,
    verdicts,
)
from monitor.alerts.rules_tests_canary import drifted
from monitor.alerts.rules_tests_regression import rises
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
    exported = constant("ragmonitor_alert_threshold_ratio", pair, threshold, later)
    good = threshold / 2
    cases: tuple[tuple[str, list[Series], bool], ...] = (
        ("surely above", verdicts(app, policy.evaluator, [(minutes, judged, rate)]), True),
        (
            "surely above, counters reset",
            verdicts(app, policy.evaluator, [(minutes, judged, rate)], reset_at=window),
            True,
        ),
        (
            "surely above, one replica gone",
            verdicts(app, policy.evaluator, [(minutes, 2 * judged, rate)], gone_at=window),
            True,
        ),
        ("below", verdicts(app, policy.evaluator, [(minutes, judged, good)]), False),
        ("below, counters reset", verdicts(app, policy.evaluator, [(minutes, judged, good)], reset_at=window), False),
        (
            "below, one replica gone",
            verdicts(app, policy.evaluator, [(minutes, 2 * judged, good)], gone_at=window),
            False,
        ),
        (
            "measured above, but by one defect only",
            verdicts(
                app,
                policy.evaluator,
                [(window, 0, 0), (STEP, 1 / rate / len(REPLICAS), rate), (minutes - window - STEP, 0, 0)],
            ),
            False,
        ),
        (
            "surely above in one version and below in another beside it",
            [
                *verdicts(app, policy.evaluator, [(minutes, judged, rate)]),
                *verdicts(app, policy.evaluator, [(minutes, judged, good)], version=OTHER),
            ],
            True,
        ),
        ("nothing judged", verdicts(app, policy.evaluator, [(minutes, 0, 0)]), False),
        ("no data", [], False),
    )
    title = f"{high.NAME} {severity} of {policy.evaluator}" + (f" in {policy.app}" if policy.app else "")
    for name, series, fires in cases:
        checks = [look(high.NAME, minutes, *([fired] if fires else []))]
        if not fires:
            checks.insert(0, look(high.NAME, window + _HOUR))
        yield test(f"{title}: {name}: {'fires' if fires else 'silent'}", [*exported, *series], checks)
    replaced = [
        *verdicts(app, policy.evaluator, [(window, judged, rate)]),
        *verdicts(app, policy.evaluator, [(later - window, judged, good)], version=OTHER, since=window),
    ]
    yield test(
        f"{title}: surely above, then another version below: ends with its version",
        [*exported, *replaced],
        [look(high.NAME, window, fired), look(high.NAME, later)],
    )


def _missing() -> Iterator[Test]:
    of = {"app": "shop", "evaluator": "any"}
    labels = {**of, "severity": "warning"}

    def received(pieces: Sequence[tuple[int, float]], **how: Any) -> list[Series]:
        return [
            a_series("ragmonitor_traces_received_total", {"app": "shop", "source": "otlp_grpc"}, counts(pieces, **how))
        ]

    busy = received([(8 * _HOUR, 100)])
    judged = [(4 * _HOUR, 10.0, 0.0), (4 * _HOUR, 0.0, 0.0)]
    always = [(8 * _HOUR, 10.0, 0.0)]
    end = 6 * _HOUR
    fires = [look(MISSING.name, 4 * _HOUR), look(MISSING.name, end, labels)]
    silent = [look(MISSING.name, end)]
    yield test(f"{MISSING.name}: requests, but no verdicts: fires", [*busy, *verdicts(*_SHOP, judged)], fires)
    yield test(
        f"{MISSING.name}: no verdicts after a restart: fires",
        [*busy, *verdicts(*_SHOP, judged, reset_at=4 * _HOUR + STEP)],
        fires,
    )
    yield test(f"{MISSING.name}: verdicts: silent", [*busy, *verdicts(*_SHOP, always)], silent)
    yield test(
        f"{MISSING.name}: verdicts, one replica gone: silent",
        [*busy, *verdicts(*_SHOP, always, gone_at=4 * _HOUR)],
        silent,
    )
    replaced = [
        *verdicts(*_SHOP, [(4 * _HOUR, 10.0, 0.0)]),
        *verdicts(*_SHOP, [(4 * _HOUR, 10.0, 0.0)], version=OTHER, since=4 * _HOUR),
    ]
    yield test(f"{MISSING.name}: verdicts of another version than before: silent", [*busy, *replaced], silent)
    yield test(
        f"{MISSING.name}: no requests either: silent",
        [*received([(4 * _HOUR, 100), (4 * _HOUR, 0)]), *verdicts(*_SHOP, judged)],
        silent,
    )
    few = [(minutes, each / 50, rate) for minutes, each, rate in judged]
    yield test(f"{MISSING.name}: too few were ever due: silent", [*busy, *verdicts(*_SHOP, few)], silent)
    yield test(f"{MISSING.name}: no data: silent", [], silent)


def _lost(reason: str, pieces: Sequence[tuple[int, float]], *, reset_at: int | None = None) -> list[Series]:
    labels = {"app": "shop", "evaluator": "any", "reason": reason}
    return [a_series("ragmonitor_unscored_total", labels, counts(pieces, reset_at=reset_at))]


def _unscored() -> Iterator[Test]:
    of = {"app": "shop", "evaluator": "any"}
    warning, critical = ({**of, "severity": severity} for severity in ("warning", "critical"))
    judged = verdicts(*_SHOP, [(4 * _HOUR, 10.0, 0.0)])
    none_judged = verdicts(*_SHOP, [(4 * _HOUR, 0.0, 0.0)])
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
        ("too few: silent", [*verdicts(*_SHOP, [(end, 0.1, 0.0)]), *lost(0.1)], ()),
        ("no data: silent", [], ()),
    )
    for name, series, firing in cases:
        checks = [look(UNSCORED.name, 2 * _HOUR), look(UNSCORED.name, end, *firing)]
        yield test(f"{UNSCORED.name}: {name}", series, checks)


def _budget() -> Iterator[Test]:
    end = 5 * _HOUR
    labels = {"evaluator": "any", "severity": "warning"}
    spent = [(2 * _HOUR, 0.0), (_HOUR, 3.0), (2 * _HOUR, 0.0)]
    fires = [look(BUDGET.name, 2 * _HOUR), look(BUDGET.name, 3 * _HOUR, labels), look(BUDGET.name, end)]
    yield test(f"{BUDGET.name}: evaluations left out: fires, and ends when none is", _lost("budget", spent), fires)
    yield test(
        f"{BUDGET.name}: evaluations left out after a restart: fires",
        _lost("budget", spent, reset_at=2 * _HOUR + 2 * STEP),
        fires,
    )
    yield test(f"{BUDGET.name}: a restart alone: silent", _lost("budget", [(end, 0.0)], reset_at=_HOUR), [fires[0]])
    yield test(f"{BUDGET.name}: another reason: silent", _lost("timeout", spent), [look(BUDGET.name, 3 * _HOUR)])
    yield test(f"{BUDGET.name}: no data: silent", [], [look(BUDGET.name, end)])


def _paused() -> Iterator[Test]:
    labels = {"evaluator": "any", "severity": "warning"}
    end = 5 * _HOUR

    def state(replica: str, name: str, values: str) -> Series:
        series = {"evaluator": "any", "state": name, "instance": replica}
        return a_series("ragmonitor_evaluator_state", series, values)

    one, other = REPLICAS
    fires = [look(PAUSED.name, 2 * _HOUR), look(PAUSED.name, 3 * _HOUR, labels), look(PAUSED.name, end)]
    yield test(
        f"{PAUSED.name}: paused in one of two replicas: fires, and ends with the pause",
        [state(one, "paused", "0x28 1x12 0x20"), state(other, "paused", "0x60")],
        fires,
    )
    yield test(f"{PAUSED.name}: another state: silent", [state(one, "error", "1x60")], [look(PAUSED.name, end)])
    yield test(f"{PAUSED.name}: no data: silent", [], [look(PAUSED.name, end)])


def _lag() -> Iterator[Test]:
    name, labels = "ragmonitor_oldest_pending_timestamp_seconds", {"severity": "warning"}
    one, other = ({"instance": replica} for replica in REPLICAS)
    stuck, idle = "0x12 3600x24", "0x36"  # since the first hour
    fresh = f"0+{60 * STEP}x36"
    fires = [look(LAG.name, _HOUR), look(LAG.name, 2 * _HOUR, labels)]
    yield test(
        f"{LAG.name}: a trace waits in one of two replicas: fires",
        [a_series(name, one, stuck), a_series(name, other, fresh)],
        fires,
    )
    yield test(
        f"{LAG.name}: the replica that waits is gone: silent",
        [a_series(name, one, "0x12 3600x3 _x20"), a_series(name, other, fresh)],
        [look(LAG.name, 2 * _HOUR)],
    )
    yield test(f"{LAG.name}: nothing waits: silent", [a_series(name, one, idle)], [look(LAG.name, 2 * _HOUR)])
    yield test(f"{LAG.name}: no data: silent", [], [look(LAG.name, 2 * _HOUR)])
