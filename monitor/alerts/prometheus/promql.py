"""Builds the parts of all rules: records, alerts, annotations, and readable YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from monitor.alerts.policy import Severity
from monitor.quantities import format_duration

Rule = dict[str, Any]
PAIR = "app_evaluator:ragmonitor_"
"""Prefix of records by app and evaluator, over all versions: whether evaluations take place."""
OF_PAIR = "on (app, evaluator) group_left ()"
"""Joins each version with series by app and evaluator, which are for all versions."""
OWN_EVALUATORS = 'unless on (evaluator)\nmax_over_time(ragmonitor_evaluator_info{source!~"own|"}[3d])'
"""Leaves out external scores: if they are missing or unreadable, that says nothing about the monitor."""


DEFECT_RULE: Final = "defect_rule"
"""The label of series by an alert's own defect rule: the name of the rule."""


@dataclass(frozen=True, slots=True)
class RateSeries:
    """Names the series that rules about rates read and record, and how they are grouped and joined.

    Rates by the evaluators' defect rules and rates by the alerts' own rules (`by_rule`) use the same arithmetic over
    different series; the latter also have the label `DEFECT_RULE`.
    """

    by_rule: bool = False

    @property
    def recorded(self) -> str:
        """Prefix of records by version of the evaluator: every rate, since versions are never added up."""
        return f"{self._level('app_evaluator_version')}:ragmonitor_"

    @property
    def by_version(self) -> str:
        """Groups by version."""
        return f"by ({self._labels('version')})"

    @property
    def on_version(self) -> str:
        """Joins by version."""
        return f"on ({self._labels('version')})"

    @property
    def of_policy(self) -> str:
        """Joins each version with its alert policy, which covers all versions."""
        return f"on ({self._labels()}) group_left ()"

    @property
    def judging(self) -> str:
        """Keeps the versions that some process uses now: a window remembers an old version for its whole length."""
        return f"and {self.on_version}\n{self.counter('evaluations')}"

    @property
    def threshold(self) -> str:
        """The record of the thresholds that the monitor exports."""
        return f"{self._level('app_evaluator_severity')}:{self.exported('alert_threshold_ratio')}:max"

    @property
    def regression_z(self) -> str:
        """The record of the certainty that a regression needs, by window."""
        return f"{self._level('app_evaluator_severity_window')}:{self.exported('alert_regression_z')}:max"

    @property
    def defect_words(self) -> str:
        """A template that says what a defect is, or nothing if the monitor does not export it."""
        if self.by_rule:
            return f" A defect is: {{{{ $labels.{DEFECT_RULE} }}}}."
        return (
            '{{ with printf "ragmonitor_evaluator_info{evaluator=%q}" $labels.evaluator | query }}'
            ' A defect is: {{ . | first | label "defect" }}.{{ end }}'
        )

    def counter(self, name: str) -> str:
        """Name a counter that the monitor exports."""
        return f"{self.exported(name)}_total"

    def exported(self, name: str) -> str:
        """Name a series that the monitor exports."""
        return f"ragmonitor_{'rule_' if self.by_rule else ''}{name}"

    def largest(self, metric: str, *labels: str) -> str:
        """Write the largest value of a metric that all replicas export alike, by app, evaluator and `labels`."""
        return f"max by ({self._labels(*labels)}) ({metric})"

    def alert_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels of an alert, with one for its defect rule, which distinguishes the rules."""
        rule = {DEFECT_RULE: labels.get(DEFECT_RULE, f"{{{{ $labels.{DEFECT_RULE} }}}}")} if self.by_rule else {}
        return {**labels, **rule}

    def firing(self, name: str, severity: Severity) -> str:
        """Select the alerts of a name that fire."""
        rule = f'{DEFECT_RULE}{"!=" if self.by_rule else "="}""'
        return f'ALERTS{{alertname="{name}",alertstate="firing",severity="{severity}",{rule}}}'

    def _level(self, level: str) -> str:
        return f"{level}_rule" if self.by_rule else level

    def _labels(self, *more: str) -> str:
        return ", ".join(("app", "evaluator", *more, *([DEFECT_RULE] if self.by_rule else [])))


BY_EVALUATOR: Final = RateSeries()
"""The series by the evaluators' own defect rules, which dashboards, the gate and calibration read."""


def record(name: str, expression: str, **labels: str) -> Rule:
    """Make a recording rule."""
    return {"record": name, "expr": expression, **({"labels": labels} if labels else {})}


EVALUATIONS = record(
    f"{PAIR}evaluations:increase1h", "sum by (app, evaluator) (increase(ragmonitor_evaluations_total[1h]))"
)
"""The evaluations of the last hour that produced a score, for any version."""


def alert(
    name: str,
    *,
    expr: str,
    labels: Mapping[str, str],
    texts: Mapping[str, str],
    pending_for: float = 0,
    keep_firing_for: float = 0,
) -> Rule:
    """Make an alerting rule; times are seconds."""
    times = {"for": pending_for, "keep_firing_for": keep_firing_for}
    return {
        "alert": name,
        "expr": expr,
        **{key: format_duration(seconds) for key, seconds in times.items() if seconds},
        "labels": dict(labels),
        "annotations": dict(texts),
    }


def annotate(name: str, summary: str, description: str, runbooks: str) -> dict[str, str]:
    """Return the annotations of an alert; `summary` is the same for all rules of a name."""
    link = {"runbook_url": f"{runbooks.rstrip('/')}/{name}.md"} if runbooks else {}
    return {"summary": summary, "description": description, **link}


def lookup(metric: str, shown_by: str, severity: Severity | None = None) -> str:
    """Write a template that looks up another series by those labels of the alert that are in its name's level."""
    level = metric.split(":", 1)[0].split("_")
    parts = {"app": "app", "evaluator": "evaluator", "version": "version", "rule": DEFECT_RULE}
    labels = [label for part, label in parts.items() if part in level]
    more = f",severity={json.dumps(severity.value)}" if severity is not None else ""
    return lookup_expression(f"{metric}{{{','.join(f'{label}=%q' for label in labels)}{more}}}", labels, shown_by)


def lookup_expression(expression: str, labels: Sequence[str], shown_by: str) -> str:
    """Write a template that evaluates `expression`, in which each `%q` is the next of the alert's `labels`."""
    values = " ".join(f"$labels.{label}" for label in labels)
    return (
        f"{{{{ with printf {json.dumps(expression)} {values} | query }}}}"
        f"{{{{ . | first | value | {shown_by} }}}}{{{{ else }}}}?{{{{ end }}}}"
    )


def quoted(value: str) -> str:
    """Quote a string for PromQL."""
    return json.dumps(value, ensure_ascii=False)


def dump(document: object) -> str:
    """Write YAML, the same for the same document."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes lists indented under their key, and expressions of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - that is the point
        return super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - people read this: no aliases
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
