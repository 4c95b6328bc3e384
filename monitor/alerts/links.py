"""Links an alert to the answers it is about, in the web UI: the annotation `answers_url`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from monitor.alerts.conditions import regression, threshold
from monitor.alerts.self_alert import ResultSelector, self_alerts
from monitor.alerts.state import AlertState

ANNOTATION: Final = "answers_url"

_DEFECTS: Final = ResultSelector(("app", "evaluator"), "defect")
_FAR_BACK: Final = "24h"


def _answers(name: str) -> ResultSelector | None:
    """Which answers the alert of this name is about; None where it is about none."""
    if name in (threshold.NAME, regression.NAME):
        return _DEFECTS
    return next((alert.answers for alert in self_alerts() if alert.name == name), None)


def linked(state: AlertState, page: str) -> AlertState:
    """The state with its link, if it fires and is about answers: since one window before it began to fire.

    `page` is the URL of the web UI; empty: no link.
    """
    answers = _answers(state.name) if page and state.firing else None
    if answers is None:
        return state
    began = (state.since - (state.window or 0.0)) // 60 * 60
    since = datetime.fromtimestamp(max(began, 0.0), UTC).isoformat().replace("+00:00", "Z")
    given = {label: state.labels.get(label, "") for label in answers.labels}
    url = f"{page}/answers?{urlencode({**given, 'since': since, 'outcome': answers.outcome}, errors='replace')}"
    return replace(state, annotations={**state.annotations, ANNOTATION: url})


def in_rule(name: str, page: str) -> dict[str, str]:
    """The annotation of a Prometheus rule, as a template over its labels: the answers of the last day.

    A template does not know since when an alert fires. Empty without a page, or if the alert is about no answers.
    """
    answers = _answers(name) if page else None
    if answers is None:
        return {}
    given = "".join(f"{label}={{{{ $labels.{label} | urlquery }}}}&" for label in answers.labels)
    return {ANNOTATION: f"{page}/answers?{given}since={_FAR_BACK}&outcome={answers.outcome}"}
