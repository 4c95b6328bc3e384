"""Measures one evaluator on one set of labelled answers."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from monitor.statistics.quality import calibration, ranking
from monitor.statistics.quality.bootstrap import Interval, intervals
from monitor.statistics.quality.calibration import Bin
from monitor.statistics.quality.ranking import Confusion, Point, Ranked


class Labelled(NamedTuple):
    """A scored answer: its group (answers of one group are alike), its label, its score, and the rule's decision."""

    group: str
    defective: bool
    score: float
    called: bool


class Spread(NamedTuple):
    """The median and the upper end of what each answer took."""

    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class Tested:
    """A threshold chosen on the first half of the groups, and its quality on the second.

    `score` is on the evaluator's scale; answers on its bad side are called defective. None if all are.
    """

    score: float | None
    confusion: Confusion


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The quality of an evaluator. Values are None if there are too few answers of one kind.

    `by_rule` is the quality of the configured defect rule on all answers. `bins` are on the second half, with the
    probabilities fitted on the first. `calibration_by_chance` is the error that correct probabilities would show.
    """

    answers: int
    defective: int
    groups: int
    auroc: float | None
    auroc_interval: Interval | None
    average_precision: float | None
    average_precision_interval: Interval | None
    by_rule: Confusion
    best_f1: Tested | None
    best_balanced: Tested | None
    bins: tuple[Bin, ...]
    calibration_error: float | None
    calibration_by_chance: float | None
    roc: tuple[tuple[float, float], ...]


def measure(answers: Sequence[Labelled], better: Literal["higher", "lower"], rng: random.Random) -> Quality:
    """Measure the quality of scores on a scale with the good end `better`. `rng` is for the intervals."""
    sign = -1.0 if better == "higher" else 1.0
    clusters = {group: number for number, group in enumerate(dict.fromkeys(one.group for one in answers))}
    ranked = Ranked(Point(sign * one.score, one.defective, clusters[one.group]) for one in answers)
    steps = ranked.steps()
    of_auroc, of_precision = intervals(ranked, (ranking.auroc, ranking.average_precision), rng)
    first = [one for one in answers if in_first_half(one.group)]
    second = [one for one in answers if not in_first_half(one.group)]
    bins = _bins(first, second, sign)
    return Quality(
        answers=len(answers),
        defective=sum(one.defective for one in answers),
        groups=len(clusters),
        auroc=ranking.auroc(steps),
        auroc_interval=of_auroc,
        average_precision=ranking.average_precision(steps),
        average_precision_interval=of_precision,
        by_rule=ranking.confusion((one.called, one.defective) for one in answers),
        best_f1=_tested(first, second, sign, lambda counts: counts.f1),
        best_balanced=_tested(first, second, sign, lambda counts: counts.balanced_accuracy),
        bins=bins,
        calibration_error=calibration.error(bins) if bins else None,
        calibration_by_chance=calibration.error_by_chance(bins) if bins else None,
        roc=tuple(ranking.roc(steps)),
    )


def in_first_half(group: str) -> bool:
    """Return whether a group is for fitting rather than testing, by a hash: the same in every run."""
    return hashlib.blake2b(group.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % 2 == 0


def spread(values: Sequence[float]) -> Spread | None:
    """Return the median and the 95th percentile, both as values that occur; None if there are no values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return Spread(ordered[(len(ordered) - 1) // 2], ordered[math.ceil(0.95 * len(ordered)) - 1])


def _tested(
    first: Sequence[Labelled], second: Sequence[Labelled], sign: float, by: Callable[[Confusion], float]
) -> Tested | None:
    if not (_both_kinds(first) and _both_kinds(second)):
        return None
    steps = Ranked(Point(sign * one.score, one.defective) for one in first).steps()
    cut = ranking.best(steps, by)
    found = ranking.confusion((sign * one.score >= cut, one.defective) for one in second)
    return Tested(sign * cut if math.isfinite(cut) else None, found)


def _bins(first: Sequence[Labelled], second: Sequence[Labelled], sign: float) -> tuple[Bin, ...]:
    learned = calibration.fit([(sign * one.score, one.defective) for one in first])
    if learned is None or not second:
        return ()
    return tuple(calibration.bins([(learned(sign * one.score), one.defective) for one in second]))


def _both_kinds(answers: Sequence[Labelled]) -> bool:
    return len({one.defective for one in answers}) > 1
