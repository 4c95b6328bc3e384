"""Other 95 % intervals of a share with equal weights, for comparison with the monitor's, which uses none of them.

Clopper and Pearson (Biometrika 26, 1934, p. 404) and mid-P (Fay and Kim, Biometrical Journal 59, 2017) invert the
binomial test; Jeffreys' interval has the quantiles of a beta distribution (Brown, Cai and DasGupta, Statistical Science
16, 2001, p. 101).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache

TAIL = 0.025
_STEPS = 50
"""How many times the interval from 0 to 1 is halved in the search for a limit."""

Interval = Callable[[int, int], tuple[float, float]]
"""A function from the numbers of judged answers and of defects to the two limits."""


def clopper_pearson(judged: int, defects: int) -> tuple[float, float]:
    """Return the limits at which at least, or at most, this many defects have the probability `TAIL`."""
    return _inverted(judged, defects, 1.0)


def mid_p(judged: int, defects: int) -> tuple[float, float]:
    """Return the same limits, with the probability of exactly this many defects counted by half."""
    return _inverted(judged, defects, 0.5)


def jeffreys(judged: int, defects: int) -> tuple[float, float]:
    """Return quantiles of the beta distribution with half a defect and half a good answer added."""
    a, b = defects + 0.5, judged - defects + 0.5
    low = 0.0 if defects == 0 else _root(lambda rate: beta_share(a, b, rate) - TAIL)
    high = 1.0 if defects == judged else _root(lambda rate: beta_share(a, b, rate) - (1 - TAIL))
    return low, high


METHODS: Mapping[str, Interval] = {"Clopper-Pearson": clopper_pearson, "mid-P": mid_p, "Jeffreys": jeffreys}


def beta_share(a: float, b: float, x: float) -> float:
    """Return the share of a beta distribution below x, 0 <= x <= 1, by its continued fraction (Lentz's method)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_share(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    upper, lower, found = 1.0, 1 / (1 - (a + b) * x / (a + 1)), 1.0
    found = lower
    for m in range(1, 300):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            lower, upper = 1 / (1 + factor * lower), 1 + factor / upper
            found *= lower * upper
        if abs(lower * upper - 1) < 1e-14:
            break
    return front * found / a


def _inverted(judged: int, defects: int, own: float) -> tuple[float, float]:
    """Return the limits at which as many defects or more, or as many or fewer, have the probability `TAIL`.

    `own` is the weight of the probability of exactly as many.
    """
    mirrored = judged - defects
    low = 0.0 if defects == 0 else _root(lambda rate: _at_least(judged, defects, rate, own) - TAIL)
    high = 1.0 if mirrored == 0 else 1 - _root(lambda rate: _at_least(judged, mirrored, rate, own) - TAIL)
    return low, high


def _at_least(judged: int, defects: int, rate: float, own: float) -> float:
    return math.fsum(
        (own if number == defects else 1.0)
        * math.exp(_log_choose(judged, number) + number * math.log(rate) + (judged - number) * math.log1p(-rate))
        for number in range(defects, judged + 1)
    )


@cache
def _log_choose(judged: int, number: int) -> float:
    return math.lgamma(judged + 1) - math.lgamma(number + 1) - math.lgamma(judged - number + 1)


def _root(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
