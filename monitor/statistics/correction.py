"""Measures a judge by people's labels, and corrects the defect rate for the judge's errors. Pure functions.

A judge that misses some defects and flags some good answers shows a rate that is off in a known way. How far is
measured on results that people have labelled too. The corrected rate is shown beside the raw one, never instead of it;
alerts use the raw rate unless they ask for the corrected one, which is less certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from monitor.statistics.rates import Z_95, Estimate, Sums, effective_judged, estimate

LABELS_NEEDED = 100
"""The labelled defects, and as many good answers, that a correction needs. With fewer, the textbook interval of the
corrected rate covered the truth in only 79 of 100 simulations, and a correct interval is too wide to be useful."""


Z_JUDGE = 1.645
"""How certain an alert on a corrected rate is of the judge's quality: one-sided, in standard deviations."""


@dataclass(frozen=True, slots=True)
class LabelledResult:
    """A result that a person has labelled: its weight, and whether the judge and the person call it a defect."""

    weight: float
    verdict: bool
    truth: bool


@dataclass(frozen=True, slots=True)
class ShareInterval:
    """A share with 95 % limits, and the number of equally weighted labels that it is worth."""

    value: float
    lower: float
    upper: float
    effective: float


class ConfusionCell(NamedTuple):
    """The labels with one verdict of the judge and one of people (defect or not): number, weights, squares."""

    verdict: bool
    truth: bool
    labels: int
    weight: float
    weight_squares: float


