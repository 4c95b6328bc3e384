"""Tests whether a defect rate has risen above the week before: the test behind `RagDefectRateRegression`, from sums.

It tests the ratio of two gamma variables as Paulson does (Annals of Mathematical Statistics 13, 1942, p. 233), with the
cube roots of Wilson and Hilferty: z = ((1 - b1) x - (1 - b2)) / sqrt(b1 x^2 + b2), where x is the cube root of the
ratio of both rates over `MARGIN`, and 9 b1, 9 b2 are their relative variances, both by session. The baseline's
variance includes, besides sampling, the variation between its own blocks of the window's length: daily cycles, weekends
and bursts are not regressions.

Thresholds, margin, floor and the definition of an incident were tuned by simulation over cycles, drift, bursts and
incidents, at base rates of 0.5 to 10 % and 10 to 1000 results per hour: at most 0.4 false alarms in 30 days in each
scenario, in the family `default`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from monitor.statistics.rates import Sums

HOUR, DAY = 3600.0, 86400.0

MARGIN = 1.25
"""The ratio to the baseline up to which a rate is not a regression at all."""
FLOOR = 0.05
"""The lowest relative standard deviation assumed between blocks, even if the baseline looks steadier."""
BASELINE_DAYS = 7
CLEAN_DAYS_NEEDED = 3
"""Day blocks that a baseline must have. A shorter one does not cover daily variation."""


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """A window and its baseline: the `BASELINE_DAYS` that ended `gap` seconds ago, in blocks of `block` seconds."""

    length: float
    block: float
    gap: float


WINDOWS = (
    ChangeWindow(HOUR, HOUR, DAY),
    ChangeWindow(6 * HOUR, 6 * HOUR, DAY),
    ChangeWindow(DAY, DAY, DAY),
    ChangeWindow(3 * DAY, DAY, 3 * DAY),
)
"""The shortest first. The gap keeps a rise out of its own baseline until every window can have seen it."""


def _family(hour: float, quarter: float, day: float, three_days: float) -> Mapping[float, float]:
    lengths = (window.length for window in WINDOWS)
    return MappingProxyType(dict(zip(lengths, (hour, quarter, day, three_days), strict=True)))


FAMILIES: Mapping[str, Mapping[float, float]] = MappingProxyType(
    {
        "default": _family(3.6, 3.1, 4.2, 2.6),
        "strict": _family(4.5, 3.7, 4.6, 3.0),
        "sensitive": _family(3.2, 2.6, 3.2, 2.3),
    }
)
"""The z above which a window fires. In the worst of 27 simulated scenarios there were, in 30 days, 0.37 false alarms
with `default`, 0.11 with `strict`, 1.31 with `sensitive`."""


HELD: Mapping[float, float] = _family(math.inf, 1.0, 1.0, 1.0)
"""The z above which a window keeps a firing alert active, in every family. A lasting rise is hard to see at night and
with few results; without this its alert would typically resolve and fire two or three times. The window of an hour
keeps nothing active."""


@dataclass(frozen=True, slots=True)
class IncidentLimit:
    """A window was an incident if both its z and its ratio to the baseline are above these."""

    length: float
    z: float
    ratio: float


HOURS_LOST = (IncidentLimit(HOUR, 3.6, 2.0), IncidentLimit(6 * HOUR, 3.1, 2.0))
"""When to exclude a block of 1 h or 6 h from later baselines: any of these. Otherwise one bad half day would blind the
rule."""
DAYS_LOST = (IncidentLimit(DAY, 3.1, 1.6),)
"""When to exclude a block of a day."""


@dataclass(frozen=True, slots=True)
class RateChange:
    """A window compared with its baseline: both rates (the baseline's with one session more), their ratio, and z.

    `z` is None if the window has no defect.
    """

    rate: float
    base_rate: float
    ratio: float
    z: float | None
    now: Sums


def spread(blocks: Sequence[Sums]) -> float:
    """Return the relative variance of the rate between blocks beyond sampling variance; at least `FLOOR` squared.

    By the method of moments: the squared deviations from the common rate minus their sampling variance, by session.
    """
    count = len(blocks)
    defects, weight, squares = (
        math.fsum(block.defect_weight for block in blocks),
        math.fsum(block.weight for block in blocks),
        math.fsum(block.defect_session_squares for block in blocks),
    )
    if count < 2 or defects <= 0 or weight <= 0:  # noqa: PLR2004 - one block has no spread
        return FLOOR**2
    rate = defects / weight
    deviations = math.fsum((block.defect_weight - rate * block.weight) ** 2 for block in blocks) * count / (count - 1)
    return max(FLOOR**2, (deviations - squares) / (rate**2 * math.fsum(block.weight**2 for block in blocks)))


def change(now: Sums, base: Sums, spread: float) -> RateChange | None:
    """Compare a window with its baseline, whose blocks vary by `spread`. None if either has no results."""
    if now.weight <= 0 or base.weight <= 0 or base.judged <= 0:
        return None
    pseudo, squares = base.weight / base.judged, base.defect_session_squares
    if base.defect_weight > 0:  # one more session with defects, as in the upper limit of a rate
        pseudo = max(pseudo, squares / base.defect_weight)
    defects = base.defect_weight + pseudo
    rate, base_rate = now.defect_weight / now.weight, defects / base.weight
    ratio = rate / base_rate
    if now.defect_weight <= 0:
        return RateChange(rate, base_rate, ratio, None, now)
    of_now = now.defect_session_squares / now.defect_weight**2
    of_base = (squares + pseudo**2) / defects**2 + spread * (1 + 1 / BASELINE_DAYS)
    return RateChange(rate, base_rate, ratio, gamma_ratio_z(ratio / MARGIN, of_now, of_base), now)


def gamma_ratio_z(ratio: float, first: float, second: float, of_limit: float = 0.0) -> float:
    """Return how far the ratio of two gamma variables is above 1, in standard deviations.

    `first` and `second` are their relative variances: 1 / count for a count. `of_limit` is the relative variance of the
    1 itself, if that is an estimate.
    """
    b1, b2 = first / 9, second / 9
    x = math.cbrt(ratio)
    return ((1 - b1) * x - (1 - b2)) / math.sqrt(b1 * x * x + b2 + of_limit / 9)


def fired(changes: Mapping[float, RateChange], family: Mapping[float, float]) -> tuple[float, ...]:
    """Return the lengths of the windows that fire, the shortest first.

    The three-day window counts only while its last day is above the margin too: otherwise it would keep reporting a
    rise that is over.
    """
    found = []
    for window in WINDOWS:
        one = changes.get(window.length)
        if one is None or one.z is None or one.z <= family[window.length]:
            continue
        day = changes.get(DAY)
        if window.length <= DAY or (day is not None and day.ratio > MARGIN):
            found.append(window.length)
    return tuple(found)


def held(changes: Mapping[float, RateChange]) -> bool:
    """Return whether a firing alert stays active although no window fires: some window is still high enough."""
    return bool(fired(changes, HELD))


def is_incident(changes: Mapping[float, RateChange], limits: Sequence[IncidentLimit]) -> bool:
    """Return whether the windows that end with a block, by length, show an incident by any of `limits`."""
    for limit in limits:
        one = changes.get(limit.length)
        if one is not None and one.z is not None and one.z > limit.z and one.ratio > limit.ratio:
            return True
    return False
