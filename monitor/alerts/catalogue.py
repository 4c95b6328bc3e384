"""Derives from all alerts: the inhibition rules, links to the answers, and tables for the docs.

An alert is held back only by one at least as severe that explains it, and only before it is first sent: a receiver that
was notified of an alert is also notified of its end. `DeliveryState` applies this here, `inhibit_rules` in
Alertmanager. `python -m deploy.generate` puts the tables between their markers, in docs/alerts.md and
docs/runbooks/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from monitor.alerts import rate_names, regression, severe
from monitor.alerts.policy import Severity
from monitor.alerts.self_alert import ResultSelector, self_alerts
from monitor.alerts.state import AlertState

RATES: Final = (*rate_names.NAMES, regression.NAME)
"""The names of the alerts on rates."""
ANNOTATION: Final = "answers_url"
DIAGNOSIS: Final = "diagnosis"
"""The annotation that says when a rate rose, and what its bad answers have in common."""
DIAGNOSIS_URL: Final = "diagnosis_url"

_PAIR = ("app", "evaluator")  # for all versions
_RULE = "defect_rule"  # empty for the evaluator's own
_FAR_BACK: Final = "24h"
_DIAGNOSED: Final = "6h"
_LEAST_DIAGNOSED: Final = 3600.0
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def names() -> tuple[str, ...]:
    """Return the names of all alerts, those on rates first."""
    return (*RATES, severe.NAME, *(alert.name for alert in self_alerts()))


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While an alert of `sources` fires, alerts of `targets` with the same labels `equal` are held back.

    A severity of None means any. `why` is the comment in the documented Alertmanager configuration.
    """

    why: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    source_severity: Severity | None = None
    target_severity: Severity | None = None
    equal: tuple[str, ...] = _PAIR

    def holds_back(self, firing: Sequence[AlertState]) -> Iterator[AlertState]:
        """Yield the firing alerts that this rule inhibits."""

        def labels(state: AlertState) -> tuple[str, ...]:
            return tuple(state.labels.get(label, "") for label in self.equal)

        explained = {labels(one) for one in firing if _is(one, self.sources, self.source_severity)}
        for one in firing:
            if _is(one, self.targets, self.target_severity) and labels(one) in explained:
                yield one


def inhibitions() -> tuple[Inhibition, ...]:
    """Return all rules: between alerts on rates, and those defined by the alerts on the monitor itself."""
    return (
        Inhibition(
            "the critical alert replaces the warning by the same defect rule",
            RATES,
            RATES,
            Severity.CRITICAL,
            Severity.WARNING,
            (*_PAIR, _RULE),
        ),
        Inhibition(
            "the page about severe cases replaces the list of them",
            (severe.NAME,),
            (severe.NAME,),
            Severity.CRITICAL,
            Severity.WARNING,
        ),
        *(
            Inhibition(one.why, (alert.name,), one.targets, one.at, one.target_severity, one.equal)
            for alert in self_alerts()
            for one in alert.inhibits
        ),
    )


def held_back(firing: Sequence[AlertState]) -> list[AlertState]:
    """Return the firing alerts that any rule inhibits."""
    return [one for rule in inhibitions() for one in rule.holds_back(firing)]


def inhibit_rules() -> list[dict[str, Any]]:
    """Return the same rules for the configuration of Alertmanager."""
    return [
        {
            "source_matchers": _matchers(rule.sources, rule.source_severity),
            "target_matchers": _matchers(rule.targets, rule.target_severity),
            "equal": list(rule.equal),
        }
        for rule in inhibitions()
    ]


def _is(state: AlertState, names: Collection[str], severity: Severity | None) -> bool:
    return state.name in names and severity in (None, state.severity)


def _matchers(names: Sequence[str], severity: Severity | None) -> list[str]:
    name = f'alertname =~ "{"|".join(names)}"' if len(names) > 1 else f"alertname = {names[0]}"
    return [name] if severity is None else [name, f"severity = {severity.value}"]


def _answers(name: str) -> ResultSelector | None:
    """Return the answers that the alert of this name is about, or None."""
    if name in RATES:
        return ResultSelector(_PAIR, "defect")
    return next((alert.answers for alert in self_alerts() if alert.name == name), None)


