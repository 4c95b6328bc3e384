"""Which alerts hold others back: applied here by `DeliveryState`, and by Alertmanager as `inhibit_rules`.

An alert is held back only by one at least as severe that explains it, and only before it is first sent: a receiver that
heard of an alert also hears when it is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.alerts.conditions import regression, threshold
from monitor.alerts.policy import Severity
from monitor.alerts.self_alert import self_alerts
from monitor.alerts.state import AlertState

_RATES = (threshold.NAME, regression.NAME)
_PAIR = ("app", "evaluator")  # for all versions


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While an alert of `sources` fires, alerts of `targets` with the same labels `equal` are held back.

    A severity of None is any. `why` is the comment in the documented Alertmanager configuration.
    """

    why: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    source_severity: Severity | None = None
    target_severity: Severity | None = None
    equal: tuple[str, ...] = _PAIR

    def holds_back(self, firing: Sequence[AlertState]) -> Iterator[AlertState]:
        """The firing alerts that others of them hold back by this rule."""
        explained = {self._labels(one) for one in firing if _is(one, self.sources, self.source_severity)}
        for one in firing:
            if _is(one, self.targets, self.target_severity) and self._labels(one) in explained:
                yield one

    def _labels(self, state: AlertState) -> tuple[str, ...]:
        return tuple(state.labels.get(label, "") for label in self.equal)


def inhibitions() -> tuple[Inhibition, ...]:
    """All rules: those between alerts on rates, and what the alerts on the monitor itself hold back."""
    by_self_alerts = (
        Inhibition(one.why, (alert.name,), one.targets, one.at, one.target_severity, one.equal)
        for alert in self_alerts()
        for one in alert.inhibits
    )
    return (
        Inhibition("the critical alert replaces its warning", _RATES, _RATES, Severity.CRITICAL, Severity.WARNING),
        *by_self_alerts,
    )


def held_back(firing: Sequence[AlertState]) -> list[AlertState]:
    """The firing alerts that others of them hold back by any rule."""
    return [one for rule in inhibitions() for one in rule.holds_back(firing)]


def inhibit_rules() -> list[dict[str, Any]]:
    """The same rules for the configuration of Alertmanager."""
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


def _matchers(names: Collection[str], severity: Severity | None) -> list[str]:
    matchers = [f'alertname =~ "{"|".join(names)}"' if len(names) > 1 else f"alertname = {next(iter(names))}"]
    if severity is not None:
        matchers.append(f"severity = {severity.value}")
    return matchers
