"""What a few human labels say about a judge: the corrected rate, its outlook, and agreement.

Within each verdict of the judge the share of defects is estimated from the labels, each weighted by the requests that
it stands for; the two shares are combined by how often the judge gives each verdict (two-phase sampling: Cochran,
Sampling Techniques, 1977, section 12.2). Limits of each share are quantiles of a beta distribution, as in
`monitor.statistics.rates` but with part of an answer on their side instead of a whole one; they are combined by their
distances from the shares (MOVER: Zou and Donner, Statistics in Medicine 27, 2008, p. 1693). They hold for small
numbers: `python -m benchmarks.review`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from monitor.model.label import Label, LabelVerdict
from monitor.statistics.correction import ConfusionCell, CorrectedRate, LabelledResult, ShareInterval
from monitor.statistics.rates import Z_95, Estimate, Sums, effective_judged, estimate

FEWEST: Final = 40
"""Labels needed to correct a rate; with fewer, the limits say next to nothing."""

_PULL: Final = 0.6
"""The part of an answer added on the side of a limit. With a whole answer, limits hold in 97 to 100 of 100 cases, with
half an answer in 93.5 to 98, with this part in 94 or more."""


@dataclass(frozen=True, slots=True)
class ReviewOutlook:
    """The rate as people would label it, and how more labels would change its limits.

    `raw` is the rate by the judge alone. `half_width` is half the distance between the limits now, `half_width_after`
    the expected value after `more` labels. All are shares of the traffic, 0 to 1.
    """

    raw: float
    corrected: CorrectedRate
    half_width: float
    more: int
    half_width_after: float


class VerdictShares(NamedTuple):
    """The share of defects, according to people, in what the judge calls defects (`of_defects`) and good (`of_good`).

    `judged` is the judge's own rate. A share is None without labels of that verdict.
    """

    judged: Estimate
    of_defects: Estimate | None
    of_good: Estimate | None


def truth_of(labels: Sequence[Label]) -> bool | None:
    """Return whether people call a result a defect: by majority; in a tie, the latest label decides.

    None if nobody can decide. `labels` are those of one result, oldest first, one for each reviewer.
    """
    said = [one.verdict is LabelVerdict.DEFECT for one in labels if one.verdict is not LabelVerdict.CANNOT_TELL]
    if not said:
        return None
    defects = sum(said)
    return said[-1] if 2 * defects == len(said) else 2 * defects > len(said)


def shares(judged: Sums, labels: Sequence[LabelledResult], z: float = Z_95) -> VerdictShares | None:
    """Estimate the shares by verdict, each limit at `z`. None if nothing was judged.

    `judged` are the sums of all results that labels were drawn from; a label's weight is the requests it stands for.
    """
    own = estimate(judged, z)
    if own is None:
        return None
    by_verdict = {verdict: _share(_sums(labels, verdict=verdict), z) for verdict in (True, False)}
    return VerdictShares(own, by_verdict[True], by_verdict[False])


def _share(sums: Sums, z: float = Z_95) -> Estimate | None:
    """Estimate the share of defects among a few labels; None without labels."""
    number = effective_judged(sums)
    if not number:
        return None
    rate = min(sums.defect_weight / sums.weight, 1.0)
    bad, good = number * rate, number * (1 - rate)
    upper = _quantile(bad + _PULL, good + 1 - _PULL, z) if rate < 1 else 1.0
    lower = 1 - _quantile(good + _PULL, bad + 1 - _PULL, z) if rate > 0 else 0.0
    return Estimate(rate, min(lower, rate), max(upper, rate), sums.judged, sums.defects)


def _quantile(defects: float, good: float, z: float) -> float:
    """Return the quantile of a beta distribution by cube roots (Paulson, as in `monitor.statistics.rates`)."""
    of_defects, of_good = 1 / (9 * defects), 1 / (9 * good)
    below = (1 - of_good) ** 2 - z * z * of_good
    if not below > 0 or of_good >= 1:
        return 1.0
    within = (1 - of_defects) ** 2 * of_good + (1 - of_good) ** 2 * of_defects - z * z * of_defects * of_good
    cube = max(((1 - of_defects) * (1 - of_good) + z * math.sqrt(max(within, 0.0))) / below, 0.0)
    odds = defects / good * cube**3
    return odds / (1 + odds) if math.isfinite(odds) else 1.0


def _sums(labels: Sequence[LabelledResult], *, verdict: bool) -> Sums:
    return Sums.total(Sums.of(one.weight, defect=one.truth) for one in labels if one.verdict == verdict)


def corrected(judged: Sums, labels: Sequence[LabelledResult], z: float = Z_95) -> CorrectedRate | None:
    """Return the rate as people would label it; None until there is a label of each verdict that the judge gives."""
    found = shares(judged, labels, z)
    return combine(found) if found is not None else None


def combine(found: VerdictShares) -> CorrectedRate | None:
    """Return the rate as people would label it; None if a verdict that the judge gives has no label."""
    share = found.judged.rate
    bad = found.of_defects or (_NOTHING if share == 0 else None)
    good = found.of_good or (_NOTHING if share == 1 else None)
    if bad is None or good is None:
        return None
    rate = share * bad.rate + (1 - share) * good.rate
    by_judge = bad.rate - good.rate
    towards = (found.judged.lower, found.judged.upper) if by_judge >= 0 else (found.judged.upper, found.judged.lower)
    below = math.hypot(
        share * (bad.rate - bad.lower), (1 - share) * (good.rate - good.lower), by_judge * (share - towards[0])
    )
    above = math.hypot(
        share * (bad.upper - bad.rate), (1 - share) * (good.upper - good.rate), by_judge * (towards[1] - share)
    )
    return CorrectedRate(rate, max(rate - below, 0.0), min(rate + above, 1.0))


_NOTHING: Final = Estimate(0.0, 0.0, 0.0, 0, 0)


def outlook(
    judged: Sums, labels: Sequence[LabelledResult], drawn: Mapping[bool, float], *, more: int
) -> ReviewOutlook | None:
    """Return the corrected rate, and what to expect from `more` labels; None as in `corrected`.

    `drawn`: the share of further labels that each verdict of the judge gets. Since their outcome is unknown, the
    expectation is over all possible outcomes, with the probabilities that follow from the labels so far
    (beta-binomial).
    """
    now = shares(judged, labels)
    rate = combine(now) if now is not None else None
    if now is None or rate is None:
        return None
    expected = {
        verdict: _expected(_sums(labels, verdict=verdict), round(more * drawn.get(verdict, 0.0)))
        for verdict in (True, False)
    }
    share = now.judged.rate
    both = zip(expected[True], expected[False], strict=True)
    spread = [share**2 * bad + (1 - share) ** 2 * good for bad, good in both]
    by_judge = [(rate_limit - share) ** 2 for rate_limit in (now.judged.lower, now.judged.upper)]
    bad_rate = now.of_defects.rate if now.of_defects else 0.0
    power = (bad_rate - (now.of_good.rate if now.of_good else 0.0)) ** 2
    below, above = (math.sqrt(one + power * other) for one, other in zip(spread, by_judge, strict=True))
    after = (min(below, rate.rate) + min(above, 1 - rate.rate)) / 2
    half = (rate.upper - rate.lower) / 2
    return ReviewOutlook(share, rate, half, more, min(after, half))


def _expected(sums: Sums, more: int) -> tuple[float, float]:
    """Return the mean squares of the distances of both limits after `more` labels of the same weight."""
    if not sums.judged:
        return 0.0, 0.0
    typical, number = sums.typical_weight, effective_judged(sums)
    share = sums.defect_weight / sums.weight
    # The effective number of labels, with half a defect and half a good answer as the prior (Jeffreys).
    defects, good = number * share + 0.5, number * (1 - share) + 0.5
    below = above = 0.0
    one_defect, one_good = Sums.of(typical, defect=True), Sums.of(typical, defect=False)
    for said in range(more + 1):
        chance = _beta_binomial(said, more, defects, good)
        found = _share(Sums.total([sums, *[one_defect] * said, *[one_good] * (more - said)]))
        if found is not None:
            below += chance * (found.rate - found.lower) ** 2
            above += chance * (found.upper - found.rate) ** 2
    return below, above


def _beta_binomial(hits: int, number: int, defects: float, good: float) -> float:
    def log_beta(one: float, other: float) -> float:
        return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)

    of = math.lgamma(number + 1) - math.lgamma(hits + 1) - math.lgamma(number - hits + 1)
    return math.exp(of + log_beta(hits + defects, number - hits + good) - log_beta(defects, good))


def by_cells(judged: Sums, cells: Iterable[ConfusionCell]) -> CorrectedRate | None:
    """Do the same as `corrected` from labels already summed up.

    None for fewer than `FEWEST` labels: limits are not known to hold for so few.
    """
    own = estimate(judged)
    sums = {True: Sums(), False: Sums()}
    for cell in cells:
        bad = (cell.labels, cell.weight, cell.weight_squares, 0.0) if cell.truth else (0, 0.0, 0.0, cell.weight_squares)
        sums[cell.verdict] += Sums(cell.labels, bad[0], cell.weight, *bad[1:]) if cell.labels else Sums()
    if own is None or sum(one.judged for one in sums.values()) < FEWEST:
        return None
    return combine(VerdictShares(own, _share(sums[True]), _share(sums[False])))


# -- how good the judge is


def sensitivity(found: VerdictShares) -> ShareInterval | None:
    """Return the share of all defects that the judge finds; None without labels of each verdict, or without defects.

    `effective` is 0: the limits are not those of a simple share.
    """
    if found.of_defects is None or found.of_good is None:
        return None
    return _over_rates(found.of_defects, found.of_good, found.judged)


def specificity(found: VerdictShares) -> ShareInterval | None:
    """Return the share of all good answers that the judge calls good; None as for `sensitivity`."""
    if found.of_defects is None or found.of_good is None:
        return None
    return _over_rates(_turned(found.of_good), _turned(found.of_defects), _turned(found.judged))


def _over_rates(own: Estimate, other: Estimate, judged: Estimate) -> ShareInterval | None:
    """Return `own` as a part of both verdicts, with limits that account for the judge's rate being an estimate."""
    found = _part(own, other, judged.rate, 1 - judged.rate)
    if found is None:
        return None
    ends = [_part(own, other, one, 1 - one) for one in (judged.lower, judged.upper)]
    below, above = (0.0 if one is None else abs(one.value - found.value) for one in ends)
    lower = found.value - math.hypot(found.value - found.lower, below)
    upper = found.value + math.hypot(found.upper - found.value, above)
    return ShareInterval(found.value, max(lower, 0.0), min(upper, 1.0), 0.0)


