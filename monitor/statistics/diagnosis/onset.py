"""Since when the rate is higher: the most likely moment of one step up, with an interval.

It computes the likelihood of each case being the first of the higher rate, for Bernoulli answers counted in multiples
of the bad weight of a typical unit (Hinkley, Biometrika 57, 1970, p. 1, for one change point).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from monitor.statistics.diagnosis.cases import WeighedCase, tally

FALL: Final = 2.5
"""The fall of the log likelihood from its best at which the interval ends. By simulation it then holds the onset 9 in
10 times. Every case is a candidate: with the bad ones alone the same fall held it half as often."""


@dataclass(frozen=True, slots=True)
class Onset:
    """When a rate rose, in seconds since 1970: the best guess, and a 90 % interval from `earliest` to `latest`."""

    at: float
    earliest: float
    latest: float


@dataclass(frozen=True, slots=True)
class Step:
    """An onset among cases in chronological order: the interval's first case, and the first after the best guess."""

    onset: Onset
    lowest: int
    best: int


def find_step(rows: Sequence[WeighedCase], usual: float) -> Step | None:
    """Find when the rate rose above `usual` (above 0, below 1). None: no final part of the cases has a higher rate.

    The cases are in chronological order. Cases of one moment stay together.
    """
    unit_weight = tally(rows).unit_weight
    if unit_weight <= 0 or not 0 < usual < 1:
        return None
    gains: dict[int, float] = {}
    bad = weight = 0.0
    for index in range(len(rows) - 1, -1, -1):
        row = rows[index]
        weight += row.weight
        if row.bad:
            bad += row.weight
        if (index == 0 or rows[index - 1].time < row.time) and bad > usual * weight:
            gains[index] = _gain(bad, weight, usual) / unit_weight
    if not gains:
        return None
    best = min(gains, key=lambda index: (-gains[index], index))
    likely = [index for index, gain in gains.items() if gain >= gains[best] - FALL]
    lowest, highest = min(likely), max(likely)
    onset = Onset((_before(rows, best) + rows[best].time) / 2, _before(rows, lowest), rows[highest].time)
    return Step(onset, lowest, best)


def _gain(bad: float, weight: float, usual: float) -> float:
    """Return how much likelier (log) these answers are at their own rate than at the usual one."""
    rate = min(bad / weight, 1.0)
    good = weight - bad
    return bad * math.log(rate / usual) + (good * math.log((1 - rate) / (1 - usual)) if rate < 1 and good > 0 else 0.0)


def _before(rows: Sequence[WeighedCase], index: int) -> float:
    return rows[max(index - 1, 0)].time
