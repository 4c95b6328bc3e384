"""Writes what the docs derive from the alerts: the table of all alerts, and Alertmanager's inhibition rules.

`python -m deploy.generate` puts both between their markers, in docs/alerts.md and docs/runbooks/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from monitor.alerts.conditions import regression, threshold
from monitor.alerts.inhibition import inhibit_rules, inhibitions
from monitor.alerts.policy import Severity
from monitor.alerts.self_alert import self_alerts

_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def names() -> tuple[str, ...]:
    """The names of all alerts, those on rates first."""
    return (threshold.NAME, regression.NAME, *(alert.name for alert in self_alerts()))


def table(runbooks: str) -> str:
    """All alerts in a Markdown table, with links to their runbooks in the folder `runbooks`."""
    both = tuple(Severity)
    rows: list[tuple[str, Sequence[Severity], str]] = [
        (threshold.NAME, both, threshold.SUMMARY),
        (regression.NAME, both, regression.SUMMARY),
        *((alert.name, alert.severities, alert.summary) for alert in self_alerts()),
    ]
    lines = [
        f"| [{name}]({runbooks}{name}.md) | {', '.join(severities)} | {summary} |" for name, severities, summary in rows
    ]
    return "\n".join(["| alert | severity | meaning |", "| --- | --- | --- |", *lines]) + "\n"


def alertmanager_yaml() -> str:
    """The inhibition rules as YAML in a Markdown block, each below a comment that says why."""
    lines = ["```yaml", "inhibit_rules:"]
    for why, rule in zip((one.why for one in inhibitions()), inhibit_rules(), strict=True):
        lines += [
            f"  # {why}",
            f"  - source_matchers: [{_matchers(rule['source_matchers'])}]",
            f"    target_matchers: [{_matchers(rule['target_matchers'])}]",
            f"    equal: [{', '.join(rule['equal'])}]",
        ]
    return "\n".join([*lines, "```"]) + "\n"


def _matchers(matchers: Sequence[str]) -> str:
    return ", ".join(f"'{one}'" if '"' in one else one for one in matchers)


def fill(page: str, runbooks: str) -> str:
    """The Markdown page with its generated parts up to date. Raises `KeyError` for a marker with an unknown name."""
    parts = {"alerts": table(runbooks), "inhibit_rules": alertmanager_yaml()}
    return _BLOCK.sub(lambda found: f"{found[1]}{parts[found[2]]}{found[3]}", page)