def _turned(one: Estimate) -> Estimate:
    return Estimate(1 - one.rate, 1 - one.upper, 1 - one.lower, one.judged, one.judged - one.defects)


def _part(own: Estimate, other: Estimate, weight: float, other_weight: float) -> ShareInterval | None:
    """Return `own` as a part of both, with limits of the ratio by MOVER (Donner and Zou, 2012)."""
    a, lower_a, upper_a = (weight * one for one in (own.rate, own.lower, own.upper))
    b, lower_b, upper_b = (other_weight * one for one in (other.rate, other.lower, other.upper))
    if a + b <= 0:
        return None

    def ratio(of_a: float, of_b: float, side: int) -> float:
        below = of_a * (2 * a - of_a)
        if below <= 0:
            return math.inf if side > 0 else 0.0
        within = max((a * b) ** 2 - below * of_b * (2 * b - of_b), 0.0)
        return max((a * b + side * math.sqrt(within)) / below, 0.0)

    upper_ratio, lower_ratio = ratio(lower_a, upper_b, 1), ratio(upper_a, lower_b, -1)
    value = a / (a + b)
    return ShareInterval(value, min(1 / (1 + upper_ratio), value), max(1 / (1 + lower_ratio), value), 0.0)


class LabelCounts(NamedTuple):
    """Counts of labelled answers by verdict of judge and people: defects found and missed, and the good answers."""

    found: int
    missed: int
    alarmed: int
    passed: int


