"""Whether a defect rate has risen against the week before: the test behind `RagDefectRateRegression`, on sums alone.

The ratio of two gamma variables, as Paulson (Annals of Mathematical Statistics 13, 1942, p. 233) tests it with the cube
roots of Wilson and Hilferty: z = ((1 - b1) x - (1 - b2)) / sqrt(b1 x^2 + b2), where x is the cube root of the ratio of
both rates over `MARGIN`, and 9 b1, 9 b2 are their relative variances. The baseline's holds, besides what sampling does,
what its own blocks of the window's length show: daily cycles, weekends and bursts are no regression.

Thresholds, margin, floor and the definition of an incident were tuned by simulation over cycles, drift, bursts and
incidents, at base rates of 0.5 to 10 % and 10 to 1000 judged an hour: at most 0.4 false alarms in 30 days in each of
them, in the family `default`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from monitor.statistics.rates import Sums

HOUR, DAY = 3600.0, 86400.0

MARGIN = 1.25
"""How many times the baseline a rate may be before it is a regression at all."""
FLOOR = 0.05
"""The least relative standard deviation assumed between blocks, however steady the baseline looks."""
BASELINE_DAYS = 7
CLEAN_DAYS_NEEDED = 3
"""Day blocks that a baseline must have: a shorter one has not seen what days do."""


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """What one window is compared with: the `BASELINE_DAYS` that ended `gap` seconds ago, in blocks of `block`."""

    length: float
    block: float
    gap: float


WINDOWS = (
    ChangeWindow(HOUR, HOUR, DAY),
    ChangeWindow(6 * HOUR, 6 * HOUR, DAY),
    ChangeWindow(DAY, DAY, DAY),
    ChangeWindow(3 * DAY, DAY, 3 * DAY),
)
"""The shortest first. The gap keeps a rise out of its own baseline until every window has had time to see it."""


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
"""The z above which a window fires. The worst of 27 simulated scenarios had, in 30 days, 0.37 false alarms with
`default`, 0.11 with `strict`, 1.31 with `sensitive`."""


HELD: Mapping[float, float] = _family(math.inf, 1.0, 1.0, 1.0)
"""The z above which a window holds an alert that fires already, in every family. A rise that stays hides by night and
with few judged; without this its alert comes and goes, two or three times as a rule. An hour holds nothing."""


@dataclass(frozen=True, slots=True)
class IncidentLimit:
    """A window whose z and whose ratio to the baseline are both above these was an incident."""

    length: float
    z: float
    ratio: float


HOURS_LOST = (IncidentLimit(HOUR, 3.6, 2.0), IncidentLimit(6 * HOUR, 3.1, 2.0))
"""When a block of 1 h or 6 h stays out of later baselines: any of these. One bad half day would else blind the rule."""
DAYS_LOST = (IncidentLimit(DAY, 3.1, 1.6),)
"""When a block of a day does."""


@dataclass(frozen=True, slots=True)
class RateChange:
    """A window beside its baseline: both rates (the baseline's with one pseudo defect), their ratio, and how sure.

    `z` is None where the window has no defect: there is nothing to be sure of.
    """

    rate: float
    base_rate: float
    ratio: float
    z: float | None
    now: Sums


def spread(blocks: Sequence[Sums]) -> float:
    """The relative variance of the rate between blocks beyond what sampling causes, `FLOOR` squared at least.

    The method of moments: what the squared deviations from the common rate are above their sampling variance.
    """
    count = len(blocks)
    defects, weight, squares = (
        math.fsum(block.defect_weight for block in blocks),
        math.fsum(block.weight for block in blocks),
        math.fsum(block.defect_weight_squares for block in blocks),
    )
    if count < 2 or defects <= 0 or weight <= 0:  # noqa: PLR2004 - one block has no spread
        return FLOOR**2
    rate = defects / weight
    deviations = math.fsum((block.defect_weight - rate * block.weight) ** 2 for block in blocks) * count / (count - 1)
    return max(FLOOR**2, (deviations - squares) / (rate**2 * math.fsum(block.weight**2 for block in blocks)))


def change(now: Sums, base: Sums, spread: float) -> RateChange | None:
    """A window beside its baseline, whose blocks vary by `spread`. None where either was not judged at all."""
    if now.weight <= 0 or base.weight <= 0 or base.judged <= 0:
        return None
    pseudo = base.weight / base.judged  # one defect more, as in the upper limit of a rate
    if base.defect_weight > 0:
        pseudo = max(pseudo, base.defect_weight_squares / base.defect_weight)
    defects = base.defect_weight + pseudo
    rate, base_rate = now.defect_weight / now.weight, defects / base.weight
    ratio = rate / base_rate
    if now.defect_weight <= 0:
        return RateChange(rate, base_rate, ratio, None, now)
    b1 = now.defect_weight_squares / now.defect_weight**2 / 9
    b2 = ((base.defect_weight_squares + pseudo**2) / defects**2 + spread * (1 + 1 / BASELINE_DAYS)) / 9
    x = (ratio / MARGIN) ** (1 / 3)
    return RateChange(rate, base_rate, ratio, ((1 - b1) * x - (1 - b2)) / math.sqrt(b1 * x * x + b2), now)


def fired(changes: Mapping[float, RateChange], family: Mapping[float, float]) -> tuple[float, ...]:
    """The windows (by length) that fire, the shortest first.

    Three days count only while the last of them is above the margin as well: else they remember for long what is over.
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
    """Whether an alert that fires goes on, even if nothing fires any more: some window is still rather above."""
    return bool(fired(changes, HELD))


def is_incident(changes: Mapping[float, RateChange], limits: Sequence[IncidentLimit]) -> bool:
    """Whether the windows that end with a block, by length, show an incident by any of `limits`."""
    for limit in limits:
        one = changes.get(limit.length)
        if one is not None and one.z is not None and one.z > limit.z and one.ratio > limit.ratio:
            return True
    return False
