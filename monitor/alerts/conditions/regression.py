"""`RagDefectRateRegression`: has a defect rate clearly risen against the week before? Test: `statistics/change.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monitor.alerts.policy import Family
from monitor.alerts.state import Finding, Status
from monitor.quantities import format_duration, precise_percent
from monitor.statistics.change import BASELINE_DAYS, CLEAN_DAYS_NEEDED, DAY, FAMILIES, MARGIN, Change, fired, held
from monitor.statistics.rates import interval_95
from monitor.statistics.windows import Windows

NAME = "RagDefectRateRegression"
SUMMARY = "The share of defective answers has risen clearly against the week before."
HOLD = 3 * 3600.0
"""Seconds in which no window fires or holds (`change.HELD`) that end it. What is longer is another alarm, also where
`benchmarks/rates.py` counts them."""


def decide(family: Family, windows: Windows, app: str, evaluator: str, now: float) -> Finding:
    """Whether the rate has risen; not enough data without three days to compare with, or with nothing to compare."""
    changes, days = windows.changes(app, evaluator, now)
    subject = f"the answers of {app} as {evaluator} sees them"
    if days < CLEAN_DAYS_NEEDED or not changes:
        known = f"{days} of the {CLEAN_DAYS_NEEDED} days without an incident that it takes are known"
        latest = f"; none was judged in the last {format_duration(3 * DAY)}" if not changes else ""
        return Finding(Status.NOT_ENOUGH_DATA, f"No baseline for {subject}: {known}{latest}.")
    found = fired(changes, FAMILIES[family])
    if found:
        return _found(Status.FIRING, changes[found[0]], found, subject)
    longest = max(changes)
    return replace(_found(Status.OK, changes[longest], (longest,), subject), holds=held(changes))


def _found(status: Status, one: Change, windows: Sequence[float], subject: str) -> Finding:
    spans = [format_duration(window) for window in windows]
    text = (
        f"{precise_percent(one.rate)} of {subject} are defective in the last {spans[0]} ({one.now.judged} judged),"
        f" {one.ratio:.3g} times the {precise_percent(one.base_rate)} of the {BASELINE_DAYS} days before."
    )
    if status is Status.FIRING:
        text += f" Clearly more than {MARGIN:g} times in the last {', '.join(spans)}."
    return Finding(status, text, min(MARGIN * one.base_rate, 1.0), windows[0], interval_95(one.now))