def chance_if_as_good(before: LabelCounts, lately: LabelCounts) -> float:
    """Return the chance of labels as bad as `lately`, or worse, if the judge were as good as `before`. 0 to 1.

    It is the smaller result of two exact one-sided tests (Fisher), doubled because there are two: whether the judge
    finds as many of the defects, and whether it calls as many good answers good. The answers must be drawn evenly from
    all traffic. How many defects there are does not matter.
    """
    sensitivity = _fewer((before.found, before.missed), (lately.found, lately.missed))
    specificity = _fewer((before.passed, before.alarmed), (lately.passed, lately.alarmed))
    return min(2 * min(sensitivity, specificity), 1.0)


def _fewer(before: tuple[int, int], lately: tuple[int, int]) -> float:
    """Return the chance of this few hits or fewer lately, given all hits and misses; arguments are (hits, misses)."""
    hits, number, late = before[0] + lately[0], sum(before) + sum(lately), sum(lately)

    def chance(found: int) -> float:
        ways = log_choose(hits, found) + log_choose(number - hits, late - found)
        return math.exp(ways - log_choose(number, late))

    return min(math.fsum(chance(one) for one in range(max(0, late - (number - hits)), lately[0] + 1)), 1.0)


def log_choose(number: int, chosen: int) -> float:
    """Return the logarithm of the binomial coefficient."""
    return math.lgamma(number + 1) - math.lgamma(chosen + 1) - math.lgamma(number - chosen + 1)


