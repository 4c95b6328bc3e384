"""How often limits cover the rate, and how biased rates are: exactly for a uniform sample, simulated for a boosted one.

`boosted` is a day of `monitor/samplers`: learner and pacer after a day in which they learned from 1,000 or more
verdicts, over cases with a score that separates defects with the given AUROC.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import NormalDist, fmean, stdev
from typing import TypeAlias

from monitor.statistics.budget_pacer import CAP, BudgetPacer
from monitor.statistics.correction import LabelledResult, by_difference, by_quality, quality
from monitor.statistics.defect_model import INPUTS, DefectModel
from monitor.statistics.rates import Sums, estimate, judged_to_tell

_CASES_A_MINUTE, _SHARE = 28, 0.05


def exact(rate: float, judged: int) -> list[float]:
    """Return the probability of each number of defects."""
    whole = math.lgamma(judged + 1)
    return [
        math.exp(
            whole
            - math.lgamma(k + 1)
            - math.lgamma(judged - k + 1)
            + k * math.log(rate)
            + (judged - k) * math.log1p(-rate)
        )
        for k in range(judged + 1)
    ]


def shown(sums: Sums) -> tuple[float, float, float]:
    """Return rate and limits of a non-empty sample."""
    found = estimate(sums)
    assert found is not None
    return found.rate, found.lower, found.upper


def uniform_coverage(rate: float, judged: int) -> tuple[float, float]:
    """Return how often the interval contains the rate, and the bias as a share of the rate, computed exactly."""
    covered = mean = 0.0
    for defects, chance in enumerate(exact(rate, judged)):
        value, lower, upper = shown(Sums.counted(judged, defects))
        covered += chance * (lower <= rate <= upper)
        mean += chance * value
    return covered, mean / rate - 1


def drawn_day(rate: float, auroc: float, seed: str) -> list[tuple[bool, float]]:
    """Return whether each case of the second day is a defect, and the probability with which the sampler draws it."""
    rng = random.Random(seed)
    apart = NormalDist().inv_cdf(auroc) * math.sqrt(2)
    learner = DefectModel((1.2, *(0.0 for _ in INPUTS[1:])))
    day = _CASES_A_MINUTE * 1440
    pacer = BudgetPacer(day * _SHARE, day * _SHARE / 24 * CAP, 0.0)
    found = []
    for number in range(2 * day):
        # The second day has exactly as many defects as the rate says, so that its rate is known.
        defect = rng.random() < rate if number < day else number % day < round(day * rate)
        inputs = [rng.gauss(0, 1) for _ in INPUTS]
        inputs[0] += apart * defect
        at = number if number < day else day + (number - day) * 7919 % day  # defects spread over the day
        risk = learner.probability(inputs)
        drawn = pacer.draw(risk, at * 60 / _CASES_A_MINUTE) if number < day else None
        if drawn is None:
            found.append((defect, inputs))
        elif rng.random() < drawn.probability:
            learner.learn(inputs, drawn.target / drawn.probability, defect=defect)
    rng.shuffle(found)
    times = (day + number for number in range(day))
    return [
        (defect, pacer.draw(learner.probability(inputs), at * 60 / _CASES_A_MINUTE).probability)
        for (defect, inputs), at in zip(found, times, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Boosted:
    """Results for one sample size: how often the interval contained the rate or lay below it; two relative biases.

    `ratio` is the bias that follows from a ratio of two sums, `rate` the observed bias, with its error.
    """

    covered: float
    missed_above: float
    rate: tuple[float, float]
    ratio: float


def boosted_coverage(rate: float, auroc: float, sizes: Sequence[tuple[int, int]]) -> list[Boosted]:
    """Draw samples from one day's cases; `sizes` are (judged in one sample, samples)."""
    cases = drawn_day(rate, auroc, f"day {rate} {auroc}")
    true = sum(defect for defect, _ in cases) / len(cases)
    total = math.fsum(probability for _, probability in cases)
    mean = len(cases) / total  # weight of the judged cases
    columns = _columns(cases)
    cumulative = list(accumulate(probability for _, probability in cases))
    rng = random.Random(f"samples {rate} {auroc}")
    found = []
    for judged, samples in sizes:
        covered = missed = 0
        rates = []
        for _ in range(samples):
            sums = _sums(rng.choices(range(len(cases)), cum_weights=cumulative, k=judged), columns)
            value, lower, upper = shown(sums)
            covered += lower <= true <= upper
            missed += upper < true
            # Minus the estimating equation, which is 0 on average: the rest varies much less.
            rates.append(value / true - 1 - (sums.defect_weight / true - sums.weight) / judged / mean)
        squares = math.fsum((1 - defect / true) / probability for defect, probability in cases) / total
        found.append(
            Boosted(
                covered / samples,
                missed / samples,
                (fmean(rates), stdev(rates) / math.sqrt(samples)),
                squares / mean**2 / judged,
            )
        )
    return found


_Columns: TypeAlias = tuple[list[float], list[float], list[float], list[float], list[float]]


def _columns(cases: Sequence[tuple[bool, float]]) -> _Columns:
    """Return for each case what it adds to each field of `Sums` except the first."""
    weights = [1 / probability for _, probability in cases]
    defects = [float(defect) for defect, _ in cases]
    heavy = [defect * weight for defect, weight in zip(defects, weights, strict=True)]
    squares = [one * one for one in heavy]
    good = [weight * weight - one for weight, one in zip(weights, squares, strict=True)]
    return defects, weights, heavy, squares, good


def _sums(sample: Sequence[int], columns: _Columns) -> Sums:
    defects, *weights = (sum(map(column.__getitem__, sample)) for column in columns)
    return Sums(len(sample), round(defects), *weights, max(map(columns[1].__getitem__, sample)))


def power(threshold: float, rate: float) -> float:
    """Return how often the number of answers given by `judged_to_tell` suffices, at z 2.58."""
    judged = judged_to_tell(threshold, rate, 2.58)
    noticed = 0.0
    for defects, chance in enumerate(exact(rate, judged)):
        found = estimate(Sums.counted(judged, defects), 2.58)
        noticed += chance * (found is not None and found.lower > threshold)
    return noticed


def corrected(rate: float, labels: int, runs: int) -> list[tuple[float, float]]:
    """Of 1,000 judged by a judge of sensitivity .8 and specificity .97: coverage and width of the limits.

    For the raw rate; corrected by sensitivity and specificity, from half as many labels of each kind; and corrected by
    the difference on as many random audits.
    """
    rng = random.Random(f"corrected {rate} {labels}")
    found: list[list[tuple[float, float]]] = [[], [], []]
    for _ in range(runs):
        truth = [rng.random() < rate for _ in range(1000)]
        verdicts = [rng.random() < (0.8 if one else 0.03) for one in truth]
        raw = Sums.counted(1000, sum(verdicts))
        kinds = [
            LabelledResult(1.0, rng.random() < (0.8 if kind else 0.03), kind)
            for kind in (True, False)
            for _ in range(labels // 2)
        ]
        audits = [
            LabelledResult(1.0, verdict, one) for verdict, one in zip(verdicts[:labels], truth[:labels], strict=True)
        ]
        for at, one in enumerate((estimate(raw), by_quality(raw, quality(kinds)), by_difference(raw, audits))):
            assert one is not None
            found[at].append((one.lower <= rate <= one.upper, one.upper - one.lower))
    return [(fmean(held for held, _ in one), fmean(width for _, width in one)) for one in found]
