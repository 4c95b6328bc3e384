"""What all rules are written with: records, alerts, their texts, and YAML that people can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from monitor.alerts.policy import Severity
from monitor.quantities import format_duration

Rule = dict[str, Any]
PAIR = "app_evaluator:ragmonitor_"
"""How what is recorded of an app and evaluator begins: whether anybody evaluates, whatever the version."""
VERSION = "app_evaluator_version:ragmonitor_"
"""The same of each version of the evaluator: every rate, for verdicts of two versions are never added up."""
BY_VERSION = "by (app, evaluator, version)"
ON_VERSION = "on (app, evaluator, version)"
OF_PAIR = "on (app, evaluator) group_left ()"
"""Joins each version with what is configured, which is of an app and evaluator whatever the version."""
JUDGING = f"and {ON_VERSION}\nragmonitor_evaluations_total"
"""Holds of the versions that some process judges with now: a window remembers one for its whole length after that."""


def record(name: str, expression: str, **labels: str) -> Rule:
    """A recording rule."""
    return {"record": name, "expr": expression, **({"labels": labels} if labels else {})}


def alert(
    name: str,
    *,
    expr: str,
    labels: Mapping[str, str],
    texts: Mapping[str, str],
    pending_for: float = 0,
    keep_firing_for: float = 0,
) -> Rule:
    """An alert; times are seconds."""
    times = {"for": pending_for, "keep_firing_for": keep_firing_for}
    return {
        "alert": name,
        "expr": expr,
        **{key: format_duration(seconds) for key, seconds in times.items() if seconds},
        "labels": dict(labels),
        "annotations": dict(texts),
    }


def wording(name: str, summary: str, description: str, runbooks: str) -> dict[str, str]:
    """What an alert says; `summary` is the same for all of a name."""
    link = {"runbook_url": f"{runbooks.rstrip('/')}/{name}.md"} if runbooks else {}
    return {"summary": summary, "description": description, **link}


def asked(metric: str, shown_by: str, severity: Severity | None = None) -> str:
    """A template that looks another series of the same app, evaluator and version up: of those that its level names."""
    level = metric.split(":", 1)[0].split("_")
    same = [label for label in ("app", "evaluator", "version") if label in level]
    more = f",severity={json.dumps(severity.value)}" if severity is not None else ""
    selector = json.dumps(f"{metric}{{{','.join(f'{label}=%q' for label in same)}{more}}}")
    values = " ".join(f"$labels.{label}" for label in same)
    return (
        f"{{{{ with printf {selector} {values} | query }}}}"
        f"{{{{ . | first | value | {shown_by} }}}}{{{{ else }}}}?{{{{ end }}}}"
    )


def quoted(value: str) -> str:
    """A text as PromQL writes it."""
    return json.dumps(value, ensure_ascii=False)


def dump(document: object) -> str:
    """YAML, the same for the same document."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Lists indented under their key, expressions of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - that is the point
        return super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - whoever reads it wants to see what is there
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
