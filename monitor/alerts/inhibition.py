"""Which alerts hold others back, as data: applied here by `DeliveryState`, and by Alertmanager as `inhibit_rules`.

An alert is held back only by one at least as grave that explains it, and only from being told for the first time: its
end is told to whoever heard of its beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.alerts.conditions import regression, threshold
from monitor.alerts.policy import Severity
from monitor.alerts.state import AlertState
from monitor.alerts.trouble import BUDGET, MISSING, PAUSED, UNSCORED

_RATES = (threshold.NAME, regression.NAME)
_PAIR = ("app", "evaluator")  # of any version: what explains an alert is not about one


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While an alert of `sources` fires, those of `targets` with the same labels `equal` are held back.

    A severity of None is any.
    """

    why: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    source_severity: Severity | None = None
    target_severity: Severity | None = None
    equal: tuple[str, ...] = _PAIR

    def holds_back(self, firing: Sequence[AlertState]) -> Iterator[AlertState]:
        """Those of the alerts that fire which others of them hold back."""
        explained = {self._labels(one) for one in firing if _is(one, self.sources, self.source_severity)}
        for one in firing:
            if _is(one, self.targets, self.target_severity) and self._labels(one) in explained:
                yield one

    def _labels(self, state: AlertState) -> tuple[str, ...]:
        return tuple(state.labels.get(label, "") for label in self.equal)


INHIBITIONS = (
    Inhibition("what is critical need not be warned of", _RATES, _RATES, Severity.CRITICAL, Severity.WARNING),
    Inhibition("the same, of the judge", (UNSCORED.name,), (UNSCORED.name,), Severity.CRITICAL, Severity.WARNING),
    Inhibition("most verdicts are missing: no rate can be trusted", (UNSCORED.name,), _RATES, Severity.CRITICAL),
    Inhibition(
        "many verdicts are missing: the judge first", (UNSCORED.name,), (*_RATES, MISSING.name), None, Severity.WARNING
    ),
    Inhibition("a spent budget is why nothing is evaluated", (BUDGET.name,), (MISSING.name,), equal=("evaluator",)),
    Inhibition(
        "a paused judge is why there are no verdicts",
        (PAUSED.name,),
        (UNSCORED.name, MISSING.name),
        target_severity=Severity.WARNING,
        equal=("evaluator",),
    ),
)


def held_back(firing: Sequence[AlertState]) -> list[AlertState]:
    """Those of the alerts that fire which others of them hold back by any rule."""
    return [one for rule in INHIBITIONS for one in rule.holds_back(firing)]


def inhibit_rules() -> list[dict[str, Any]]:
    """The same for the configuration of Alertmanager."""
    return [
        {
            "source_matchers": _matchers(rule.sources, rule.source_severity),
            "target_matchers": _matchers(rule.targets, rule.target_severity),
            "equal": list(rule.equal),
        }
        for rule in INHIBITIONS
    ]


def _is(state: AlertState, names: Collection[str], severity: Severity | None) -> bool:
    return state.name in names and severity in (None, state.severity)


def _matchers(names: Collection[str], severity: Severity | None) -> list[str]:
    matchers = [f'alertname =~ "{"|".join(names)}"' if len(names) > 1 else f"alertname = {next(iter(names))}"]
    if severity is not None:
        matchers.append(f"severity = {severity.value}")
    return matchers
