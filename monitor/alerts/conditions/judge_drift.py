"""Decides in process whether a judge has drifted: too many of its verdicts on the canary set differ from the baseline.

The baseline and its noise are those of `statistics/reference.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from monitor.alerts.policy import Severity
from monitor.alerts.self_alert import Condition, Observed
from monitor.alerts.state import AlertStatus, ConditionResult, Subject
from monitor.model.canary import CanaryRun
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.rates import Sums, estimate
from monitor.statistics.reference import AT_LEAST, WINDOW, Z, surely_moved

NAME: Final = "RagJudgeDrifted"


class JudgeDrift(Condition):
    """Remembers the canary runs of the last day, by evaluator and version."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(observed)
        self._runs: dict[tuple[str, str], list[CanaryRun]] = {}

    def on_canary_run(self, run: CanaryRun) -> None:
        """Remember a run."""
        self._runs.setdefault((run.evaluator, run.version), []).append(run)

    def find(self, now: float) -> Iterator[tuple[Subject, ConditionResult]]:
        """One finding for each evaluator and version."""
        for (evaluator, version), runs in self._runs.items():
            runs[:] = [one for one in runs if one.at > now - WINDOW]
            yield Subject(NAME, Severity.WARNING, evaluator=evaluator, version=version), _decide(evaluator, runs)


def _decide(evaluator: str, runs: list[CanaryRun]) -> ConditionResult:
    moved, judged = sum(one.moved for one in runs), sum(one.judged for one in runs)
    if len(runs) < AT_LEAST or not judged:
        return ConditionResult(AlertStatus.NOT_ENOUGH_DATA, f"{evaluator}: too few canary runs in the last day.")
    tolerance = max(one.tolerance for one in runs)
    lower = surely_moved(moved, judged)
    stricter, milder = sum(one.stricter for one in runs), sum(one.milder for one in runs)
    text = (
        f"{moved} of {judged} canary verdicts of {evaluator} in the last {format_duration(WINDOW)} differ from the"
        f" baseline (at least {precise_percent(lower)}; up to {precise_percent(tolerance)} is noise): {stricter}"
        f" stricter, {milder} more lenient."
    )
    found = estimate(Sums(judged, moved, float(judged), float(moved), float(moved)), Z)
    return ConditionResult(AlertStatus.FIRING if lower > tolerance else AlertStatus.OK, text, tolerance, WINDOW, found)