def linked(state: AlertState, page: str) -> AlertState:
    """Add the links to answers and to the diagnosis, if the alert fires and is about answers.

    The answers begin one window before it fired. `page` is the URL of the web UI; empty: no link.
    """
    answers = _answers(state.name) if page and state.firing else None
    if answers is None:
        return state
    given = {label: state.labels.get(label, "") for label in answers.labels}
    given |= {"since": _minute(state.since - (state.window or 0.0)), "outcome": answers.outcome}
    if rule := state.labels.get(_RULE, ""):
        given |= {"outcome": "score", _RULE: rule}
    links = {ANNOTATION: f"{page}/answers?{urlencode(given, errors='replace')}"}
    if state.name in RATES:
        about = {label: state.labels.get(label, "") for label in (*_PAIR, _RULE)}
        about["since"] = _minute(state.since - max(state.window or 0.0, _LEAST_DIAGNOSED))
        known = {name: value for name, value in about.items() if value}
        links[DIAGNOSIS_URL] = f"{page}/diagnosis?{urlencode(known, errors='replace')}"
    return replace(state, annotations={**state.annotations, **links})


def _minute(at: float) -> str:
    return datetime.fromtimestamp(max(at // 60 * 60, 0.0), UTC).isoformat().replace("+00:00", "Z")


def explained(state: AlertState, page: str, request_id: str) -> AlertState:
    """Return the state with a link to the explanation of one request, if it fires. `page` is as in `linked`."""
    if not page or not state.firing:
        return state
    url = f"{page}/why?{urlencode({'trace': request_id}, errors='replace')}"
    return replace(state, annotations={**state.annotations, ANNOTATION: url})


def in_rule(name: str, page: str, *, by_rule: bool = False) -> dict[str, str]:
    """Return the links in a Prometheus rule, templates over its labels: the answers of the last day, the diagnosis.

    `by_rule`: the alert has the label `defect_rule`. The periods are fixed because a template does not know when an
    alert began to fire. Empty without a page, or if the alert is not about answers.
    """
    answers = ResultSelector(_PAIR, "defect") if name == severe.NAME else _answers(name)
    if answers is None or not page:
        return {}
    labels = (*answers.labels, *([_RULE] if by_rule else []))
    given = "".join(f"{label}={{{{ $labels.{label} | urlquery }}}}&" for label in labels)
    links = {ANNOTATION: f"{page}/answers?{given}since={_FAR_BACK}&outcome={'score' if by_rule else answers.outcome}"}
    if name in RATES:
        links[DIAGNOSIS_URL] = f"{page}/diagnosis?{given}since={_DIAGNOSED}"
    return links


def table(runbooks: str) -> str:
    """Write all alerts as a Markdown table, with links to their runbooks in the folder `runbooks`."""
    both = tuple(Severity)
    rows: list[tuple[str, Sequence[Severity], str]] = [
        *((one.name, both, one.summary) for one in (rate_names.DEFECT_RATE, *rate_names.OWN.values())),
        (regression.NAME, both, regression.SUMMARY),
        (severe.NAME, both, severe.SUMMARY),
        *((alert.name, alert.severities, alert.summary) for alert in self_alerts()),
    ]
    lines = [
        f"| [{name}]({runbooks}{name}.md) | {', '.join(severities)} | {summary} |" for name, severities, summary in rows
    ]
    return "\n".join(["| alert | severity | meaning |", "| --- | --- | --- |", *lines]) + "\n"


def alertmanager_yaml() -> str:
    """Write the inhibition rules as YAML in a Markdown block, each below a comment with its reason."""
    lines = ["```yaml", "inhibit_rules:"]
    for why, rule in zip((one.why for one in inhibitions()), inhibit_rules(), strict=True):
        lines += [
            f"  # {why}",
            f"  - source_matchers: [{_listed(rule['source_matchers'])}]",
            f"    target_matchers: [{_listed(rule['target_matchers'])}]",
            f"    equal: [{', '.join(rule['equal'])}]",
        ]
    return "\n".join([*lines, "```"]) + "\n"


def _listed(matchers: Sequence[str]) -> str:
    return ", ".join(f"'{one}'" if '"' in one else one for one in matchers)


def fill(page: str, runbooks: str) -> str:
    """Bring the generated parts of a Markdown page up to date. Raises `KeyError` for a marker with an unknown name."""
    parts = {"alerts": table(runbooks), "inhibit_rules": alertmanager_yaml()}
    return _BLOCK.sub(lambda found: f"{found[1]}{parts[found[2]]}{found[3]}", page)
