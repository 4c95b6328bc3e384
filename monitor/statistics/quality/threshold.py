"""Chooses the danger from which to call an answer defective, and measures it on other answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from monitor.statistics.quality.ranking import RankingStep


class Confusion(NamedTuple):
    """Defective and good answers called defective (`caught`, `alarmed`) and called good (`missed`, `passed`)."""

    caught: int = 0
    missed: int = 0
    alarmed: int = 0
    passed: int = 0

    @property
    def recall(self) -> float:
        """The share of defective answers called defective; 0 without any."""
        return _share(self.caught, self.caught + self.missed)

    @property
    def alarms(self) -> float:
        """The share of good answers called defective; 0 without any."""
        return _share(self.alarmed, self.alarmed + self.passed)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if nothing is caught."""
        return _share(2 * self.caught, 2 * self.caught + self.alarmed + self.missed)

    @property
    def balanced_accuracy(self) -> float:
        """The mean of the shares of defective and of good answers that are called correctly."""
        return (self.recall + 1 - self.alarms) / 2


def confusion(calls: Iterable[tuple[bool, bool]]) -> Confusion:
    """Count pairs of (called defective, is defective)."""
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for called, defective in calls:
        counts[called, defective] += 1
    return Confusion(counts[True, True], counts[False, True], counts[True, False], counts[False, False])


def best(steps: Sequence[RankingStep], quality: Callable[[Confusion], float]) -> float:
    """Return the lowest danger to call defective that maximises `quality`; of several, the one that flags the fewest.

    It is halfway between two dangers that occur, or minus infinity if all answers are called defective.
    """
    good, defective = sum(step.good for step in steps), sum(step.defective for step in steps)
    cuts = [(one.danger + other.danger) / 2 for one, other in pairwise(steps)]
    chosen, highest = -math.inf, -math.inf
    caught = alarmed = 0
    for step, cut in zip(steps, [*cuts, -math.inf], strict=True):
        caught += step.defective
        alarmed += step.good
        value = quality(Confusion(caught, defective - caught, alarmed, good - alarmed))
        if value > highest:
            chosen, highest = cut, value
    return chosen


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
