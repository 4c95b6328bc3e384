"""Measures whether boosting pays: how many evenly drawn evaluations one boosted evaluation has been worth."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import astuple
from typing import Final

from monitor.statistics.rates import Sums

DAYS: Final = 7
_DAY = 86400.0
_ENOUGH_DEFECTS = 50.0
_WORST = 0.9


_NUMBERS = len(astuple(Sums()))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def gain(sums: Sums) -> float | None:
    """Return the evaluations that an even draw would need for the same variance of the rate, per evaluation made.

    From the design-based variance of a ratio of two weighted sums (Särndal, Swensson and Wretman, "Model Assisted
    Survey Sampling", 5.6). None if there are no defects, or only defects. With fewer than about twenty defects it is
    meaningless and mostly too high.
    """
    if not 0 < sums.defects < sums.judged:
        return None
    rate = sums.defect_weight / sums.weight
    squares = sums.defect_weight_squares * (1 - rate) ** 2 + sums.good_weight_squares * rate**2
    return rate * (1 - rate) / sums.judged * sums.weight**2 / squares


class Watch:
    """The verdicts of the last seven days, by day. Weights are relative to an even draw at the same time."""

    def __init__(self) -> None:
        self._days: deque[tuple[int, Sums]] = deque(maxlen=DAYS)

    def add(self, weight: float, now: float, *, defect: bool) -> None:
        """Add a case that was scored at `now`, in seconds of a monotonic clock."""
        day = int(now // _DAY)
        one = Sums.of(weight, defect=defect)
        if self._days and self._days[-1][0] == day:
            one += self._days.pop()[1]
        self._days.append((day, one))

    def state(self, now: float) -> list[list[float]]:
        """Return the state for `restore`: for each day, its age in days and its sums."""
        return [[float(now // _DAY - day), *astuple(sums)] for day, sums in self._days]

    def restore(self, state: object, now: float, away: float) -> None:
        """Continue from the `state` of a process that ended `away` seconds ago. Leave out invalid parts."""
        for one in state if isinstance(state, list) else ():
            match one:
                case [int() | float() as age, *numbers] if len(numbers) == _NUMBERS and all(map(_is_number, numbers)):
                    self._days.append((int(now // _DAY - age - away // _DAY), Sums(*numbers)))

    def loses(self, now: float) -> float | None:
        """Return the gain if boosting clearly does harm: below 0.9, with fifty effective defects. Else None."""
        recent = [sums for day, sums in self._days if day > now // _DAY - DAYS]
        sums = sum(recent, Sums())
        found = gain(sums)
        if found is None or found >= _WORST:
            return None
        return found if sums.defect_weight**2 >= _ENOUGH_DEFECTS * sums.defect_weight_squares else None
