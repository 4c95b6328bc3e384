"""Builds what all rules are made of: records, alerts, annotations, and YAML that people can read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from monitor.alerts.policy import Severity
from monitor.quantities import format_duration

Rule = dict[str, Any]
PAIR = "app_evaluator:ragmonitor_"
"""Prefix of what is recorded by app and evaluator: whether evaluations take place, for any version."""
VERSION = "app_evaluator_version:ragmonitor_"
"""Prefix of what is recorded by version of the evaluator as well: every rate, since versions are never added up."""
BY_VERSION = "by (app, evaluator, version)"
ON_VERSION = "on (app, evaluator, version)"
OF_PAIR = "on (app, evaluator) group_left ()"
"""Joins each version with its configuration, which is by app and evaluator for all versions."""
JUDGING = f"and {ON_VERSION}\nragmonitor_evaluations_total"
"""Keeps the versions that some process uses now: a window remembers an old version for the window's whole length."""
OWN_EVALUATORS = 'unless on (evaluator)\nmax_over_time(ragmonitor_evaluator_info{source!~"own|"}[3d])'
"""Leaves out external scores: that they are missing or cannot be read says nothing about the monitor."""

DEFECT_WORDS = (
    '{{ with printf "ragmonitor_evaluator_info{evaluator=%q}" $labels.evaluator | query }}'
    ' A defect is: {{ . | first | label "defect" }}.{{ end }}'
)
"""A template for what is a defect by the evaluator's own rule, as the monitor exports it; nothing where it does not."""


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
    """Write a template that looks up another series with the alert's labels in the level of the metric's name."""
    level = metric.split(":", 1)[0].split("_")
    labels = [label for label in ("app", "evaluator", "version") if label in level]
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
    """YAML, the same for the same document."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes lists indented under their key, and expressions of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - that is the point
        return super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - people read this: every value where it belongs
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
