"""`RagJudgeDrifted` in process: whether the judge still says of the canary set what it said at first."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.alerts.state import Finding, Status
from monitor.model.canary import CanaryRun
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.rates import Sums, estimate
from monitor.statistics.reference import AT_LEAST, WINDOW, Z, surely_moved


class Canaries:
    """The runs of the last day, by evaluator and version."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], list[CanaryRun]] = {}

    def ran(self, run: CanaryRun) -> None:
        """One run was held against the reference."""
        self._runs.setdefault((run.evaluator, run.version), []).append(run)

    def find(self, now: float) -> Iterator[tuple[str, str, Finding]]:
        """For each evaluator and version, what is to be said at the wall-clock second `now`."""
        for (evaluator, version), runs in self._runs.items():
            runs[:] = [one for one in runs if one.at > now - WINDOW]
            yield evaluator, version, _judge(evaluator, runs)


def _judge(evaluator: str, runs: list[CanaryRun]) -> Finding:
    moved, judged = sum(one.moved for one in runs), sum(one.judged for one in runs)
    if len(runs) < AT_LEAST or not judged:
        return Finding(Status.NOT_ENOUGH_DATA, f"{evaluator}: too few runs of the canary set in the last day.")
    tolerance = max(one.tolerance for one in runs)
    lower = surely_moved(moved, judged)
    stricter, milder = sum(one.stricter for one in runs), sum(one.milder for one in runs)
    text = (
        f"{moved} of {judged} verdicts of {evaluator} on the canary set in the last {format_duration(WINDOW)} are not"
        f" those of the reference (at least {precise_percent(lower)}; {precise_percent(tolerance)} may differ):"
        f" {stricter} stricter, {milder} milder."
    )
    found = estimate(Sums(judged, moved, float(judged), float(moved), float(moved)), Z)
    return Finding(Status.FIRING if lower > tolerance else Status.OK, text, tolerance, WINDOW, found)
