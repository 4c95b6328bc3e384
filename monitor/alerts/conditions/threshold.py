"""`RagDefectRateHigh`: decides whether a defect rate is above its threshold, over several windows.

A window fires if the lower limit of its rate is above the threshold. The alert fires if any window does, unless the
upper limit of the shortest window shows that the rate is below the threshold again: long windows remember incidents
that are over.

What does not fire is `ok` only if there is evidence: the upper limit of some window is below the threshold, or a window
has enough scores to detect a rate clearly above it (`doubled`, 9 times in 10) and did not. Otherwise the state is
`not_enough_data`, and its text says how many scores are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.alerts.policy import AlertPolicy, AlertWindow
from monitor.alerts.state import AlertStatus, ConditionResult
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.rates import Estimate, doubled, estimate, judged_to_tell
from monitor.statistics.windows import Windows

NAME = "RagDefectRateHigh"
SUMMARY = "The defect rate is above its threshold."
Z_OVER = 1.645
"""How certain the shortest window must be that the rate is below the threshold again: wrong once in 20."""


@dataclass(frozen=True, slots=True)
class WindowEstimate:
    """The rate over one window, with limits at the window's own z (`surely`) and at `Z_OVER` (`likely`)."""

    at: AlertWindow
    surely: Estimate | None
    likely: Estimate | None


def estimate_windows(
    policy: AlertPolicy, windows: Windows, app: str, evaluator: str, now: float
) -> list[WindowEstimate]:
    """Estimate the rate over each window of a policy, the shortest first."""
    sums = [(one, windows.sums(app, evaluator, one.window, now)) for one in policy.by_length]
    return [WindowEstimate(one, estimate(found, one.z), estimate(found, Z_OVER)) for one, found in sums]


def decide(estimates: Sequence[WindowEstimate], threshold: float, app: str, evaluator: str) -> ConditionResult:
    """Whether the alert fires; `estimates` has the shortest window first."""
    over = estimates[0].likely is not None and estimates[0].likely.upper < threshold
    fired = [one for one in estimates if one.surely is not None and one.surely.lower > threshold]
    if fired and not over:
        return _found(AlertStatus.FIRING, fired[0], threshold, app, evaluator)
    able = [one for one in estimates if _could_tell(one, threshold)]
    if able:
        return _found(AlertStatus.OK, able[0], threshold, app, evaluator)
    return _found(AlertStatus.NOT_ENOUGH_DATA, estimates[-1], threshold, app, evaluator)


def _could_tell(one: WindowEstimate, threshold: float) -> bool:
    if one.likely is None:
        return False
    return one.likely.upper < threshold or one.likely.judged >= judged_to_tell(threshold, doubled(threshold), one.at.z)


def _found(status: AlertStatus, one: WindowEstimate, threshold: float, app: str, evaluator: str) -> ConditionResult:
    span = format_duration(one.at.window)
    limit = precise_percent(threshold)
    found = one.surely
    if found is None:
        nothing = f"{evaluator} scored no answers from {app} in the last {span}."
        return ConditionResult(status, nothing, threshold, one.at.window)
    measured = (
        f"{precise_percent(found.rate)} of the answers from {app} in the last {span} are defective according to"
        f" {evaluator} (at least {precise_percent(found.lower)}, {found.judged} scored). The threshold is {limit}."
    )
    if status is AlertStatus.NOT_ENOUGH_DATA:
        clear = doubled(threshold)
        needed = judged_to_tell(threshold, clear, one.at.z)
        measured += (
            f" Not enough data: about {needed} scored answers are needed to detect a rate of {precise_percent(clear)}."
        )
    return ConditionResult(status, measured, threshold, one.at.window, found)
