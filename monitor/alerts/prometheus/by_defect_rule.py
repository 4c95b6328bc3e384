"""Turns rules about rates by the evaluators' own defect rules into the same rules by those that alerts bring.

The arithmetic is the same, over other series: the counters that the monitor keeps by `defect_rule`, and thresholds by
it. So the rules are not written a second time: names, groupings and joins are exchanged in their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from monitor.alerts.prometheus.promql import DEFECT_WORDS, Rule, quoted
from monitor.alerts.prometheus.promtool import Test

_LABEL: Final = "defect_rule"
_VALUE: Final = f"$labels.{_LABEL}"

_EXCHANGED: Final = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"\bapp_evaluator_version:ragmonitor_", "app_evaluator_version_rule:ragmonitor_"),
        (
            r"\bapp_evaluator_severity(_window)?:ragmonitor_alert_",
            r"app_evaluator_severity\1_rule:ragmonitor_rule_alert_",
        ),
        (r"(?<!:)\bragmonitor_(alert_threshold_ratio|alert_regression_z)\b", r"ragmonitor_rule_\1"),
        (
            r"(?<!:)\bragmonitor_(evaluations|evaluation_weight|evaluation_weight_squares|evaluation_session_products)_total\b",
            r"ragmonitor_rule_\1_total",
        ),
        (r"\b(by|on) \((app, evaluator, (?:version|severity(?:, window)?))\)", rf"\1 (\2, {_LABEL})"),
        (
            r"\bon \(app, evaluator\) group_left \(\)(?=\s*app_evaluator_severity)",
            f"on (app, evaluator, {_LABEL}) group_left ()",
        ),
        (rf'\b{_LABEL}=""', f'{_LABEL}!=""'),
    )
)
"""What is exchanged in an expression, in this order. Joins with what is by app and evaluator for all rules stay."""

_LOOKED_UP: Final = re.compile(
    r"(app_evaluator_(?:version|severity)_rule:\w+(?::\w+)?\{app=%q,evaluator=%q(?:,version=%q)?)([^}]*\}\" )"
    r"(\$labels\.app \$labels\.evaluator(?: \$labels\.version)?)"
)


def by_defect_rule(rules: Iterable[Rule]) -> list[Rule]:
    """Return the same rules over the series by `defect_rule`."""
    return [_one(rule) for rule in rules]


def _one(rule: Rule) -> Rule:
    found = {**rule, "expr": _exchanged(rule["expr"])}
    if "record" in rule:
        return {**found, "record": _exchanged(rule["record"])}
    texts = {name: _text(text) if name == "description" else text for name, text in rule["annotations"].items()}
    labels = {**rule["labels"], _LABEL: rule["labels"].get(_LABEL, f"{{{{ {_VALUE} }}}}")}  # tells the rules apart
    return {**found, "labels": labels, "annotations": texts}


def _exchanged(text: str) -> str:
    for pattern, by in _EXCHANGED:
        text = pattern.sub(by, text)
    return text


def _text(text: str) -> str:
    """The description: its queries by the rule, which it names."""
    named = text.replace(DEFECT_WORDS, f" A defect is: {{{{ {_VALUE} }}}}.")
    return _LOOKED_UP.sub(rf"\1,{_LABEL}=%q\2\3 {_VALUE}", _exchanged(named))


def tested_by_defect_rule(test: Test, rule: str) -> Test:
    """Return a test of the same alert over the series by the defect rule of this name."""
    label = f"{_LABEL}={quoted(rule)}, "
    series = [{**one, "series": _labelled(_exchanged(one["series"]), label)} for one in test["input_series"]]
    checks = [
        {**check, "exp_samples": [{**one, "labels": _labelled(one["labels"], label)} for one in check["exp_samples"]]}
        for check in test["promql_expr_test"]
    ]
    name = f"{test['name']}, by the defect rule {rule!r}"
    return {**test, "name": name, "input_series": series, "promql_expr_test": checks}


def _labelled(series: str, label: str) -> str:
    """Add the label to a series by rule, and to an alert; others stay."""
    return series.replace("{", "{" + label, 1) if re.match(r"ragmonitor_rule_|ALERTS", series) else series
