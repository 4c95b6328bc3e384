"""Coverage of the 95 % interval by the source of the weights: tenant, attribute, upstream, boosting.

Judged answers are drawn from a population of cells: a weight, whether the answer is a defect, and the probability that
the next judged answer is from that cell. `usual` is the population's typical weight, as in a day of the same traffic.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import NamedTuple

from benchmarks.comparison import METHODS
from benchmarks.intervals import drawn_day, exact
from monitor.statistics.rates import Sums, estimate

JUDGED, RATES = (5, 20, 100, 500), (0.01, 0.05, 0.2, 0.5, 0.9)


class Cell(NamedTuple):
    """One kind of answer: its frequency among the judged, relative to the other cells; its weight; its verdict."""

    share: float
    weight: float
    defect: bool


class Coverage(NamedTuple):
    """How often intervals of one sample size contained the true rate, were below it, and above it; their mean width."""

    held: float
    below: float
    above: float
    width: float


class Kind(NamedTuple):
    """Answers of one weight: their share of the judged, and their defect rate relative to that of the others."""

    share: float
    weight: float
    worse: float = 1.0


def _of_traffic(*parts: tuple[float, float, float]) -> list[Kind]:
    """Return kinds for shares of the traffic instead of the judged: (share, weight, relative defect rate)."""
    return [Kind(share / weight, weight, worse) for share, weight, worse in parts]


def _spread(quantile: Sequence[float]) -> list[Kind]:
    return [Kind(1.0, one) for one in quantile]


_STEPS = [(number + 0.5) / 200 for number in range(200)]
SAMPLERS: Mapping[str, Sequence[Kind]] = {
    "equal": [Kind(1.0, 1.0)],
    "by attribute: 2, 10, 50, 100": [Kind(1.0, weight) for weight in (2.0, 10.0, 50.0, 100.0)],
    "tenants of 10, 30, 60 % at 2, 20, 100": _of_traffic((0.1, 2, 1), (0.3, 20, 1), (0.6, 100, 1)),
    "tenants, the largest three times as bad": _of_traffic((0.1, 2, 1), (0.3, 20, 1), (0.6, 100, 3)),
    "tenants, the smallest three times as bad": _of_traffic((0.1, 2, 3), (0.3, 20, 1), (0.6, 100, 1)),
    "upstream probabilities 1 and 1/10": _of_traffic((0.5, 1, 1), (0.5, 10, 1)),
    "2 % of the judged weigh 100, others 1": [Kind(0.98, 1.0), Kind(0.02, 100.0)],
    "lognormal, sigma 1.2": _spread([math.exp(1.2 * NormalDist().inv_cdf(one)) for one in _STEPS]),
    "Pareto, 1.5": _spread([(1 - one) ** (-1 / 1.5) for one in _STEPS]),
}
"""The samplers whose weights do not depend on a score."""

DISLIKED = "all disliked answers, 1/20 of the others"
BEHIND_HEAD, UNSEEN = "boosted 0.8 behind head sampling 1 and 1/10", "boosted, AUROC 0.9, 20 % of the answers unseen"
BOOSTED: Mapping[str, float] = {
    "boosted, AUROC 0.8": 0.8,
    "boosted, AUROC 0.95": 0.95,
    UNSEEN: 0.9,
    BEHIND_HEAD: 0.8,
}
"""How well the boosting score separates defects. Unseen answers have no score: they are drawn evenly."""
NAMES = (*SAMPLERS, DISLIKED, *BOOSTED)


def population(sampler: str, rate: float) -> list[Cell]:
    """Return the cells of a sampler at a defect rate of the traffic; shares need not sum to 1."""
    if sampler == DISLIKED:  # users dislike three in ten bad answers and two in a hundred good ones
        return [
            Cell(rate * 0.3, 1.0, defect=True),
            Cell((1 - rate) * 0.02, 1.0, defect=False),
            Cell(rate * 0.7 / 20, 20.0, defect=True),
            Cell((1 - rate) * 0.98 / 20, 20.0, defect=False),
        ]
    if sampler in BOOSTED:
        rng = random.Random(f"head {rate}")
        day = drawn_day(rate, BOOSTED[sampler], f"sampler {rate}")
        even = math.fsum(chance for _, chance in day) / len(day)
        cells = []
        for defect, chance in day:
            first = rng.random()
            head = 0.1 if sampler == BEHIND_HEAD and first >= 0.5 else 1.0
            drawn = even if sampler == UNSEEN and first < 0.2 else chance
            cells.append(Cell(drawn * head, 1 / drawn / head, defect))
        return cells
    kinds = SAMPLERS[sampler]
    traffic = sum(one.share * one.weight for one in kinds)
    mean = sum(one.share * one.weight * one.worse for one in kinds) / traffic
    found = []
    for one in kinds:
        bad = min(rate * one.worse / mean, 1.0)
        found += [Cell(one.share * bad, one.weight, defect=True), Cell(one.share * (1 - bad), one.weight, defect=False)]
    return found


class _Traffic:
    """A population: its cells, its true rate, and its usual weight."""

    def __init__(self, sampler: str, rate: float) -> None:
        cells = [one for one in population(sampler, rate) if one.share > 0]
        traffic = math.fsum(one.share * one.weight for one in cells)
        self.true = math.fsum(one.share * one.weight for one in cells if one.defect) / traffic
        self.usual = math.fsum(one.share * one.weight**2 for one in cells) / traffic
        self._shares = list(accumulate(one.share for one in cells))
        self._all = range(len(cells))
        self._weights = [one.weight for one in cells]
        self._defects = [one.weight * one.defect for one in cells]

    def judged(self, number: int, rng: random.Random) -> Sums:
        """Draw this many answers, each its own session."""
        drawn = rng.choices(self._all, cum_weights=self._shares, k=number)
        weights = [self._weights[one] for one in drawn]
        defects = [one for one in map(self._defects.__getitem__, drawn) if one]
        bad, every = (sum(one * one for one in some) for some in (defects, weights))
        good = 0.0 if len(defects) == number else every - bad
        return Sums(number, len(defects), sum(weights), sum(defects), bad, good, max(weights), bad, every, bad)


_traffic = lru_cache(maxsize=2)(_Traffic)
"""The cached populations. Two are enough, because the jobs of one population run one after the other."""


def coverage(sampler: str, rate: float, judged: int, samples: int) -> Coverage:
    """Draw samples and compare their intervals with the true rate of the population."""
    traffic = _traffic(sampler, rate)
    rng = random.Random(f"{sampler} {rate} {judged}")
    below = above = 0
    width = 0.0
    for _ in range(samples):
        found = estimate(traffic.judged(judged, rng), usual=traffic.usual)
        assert found is not None
        below += found.upper < traffic.true
        above += found.lower > traffic.true
        width += found.upper - found.lower
    return Coverage(1 - (below + above) / samples, below / samples, above / samples, width / samples)


def look(sampler: str, rate: float, judged: int, zs: Sequence[float], samples: int) -> list[float]:
    """Return how often, relative to its promise, the lower limit at each z is above the true rate at one look."""
    traffic = _traffic(sampler, rate)
    rng = random.Random(f"look {sampler} {rate} {judged}")
    above = [0] * len(zs)
    for _ in range(samples):
        sums = traffic.judged(judged, rng)
        for place, z in enumerate(zs):
            found = estimate(sums, z, usual=traffic.usual)
            above[place] += found is not None and found.lower > traffic.true
    return [one / samples / (1 - NormalDist().cdf(z)) for one, z in zip(above, zs, strict=True)]


def exact_look(judged: int, z: float) -> float:
    """Return the same with equal weights, the worst over all rates, computed exactly."""
    worst, promise = 0.0, 1 - NormalDist().cdf(z)
    lower = [_lower(judged, defects, z) for defects in range(judged + 1)]
    for step in range(1, 200):
        rate = step / 200
        chances = exact(rate, judged)
        worst = max(worst, sum(one for one, low in zip(chances, lower, strict=True) if low > rate) / promise)
    return worst


def noticed(threshold: float, rate: float, judged: int, z: float) -> float:
    """Return how often one look at this many answers of equal weight detects a rate above the threshold, exactly."""
    chances = exact(rate, judged)
    return sum(one for defects, one in enumerate(chances) if _lower(judged, defects, z) > threshold)


def _lower(judged: int, defects: int, z: float) -> float:
    found = estimate(Sums.counted(judged, defects), z)
    assert found is not None
    return found.lower


def exact_coverage(judged: int, method: str) -> tuple[float, float]:
    """Return the worst coverage over all rates with equal weights, and the mean width of the interval; exact."""
    limits = [METHODS.get(method, _shown)(judged, defects) for defects in range(judged + 1)]
    worst, width, steps = 1.0, 0.0, 400
    for step in range(1, steps):
        rate = step / steps
        chances = exact(rate, judged)
        worst = min(worst, sum(one for one, (low, high) in zip(chances, limits, strict=True) if low <= rate <= high))
        width += sum(one * (high - low) for one, (low, high) in zip(chances, limits, strict=True)) / (steps - 1)
    return worst, width


def shown() -> Iterator[tuple[str, str]]:
    """Yield the intervals that people see for few answers."""
    for defects, judged in ((1, 1), (3, 3), (3, 4), (4, 5), (5, 6), (9, 10), (18, 20), (28, 30), (0, 10), (0, 100)):
        low, high = _shown(judged, defects)
        yield f"{defects} of {judged}", f"{100 * low:.3g} % to {100 * high:.3g} %"


def _shown(judged: int, defects: int) -> tuple[float, float]:
    found = estimate(Sums.counted(judged, defects))
    assert found is not None
    return found.lower, found.upper