# -- agreement


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa of two people or judges on the same answers, with 95 % limits: 1 is full agreement, 0 is chance.

    `share` is how often they agree, `both` how many answers both have labelled.
    """

    value: float
    lower: float
    upper: float
    share: float
    both: int


def agreement(pairs: Sequence[tuple[bool, bool, float]]) -> Kappa | None:
    """Estimate kappa from what both said about each answer, and its weight. None if it is not defined.

    After Cohen (Educational and Psychological Measurement 20, 1960, p. 37), with the error of Fleiss, Cohen and Everitt
    (Psychological Bulletin 72, 1969, p. 323). Limits include half an extra answer of each kind, so that full agreement
    on few answers proves little. Kappa is not defined if both gave one and the same verdict on all answers.
    """
    weight = math.fsum(one[2] for one in pairs)
    squares = math.fsum(one[2] ** 2 for one in pairs)
    if not pairs or weight <= 0:
        return None
    cells = {
        (one, other): math.fsum(each[2] for each in pairs if each[:2] == (one, other)) / weight
        for one in (True, False)
        for other in (True, False)
    }
    plain = _kappa(cells)
    if plain is None:
        return None
    number = weight**2 / squares
    pulled = {kind: (number * share + 0.5) / (number + 2) for kind, share in cells.items()}
    middle = _kappa(pulled)
    if middle is None:
        return None
    half = Z_95 * math.sqrt(_kappa_variance(pulled, middle) / (number + 2))
    lower, upper = max(middle - half, -1.0), min(middle + half, 1.0)
    share = min(cells[True, True] + cells[False, False], 1.0)
    return Kappa(plain, min(lower, plain), max(upper, plain), share, len(pairs))


Cells = Mapping[tuple[bool, bool], float]


def _margins(cells: Cells) -> tuple[dict[bool, float], dict[bool, float]]:
    first = {one: cells[one, True] + cells[one, False] for one in (True, False)}
    second = {one: cells[True, one] + cells[False, one] for one in (True, False)}
    return first, second


def _kappa(cells: Cells) -> float | None:
    first, second = _margins(cells)
    chance = sum(first[one] * second[one] for one in (True, False))
    if chance >= 1 - 1e-12:  # both gave only one verdict
        return None
    return min((cells[True, True] + cells[False, False] - chance) / (1 - chance), 1.0)


def _kappa_variance(cells: Cells, kappa: float) -> float:
    first, second = _margins(cells)
    chance = sum(first[one] * second[one] for one in (True, False))
    alike = sum(cells[one, one] * (1 - (first[one] + second[one]) * (1 - kappa)) ** 2 for one in (True, False))
    apart = (1 - kappa) ** 2 * sum(cells[one, not one] * (second[one] + first[not one]) ** 2 for one in (True, False))
    return max(alike + apart - (kappa - chance * (1 - kappa)) ** 2, 0.0) / (1 - chance) ** 2
