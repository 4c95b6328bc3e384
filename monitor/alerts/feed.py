"""Hears what the pipeline learns, and decides what of it counts for the alerts in process."""

from __future__ import annotations

from collections.abc import Callable

from monitor.alerts.self_alert import SelfAlertChecks
from monitor.model.canary import CanaryRun
from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, RateScope, Score
from monitor.statistics.windows import Windows
from monitor.telemetry.metrics import UNKNOWN_APP


class AlertFeed:
    """Passes results, arrivals and canary runs on to the rate windows and to the alerts on the monitor itself.

    Only live results count, as in the series that the Prometheus rules read. What others say (user feedback, other
    tools) counts in the rates; but that it is missing or cannot be read says nothing about this monitor.

    Args:
        windows: the sums that defect-rate alerts look at.
        checks: the alerts on the monitor itself.
        app_label: makes a label value of the name of an app.
    """

    def __init__(self, windows: Windows, checks: SelfAlertChecks, app_label: Callable[[str], str]) -> None:
        self._windows = windows
        self._checks = checks
        self._app_label = app_label

    def on_result(self, result: EvaluationResult) -> None:
        """Count a result. A score counts at the time of its answer, where that is known."""
        if result.standing is not RateScope.LIVE:
            return
        app = self._app_label(result.case.app or UNKNOWN_APP)
        if result.via is ScoreSource.OWN:
            self._checks.on_result(result, app)
        if isinstance(result.outcome, Score):
            at = result.case.answered_at or result.judged_at
            self._windows.add(app, result.evaluator, at, result.weight, result.defect)

    def on_received(self, app: str, traces: int) -> None:
        """Count traces that arrived; `app` is a label value."""
        self._checks.on_received(app, traces)

    def on_history(self, app: str, evaluator: str, at: float, scored: int) -> None:
        """Count answers that were scored before this process began; `app` is a label value."""
        self._checks.on_history(app, evaluator, at, scored)

    def on_canary_run(self, run: CanaryRun) -> None:
        """Count a run of the canary set."""
        self._checks.on_canary_run(run)
