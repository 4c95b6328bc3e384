"""`RagDefectRateRegression`: decides whether a defect rate is clearly above that of the week before.

The arithmetic is that of `statistics/change.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monitor.alerts.policy import Family
from monitor.alerts.state import AlertStatus, ConditionResult
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.change import BASELINE_DAYS, CLEAN_DAYS_NEEDED, DAY, FAMILIES, MARGIN, RateChange, fired, held
from monitor.statistics.rates import interval_95
from monitor.statistics.windows import Windows

NAME = "RagDefectRateRegression"
SUMMARY = "The defect rate is clearly higher than in the week before."
HOLD = 3 * 3600.0
"""Seconds without a window that fires or holds (`change.HELD`) after which the alert ends. What fires after that is
another alarm, and `benchmarks/rates.py` counts it as one."""


def decide(family: Family, windows: Windows, app: str, evaluator: str, now: float) -> ConditionResult:
    """Whether the rate has risen. Not enough data: fewer than three days to compare with, or nothing to compare."""
    changes, days = windows.changes(app, evaluator, now)
    if days < CLEAN_DAYS_NEEDED or not changes:
        known = f"{days} of the {CLEAN_DAYS_NEEDED} days without an incident that are needed are known"
        latest = f", and nothing was scored in the last {format_duration(3 * DAY)}" if not changes else ""
        text = f"No baseline for answers from {app} according to {evaluator}: {known}{latest}."
        return ConditionResult(AlertStatus.NOT_ENOUGH_DATA, text)
    found = fired(changes, FAMILIES[family])
    if found:
        return _found(AlertStatus.FIRING, changes[found[0]], found, app, evaluator)
    longest = max(changes)
    return replace(_found(AlertStatus.OK, changes[longest], (longest,), app, evaluator), holds=held(changes))


def _found(status: AlertStatus, one: RateChange, windows: Sequence[float], app: str, evaluator: str) -> ConditionResult:
    spans = [format_duration(window) for window in windows]
    text = (
        f"{precise_percent(one.rate)} of the answers from {app} in the last {spans[0]} are defective according to"
        f" {evaluator} ({one.now.judged} scored): {one.ratio:.3g} times the {precise_percent(one.base_rate)} of the"
        f" {BASELINE_DAYS} days before."
    )
    if status is AlertStatus.FIRING:
        text += f" The rise is clear (more than {MARGIN:g} times) in the last {', '.join(spans)}."
    return ConditionResult(status, text, min(MARGIN * one.base_rate, 1.0), windows[0], interval_95(one.now))
