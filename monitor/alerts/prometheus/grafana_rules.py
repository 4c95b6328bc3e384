"""Writes the alerts for Grafana's own alerting, from the same rules that Prometheus gets.

The format is that of files in Grafana's `provisioning/alerting`, version 1. Alerts and records keep their expressions.
A query is treated as in rules that Grafana imports from Prometheus: every series that it returns fires, even at 0.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from monitor.alerts.policy import AlertPolicy
from monitor.alerts.prometheus.promql import Rule, dump
from monitor.alerts.prometheus.rules import HEADER, groups

FOLDER: Final = "RAG quality"
"""The folder of the rules, shared with the dashboards."""

DATASOURCE: Final = "ragmonitor-prometheus"
"""The uid of the Prometheus data source, as in `grafana/provisioning`."""

_EXPRESSIONS: Final = "__expr__"  # the uid of Grafana's own expressions
_LOOK_BACK: Final = {"from": 600, "to": 0}  # an instant query uses its end only
_END: Final = "{{ end }}"
_SENTENCES: Final = re.compile(r"(?<=\.) +")


def render_grafana(
    policies: Sequence[AlertPolicy],
    *,
    runbooks: str = "",
    interval: float = 60.0,
    page: str = "",
    datasource: str = DATASOURCE,
) -> str:
    """Write a provisioning file for Grafana 12 or newer, the same for the same policies.

    `datasource` is the uid of the Prometheus that is queried and that stores recorded series; the other arguments are
    as for `rules.render`.
    """
    titles: Counter[str] = Counter()
    found = [
        {
            "orgId": 1,
            "name": group["name"],
            "folder": FOLDER,
            "interval": group["interval"],
            "rules": [_rule(rule, _title(rule, titles), datasource) for rule in group["rules"]],
        }
        for group in groups(policies, runbooks, interval, page)
    ]
    return HEADER + dump({"apiVersion": 1, "groups": found})


def _rule(rule: Rule, title: str, datasource: str) -> Rule:
    uid = f"ragmonitor-{hashlib.sha256(title.encode()).hexdigest()[:20]}"
    labels = {name: value.replace("$", "$$") for name, value in rule.get("labels", {}).items()}  # `$` is a variable
    query = {
        "refId": "A",
        "datasourceUid": datasource,
        "relativeTimeRange": _LOOK_BACK,
        "model": {
            "refId": "A",
            "datasource": {"type": "prometheus", "uid": datasource},
            "expr": rule["expr"],
            "instant": True,
            "range": False,
        },
    }
    made: Rule = {"uid": uid, "title": title}
    if "record" in rule:
        made["record"] = {"metric": rule["record"], "from": "A", "targetDatasourceUid": datasource}
        made["data"] = [query]
    else:
        made["condition"] = "C"
        returned = {"type": "math", "expression": "is_number($A) || is_nan($A) || is_inf($A)"}
        above_0 = {"evaluator": {"type": "gt", "params": [0]}}
        fires = {"type": "threshold", "expression": "B", "conditions": [above_0]}
        made["data"] = [query, _expression("B", returned), _expression("C", fires)]
        made |= {"noDataState": "OK", "execErrState": "Error", "missing_series_evals_to_resolve": 1}
        made["for"] = rule.get("for", "0s")
        if "keep_firing_for" in rule:
            made["keepFiringFor"] = rule["keep_firing_for"]
        made["annotations"] = _texts(rule["annotations"])
    if labels:
        made["labels"] = labels
    return made


def _expression(name: str, model: Mapping[str, Any]) -> Rule:
    """Return a step that Grafana computes itself."""
    datasource = {"type": _EXPRESSIONS, "uid": _EXPRESSIONS}
    return {
        "refId": name,
        "datasourceUid": _EXPRESSIONS,
        "model": {"refId": name, "datasource": datasource, **model},
    }


def _title(rule: Rule, titles: Counter[str]) -> str:
    """Name a rule: Grafana requires unique titles in a folder. The title of an alert is its label `alertname`."""
    told_apart = [str(value) for value in rule.get("labels", {}).values() if "{{" not in value]
    title = " ".join([rule.get("record") or rule["alert"], *told_apart])
    titles[title] += 1
    return title if titles[title] == 1 else f"{title} {titles[title]}"


def _texts(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations without sentences that look up other series, since Grafana's templates cannot do that."""
    found = {}
    for name, text in annotations.items():
        sentences = _SENTENCES.split(_lookups_marked(text))
        known = " ".join(one for one in sentences if "\0" not in one)
        found[name] = known.replace("$value ", "$values.A.Value ")
    if not found["description"]:
        found["description"] = found["summary"]
    return found


def _lookups_marked(text: str) -> str:
    """Return a template with NUL in place of each block that queries Prometheus."""
    *blocks, last = text.split(_END)
    found = []
    for block in blocks:
        before, _, opened = block.partition("{{ with ")
        queries = opened.partition("}}")[0].endswith("| query ")
        found.append(f"{before}\0" if queries else f"{block}{_END}")
    return "".join((*found, last))