@dataclass(frozen=True, slots=True)
class JudgeQuality:
    """How good a judge is: the share of defects that it finds, and the share of good answers that it calls good.

    A share is None if there is no label of that kind. `cells` are the sums behind it; `at_random`: the labelled results
    were drawn at random within each verdict of the judge.
    """

    sensitivity: ShareInterval | None
    specificity: ShareInterval | None
    defects: int
    good: int
    cells: tuple[ConfusionCell, ...] = ()
    at_random: bool = False

    @property
    def enough(self) -> bool:
        """Whether there are enough labels to correct a rate."""
        return min(self.defects, self.good) >= LABELS_NEEDED


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A defect rate as people would have labelled it, 0 <= lower <= rate <= upper <= 1, with 95 % limits."""

    rate: float
    lower: float
    upper: float


def quality_of(cells: Iterable[ConfusionCell], *, at_random: bool = False) -> JudgeQuality:
    """Do the same as `quality` from labels already summed up: at most one cell of each kind."""
    cells = tuple(cells)
    found: dict[bool, list[ConfusionCell]] = {True: [], False: []}
    for cell in cells:
        if cell.labels:
            found[cell.truth].append(cell)
    return JudgeQuality(
        _share_of(found[True], right=True),
        _share_of(found[False], right=False),
        sum(cell.labels for cell in found[True]),
        sum(cell.labels for cell in found[False]),
        cells,
        at_random,
    )


def quality(labels: Sequence[LabelledResult]) -> JudgeQuality:
    """Estimate sensitivity and specificity over all traffic: each label counts by the weight of its result.

    The estimate is unbiased if the results to label were chosen independently of the verdict. Labels picked from what
    the judge called defective make it look more sensitive and less specific than it is.
    """
    defects, good = [one for one in labels if one.truth], [one for one in labels if not one.truth]
    return JudgeQuality(
        _share(defects, right=True),
        _share(good, right=False),
        len(defects),
        len(good),
    )


def by_quality(raw: Sums, judge: JudgeQuality) -> CorrectedRate | None:
    """Correct the rate of all traffic by the judge's sensitivity and specificity.

    After Rogan and Gladen (American Journal of Epidemiology 107, 1978, p. 71), with the limits of Lang and Reiczigel
    (Preventive Veterinary Medicine 113, 2014, p. 13), which allow for both being estimates. None if there are too few
    labels, if nothing was scored, or if the judge is no better than chance.
    """
    sensitivity, specificity = judge.sensitivity, judge.specificity
    number = effective_judged(raw)
    if not judge.enough or sensitivity is None or specificity is None or not number:
        return None
    shown = min(raw.defect_weight / raw.weight, 1.0)
    better_than_chance = sensitivity.value + specificity.value - 1
    if better_than_chance <= 0:
        return None
    rate = (shown + specificity.value - 1) / better_than_chance

    # The limits: pull every share towards one half first, as Agresti and Coull do, so that none has zero variance.
    z2 = Z_95**2
    found, found_of = _pulled(sensitivity, 2)
    passed, passed_of = _pulled(specificity, 2)
    shown_of = number + z2
    shown = (number * shown + z2 / 2) / shown_of
    power = found + passed - 1
    if power <= 0:
        return None
    middle = (shown + passed - 1) / power
    missed, alarmed = found * (1 - found) / found_of, passed * (1 - passed) / passed_of
    spread = math.sqrt(shown * (1 - shown) / shown_of + middle**2 * missed + (1 - middle) ** 2 * alarmed) / power
    shift = 2 * z2 * (middle * missed - (1 - middle) * alarmed)
    return _within(rate, middle + shift - Z_95 * spread, middle + shift + Z_95 * spread)


def by_difference(raw: Sums, audits: Sequence[LabelledResult]) -> CorrectedRate | None:
    """Correct the rate of all traffic by audits: the raw rate plus the mean difference between people and the judge.

    For labels of results drawn at random from those that `raw` sums up, at least twice `LABELS_NEEDED`. The interval is
    narrower than that of `by_quality`, and right even if the judge's quality differs between kinds of answers. It is
    the difference estimator of two-phase sampling (Cochran, Sampling Techniques, 1977, section 12.9). Disagreements are
    rare, so its variance assumes one more of each kind than were seen.
    """
    if len(audits) < 2 * LABELS_NEEDED or not raw.judged:
        return None
    shown = min(raw.defect_weight / raw.weight, 1.0)
    weight = math.fsum(one.weight for one in audits)
    squares = math.fsum(one.weight**2 for one in audits)
    differences = [(one.weight, one.truth - one.verdict) for one in audits]
    mean = math.fsum(one * difference for one, difference in differences) / weight
    rate = shown + mean

    typical = squares / weight
    disagreeing = math.fsum((one * (difference - mean)) ** 2 for one, difference in differences) + 2 * typical**2
    first = min(max(rate, 0.0), 1.0)
    # The raw rate includes the judge's verdicts on the audited results: do not count the common part twice.
    remaining = max(1 - len(audits) / raw.judged, 0.0)
    variance = disagreeing / weight**2 * remaining + max(first * (1 - first), shown * (1 - shown)) / effective_judged(
        raw
    )
    half = Z_95 * math.sqrt(variance)
    return _within(rate, rate - half, rate + half)


def surely_corrected(found: Estimate, judge: JudgeQuality) -> Estimate | None:
    """Correct an estimate and both of its limits, for alerts: a rate beyond a corrected limit is so for people, too.

    Each limit is corrected by sensitivity and specificity, and moved outwards by how uncertain these are, at a
    one-sided 95 %. So the limits may be those of a short window, and of any certainty. None as for `by_quality`.
    """
    sensitivity, specificity = judge.sensitivity, judge.specificity
    if not judge.enough or sensitivity is None or specificity is None:
        return None
    power = sensitivity.value + specificity.value - 1
    (caught, caught_of), (passed, passed_of) = _pulled(sensitivity, 2), _pulled(specificity, 2)
    if power <= 0 or caught + passed - 1 <= 0:
        return None
    missed, alarmed = caught * (1 - caught) / caught_of, passed * (1 - passed) / passed_of

    def at(rate: float, side: int) -> float:
        point = min(max((rate + specificity.value - 1) / power, 0.0), 1.0)
        moved = side * Z_JUDGE * math.sqrt(point**2 * missed + (1 - point) ** 2 * alarmed) / power
        return min(max(point + moved, 0.0), 1.0)

    return replace(found, rate=at(found.rate, 0), lower=at(found.lower, -1), upper=at(found.upper, 1))


def _share(labels: Sequence[LabelledResult], *, right: bool) -> ShareInterval | None:
    return _shared(Sums.total(Sums.of(one.weight, defect=one.verdict == right) for one in labels))


def _share_of(cells: Sequence[ConfusionCell], *, right: bool) -> ShareInterval | None:
    def of(cell: ConfusionCell) -> Sums:
        if cell.verdict == right:
            return Sums(cell.labels, cell.labels, cell.weight, cell.weight, cell.weight_squares)
        return Sums(cell.labels, 0, cell.weight, good_weight_squares=cell.weight_squares)

    return _shared(Sums.total(of(cell) for cell in cells if cell.weight > 0 and cell.weight_squares > 0))


def _shared(right: Sums) -> ShareInterval | None:
    """Return the share of the labels that the judge gets right: they take the place of defects."""
    found = estimate(right)
    if found is None:
        return None
    return ShareInterval(found.rate, found.lower, found.upper, effective_judged(right))


def _pulled(share: ShareInterval, by: float) -> tuple[float, float]:
    number = share.effective + by
    return (share.effective * share.value + by / 2) / number, number


def _within(rate: float, lower: float, upper: float) -> CorrectedRate:
    rate = min(max(rate, 0.0), 1.0)
    return CorrectedRate(rate, min(max(lower, 0.0), rate), max(min(upper, 1.0), rate))
