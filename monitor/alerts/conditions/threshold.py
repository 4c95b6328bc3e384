"""`RagDefectRateHigh`: whether a defect rate is above its threshold, over `Windows`.

A window fires where the lower limit of its rate is above the threshold. A rate fires when any window does, unless the
shortest shows by its upper limit that the rate is below the threshold by now: a long window remembers an incident that
is over.

What does not fire is `ok` only if somebody could know: some window shows by its upper limit that the rate is below the
threshold, or judged as many as it takes to notice a rate clearly above it (`doubled`, 9 times in 10) and did not.
Otherwise it is `not_enough_data`, with the figures that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.alerts.policy import AlertPolicy, AlertWindow
from monitor.alerts.state import Finding, Status
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.rates import Estimate, doubled, estimate, judged_to_tell
from monitor.statistics.windows import Windows

NAME = "RagDefectRateHigh"
SUMMARY = "The share of defective answers is above its threshold."
Z_OVER = 1.645
"""How sure the shortest window must be that the rate is below the threshold again: wrong once in 20."""


@dataclass(frozen=True, slots=True)
class WindowEstimate:
    """One window's estimate, once at its own z and once at `Z_OVER`."""

    at: AlertWindow
    surely: Estimate | None
    likely: Estimate | None


def estimate_windows(
    policy: AlertPolicy, windows: Windows, app: str, evaluator: str, now: float
) -> list[WindowEstimate]:
    """What the windows of a policy show, the shortest first."""
    sums = [(one, windows.sums(app, evaluator, one.window, now)) for one in policy.by_length]
    return [WindowEstimate(one, estimate(found, one.z), estimate(found, Z_OVER)) for one, found in sums]


def decide(looks: Sequence[WindowEstimate], threshold: float, app: str, evaluator: str) -> Finding:
    """Whether a rate fires; `looks` has the shortest window first."""
    over = looks[0].likely is not None and looks[0].likely.upper < threshold
    fired = [look for look in looks if look.surely is not None and look.surely.lower > threshold]
    if fired and not over:
        return _found(Status.FIRING, fired[0], threshold, app, evaluator)
    able = [look for look in looks if _could_tell(look, threshold)]
    if able:
        return _found(Status.OK, able[0], threshold, app, evaluator)
    return _found(Status.NOT_ENOUGH_DATA, looks[-1], threshold, app, evaluator)


def _could_tell(look: WindowEstimate, threshold: float) -> bool:
    if look.likely is None:
        return False
    return look.likely.upper < threshold or look.likely.judged >= judged_to_tell(
        threshold, doubled(threshold), look.at.z
    )


def _found(status: Status, look: WindowEstimate, threshold: float, app: str, evaluator: str) -> Finding:
    span = format_duration(look.at.window)
    limit = precise_percent(threshold)
    found = look.surely
    if found is None:
        nothing = f"No answer of {app} was judged by {evaluator} in the last {span}."
        return Finding(status, nothing, threshold, look.at.window)
    measured = (
        f"{precise_percent(found.rate)} of the answers of {app} in the last {span} are defective as"
        f" {evaluator} sees them (at least {precise_percent(found.lower)}, {found.judged} judged);"
        f" the threshold is {limit}."
    )
    if status is Status.NOT_ENOUGH_DATA:
        clear = doubled(threshold)
        needed = judged_to_tell(threshold, clear, look.at.z)
        measured += f" Too few to tell: a rate of {precise_percent(clear)} shows from about {needed} judged on."
    return Finding(status, measured, threshold, look.at.window, found)
