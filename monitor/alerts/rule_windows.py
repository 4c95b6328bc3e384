"""Keeps rolling sums by the alerts' own defect rules, in addition to those by the evaluators' rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from monitor.alerts.policy import AlertPolicy, longest_window, needs_baselines, own_rules
from monitor.clock import Clock
from monitor.model.outcome import EvaluationResult
from monitor.statistics.rates import Sums
from monitor.statistics.windows import Windows


class RuleWindows:
    """The windows of each evaluator and defect rule. Without such rules it is empty and costs nothing."""

    def __init__(self, policies: Sequence[AlertPolicy], clock: Clock) -> None:
        self._windows = {
            (evaluator, rule.name): _windows(
                [one for one in policies if (one.evaluator, one.defect) == (evaluator, rule)], clock
            )
            for evaluator, rules in own_rules(policies).items()
            for rule in rules
        }

    def of(self, evaluator: str, rule: str) -> Windows | None:
        """Return the windows of an evaluator and a rule, by their names; None if no alert has that rule."""
        return self._windows.get((evaluator, rule))

    def __iter__(self) -> Iterator[tuple[str, str, Windows]]:
        """Yield each evaluator, the name of a rule, and their windows."""
        return ((*key, windows) for key, windows in self._windows.items())

    def add(self, result: EvaluationResult, app: str, at: float) -> None:
        """Count a live score at the wall-clock second `at`; `app` is a label value."""
        for rule, defect in result.alert_defects.items():
            windows = self._windows.get((result.evaluator, rule))
            if windows is not None:
                one = Sums.of(result.weight, defect=defect, products=result.session_products.get(rule))
                windows.add_sums(app, result.evaluator, at, one)


def _windows(policies: Sequence[AlertPolicy], clock: Clock) -> Windows:
    return Windows(clock, longest=longest_window(policies), baselines=needs_baselines(policies))
