"""Measures how well dangers rank defective answers before good ones: ROC curve, average precision, best threshold.

AUROC is the probability that a defective answer has a greater danger than a good one, counting ties half: the statistic
of Mann and Whitney (Annals of Mathematical Statistics 18, 1947, p. 50). Average precision is the mean precision over
the defective answers, each at the danger that just includes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple


class Point(NamedTuple):
    """A scored answer: its danger, whether it is defective, and its cluster."""

    danger: float
    defective: bool
    cluster: int = 0


class RankingStep(NamedTuple):
    """The numbers of good and of defective answers with one danger."""

    danger: float
    good: int
    defective: int


class _Tie(NamedTuple):
    danger: float
    good: list[int]
    defective: list[int]


class Ranked:
    """Answers sorted by danger, the greatest first; sorted once for many weightings."""

    def __init__(self, points: Iterable[Point]) -> None:
        ordered = sorted(points, key=lambda point: -point.danger)
        self._ties = [
            _Tie(
                danger,
                [one.cluster for one in tied if not one.defective],
                [one.cluster for one in tied if one.defective],
            )
            for danger, tied in ((danger, list(group)) for danger, group in groupby(ordered, lambda one: one.danger))
        ]
        self.clusters = max((point.cluster for point in ordered), default=-1) + 1

    def steps(self) -> list[RankingStep]:
        """Return the answers, each once."""
        return [RankingStep(tie.danger, len(tie.good), len(tie.defective)) for tie in self._ties]

    def weighted(self, weights: Sequence[int]) -> list[RankingStep]:
        """Return the answers, each as often as the weight of its cluster."""
        return [
            RankingStep(
                tie.danger, sum([weights[one] for one in tie.good]), sum([weights[one] for one in tie.defective])
            )
            for tie in self._ties
        ]


def auroc(steps: Sequence[RankingStep]) -> float | None:
    """Return the area under the ROC curve, exact with ties; None unless there are both kinds of answers."""
    defective = good = twice = 0
    for step in steps:
        twice += step.good * (2 * defective + step.defective)
        defective += step.defective
        good += step.good
    return twice / (2 * defective * good) if defective and good else None


def average_precision(steps: Sequence[RankingStep]) -> float | None:
    """Return the average precision, treating answers of one danger together; None without a defective answer."""
    defective = seen = 0
    total = 0.0
    for step in steps:
        defective += step.defective
        seen += step.good + step.defective
        if step.defective:
            total += step.defective * defective / seen
    return total / defective if defective else None


def roc(steps: Sequence[RankingStep]) -> list[tuple[float, float]]:
    """Return the corners of the ROC curve, from (0, 0) to (1, 1): shares of good and of defective answers flagged.

    Empty unless there are both kinds of answers.
    """
    good, defective = sum(step.good for step in steps), sum(step.defective for step in steps)
    if not good or not defective:
        return []
    corners, flagged_good, flagged = [(0.0, 0.0)], 0, 0
    for step in steps:
        flagged_good += step.good
        flagged += step.defective
        corners.append((flagged_good / good, flagged / defective))
    return corners


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
