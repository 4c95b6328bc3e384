"""Maps a danger to the probability of a defect, and measures how well that probability is calibrated.

The map is logistic, with Platt's targets ("Probabilistic outputs for support vector machines", 1999): a hundred labels
are enough for its two numbers, while isotonic regression needs about a thousand (Niculescu-Mizil and Caruana, ICML
2005). Bins have equal numbers of answers, which biases the error less than equal widths (Roelofs and others, AISTATS
2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

_STEPS = 100
_SMALL = 1e-10


class Logistic(NamedTuple):
    """P(defect) = 1 / (1 + exp(-(slope * danger + intercept)))."""

    slope: float
    intercept: float

    def __call__(self, danger: float) -> float:
        """Return the probability, 0 to 1."""
        return _sigmoid(self.slope * danger + self.intercept)


class Bin(NamedTuple):
    """Answers with similar predicted probability: its mean, the observed share of defects, and their number."""

    predicted: float
    observed: float
    number: int


def fit(points: Sequence[tuple[float, bool]]) -> Logistic | None:
    """Fit the map of greatest likelihood by Newton's method; None unless there are both kinds of answers.

    Targets are a little away from 0 and 1, so that it is finite even if dangers separate the answers.
    """
    defective = sum(is_defective for _, is_defective in points)
    good = len(points) - defective
    if not defective or not good:
        return None
    middle = math.fsum(danger for danger, _ in points) / len(points)
    width = max(abs(danger - middle) for danger, _ in points) or 1.0
    high, low = (defective + 1) / (defective + 2), 1 / (good + 2)
    data = [((danger - middle) / width, high if is_defective else low) for danger, is_defective in points]
    slope, intercept = 0.0, math.log((defective + 1) / (good + 1))
    loss = _loss(data, slope, intercept)
    for _ in range(_STEPS):
        step = _newton(data, slope, intercept)
        size = 1.0
        while size > _SMALL:
            moved = (slope - size * step[0], intercept - size * step[1])
            lower = _loss(data, *moved)
            if lower < loss:
                break
            size /= 2
        else:
            break
        gained, (slope, intercept), loss = loss - lower, moved, lower
        if gained < _SMALL * len(data):
            break
    return Logistic(slope / width, intercept - slope * middle / width)


def bins(pairs: Sequence[tuple[float, bool]], number: int = 10) -> list[Bin]:
    """Group pairs of probability and truth into at most `number` bins of similar size; ties stay together."""
    ordered = sorted(pairs)
    at_least = len(ordered) / number
    found: list[list[tuple[float, bool]]] = []
    filled = 0
    for _, group in groupby(ordered, lambda pair: pair[0]):
        tied = list(group)
        if not found or filled >= at_least * len(found):
            found.append([])
        found[-1] += tied
        filled += len(tied)
    return [
        Bin(
            math.fsum(probability for probability, _ in one) / len(one),
            sum(is_defective for _, is_defective in one) / len(one),
            len(one),
        )
        for one in found
    ]


def error(found: Sequence[Bin]) -> float:
    """Return the expected calibration error: the mean distance of predicted and observed, over all answers."""
    return math.fsum(one.number * abs(one.predicted - one.observed) for one in found) / sum(one.number for one in found)


def error_by_chance(found: Sequence[Bin]) -> float:
    """Return the mean of `error` if every predicted probability were right: a few answers never match exactly.

    The mean deviation of a binomial count has a closed form (Diaconis and Zabell, Statistical Science 6, 1991, p. 284).
    """
    return math.fsum(_mean_deviation(one.number, one.predicted) for one in found) / sum(one.number for one in found)


def _mean_deviation(number: int, share: float) -> float:
    """Return E |X - np| for binomial X: 2 m (1 - p) P(X = m), where m is the least whole number above np."""
    above = math.floor(number * share) + 1
    if not 0 < share < 1 or above > number:
        return 0.0
    log = (
        math.lgamma(number + 1)
        - math.lgamma(above + 1)
        - math.lgamma(number - above + 1)
        + above * math.log(share)
        + (number - above) * math.log1p(-share)
    )
    return 2 * above * (1 - share) * math.exp(log)


def _newton(data: Sequence[tuple[float, float]], slope: float, intercept: float) -> tuple[float, float]:
    """Return the Newton step: the inverse second derivative of the loss times the first."""
    first_a = first_b = aa = ab = bb = 0.0
    for value, target in data:
        probability = _sigmoid(slope * value + intercept)
        off, weight = probability - target, probability * (1 - probability)
        first_a += off * value
        first_b += off
        aa += weight * value * value
        ab += weight * value
        bb += weight
    aa, bb = aa + _SMALL, bb + _SMALL  # if all dangers are the same, no slope is better than another
    determinant = aa * bb - ab * ab
    return (bb * first_a - ab * first_b) / determinant, (aa * first_b - ab * first_a) / determinant


def _loss(data: Sequence[tuple[float, float]], slope: float, intercept: float) -> float:
    """Return the negative log-likelihood log(1 + exp(z)) - target * z, without overflow."""
    total = 0.0
    for value, target in data:
        z = slope * value + intercept
        total += max(z, 0.0) + math.log1p(math.exp(-abs(z))) - target * z
    return total


def _sigmoid(z: float) -> float:
    if z >= 0:
        return 1 / (1 + math.exp(-z))
    grown = math.exp(z)
    return grown / (1 + grown)
