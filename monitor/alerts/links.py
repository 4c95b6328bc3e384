"""The link from an alert to the answers that it is about, on the built-in page: the annotation `answers_url`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from monitor.alerts.conditions import regression, threshold
from monitor.alerts.state import AlertState
from monitor.alerts.trouble import BUDGET, UNSCORED

ANNOTATION: Final = "answers_url"

_ABOUT: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    threshold.NAME: (("app", "evaluator"), "defect"),
    regression.NAME: (("app", "evaluator"), "defect"),
    UNSCORED.name: (("app", "evaluator"), "unscored"),
    BUDGET.name: (("evaluator",), "unscored"),
}
"""The alerts that are about answers: by which labels to look for them, and among which results."""

_FAR_BACK: Final = "24h"


def linked(state: AlertState, page: str) -> AlertState:
    """The state with its link, if it fires and is about answers: from one window before it began to fire on.

    `page` is the address of the page; empty: no link.
    """
    if not page or not state.firing or state.name not in _ABOUT:
        return state
    labels, outcome = _ABOUT[state.name]
    began = (state.since - (state.window or 0.0)) // 60 * 60
    since = datetime.fromtimestamp(max(began, 0.0), UTC).isoformat().replace("+00:00", "Z")
    given = {label: state.labels.get(label, "") for label in labels}
    url = f"{page}/answers?{urlencode({**given, 'since': since, 'outcome': outcome}, errors='replace')}"
    return replace(state, annotations={**state.annotations, ANNOTATION: url})


def in_rule(name: str, page: str) -> dict[str, str]:
    """The annotation for a rule of Prometheus, as a template over its labels: of the last day.

    A template does not know since when an alert fires. Empty where there is no page, or nothing to link to.
    """
    if not page or name not in _ABOUT:
        return {}
    labels, outcome = _ABOUT[name]
    given = "".join(f"{label}={{{{ $labels.{label} | urlquery }}}}&" for label in labels)
    return {ANNOTATION: f"{page}/answers?{given}since={_FAR_BACK}&outcome={outcome}"}
