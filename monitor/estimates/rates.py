"""The defect rate of all traffic, with its limits, from a weighted sample: sums that add, and one estimate.

The limits are those of a gamma distribution with matched moments (Fay and Feuer, Statistics in Medicine 16, 1997,
p. 791) in the cube-root approximation of Wilson and Hilferty (PNAS 17, 1931, p. 684), which PromQL can compute as well.
Wilson's score interval is not used: its lower limit, with few judged, fires up to 35 times as often as promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Z_95 = 1.959964
"""Half the width, in standard deviations, of a two-sided interval that holds 95 times in 100."""

_Z_POWER = 1.281552  # 90 times in 100


@dataclass(frozen=True, slots=True)
class Sums:
    """What a sample says about a defect rate. Sums over time, over replicas and over slices simply add.

    `judged` and `defects` are counts; `weight` and `defect_weight` sum 1 / probability over all judged and over the
    defects; `defect_weight_squares` sums its square over the defects.
    """

    judged: int = 0
    defects: int = 0
    weight: float = 0.0
    defect_weight: float = 0.0
    defect_weight_squares: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.judged + other.judged,
            self.defects + other.defects,
            self.weight + other.weight,
            self.defect_weight + other.defect_weight,
            self.defect_weight_squares + other.defect_weight_squares,
        )

    @classmethod
    def of(cls, weight: float, *, defect: bool) -> Sums:
        """One judged answer. Raises `ValueError` unless `weight` is positive and finite."""
        if not (weight > 0 and math.isfinite(weight)):
            raise ValueError(f"{weight!r} is not a weight: it is 1 / probability, positive and finite")
        return cls(1, 1, weight, weight, weight * weight) if defect else cls(1, 0, weight)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A defect rate of all traffic, 0 <= lower <= rate <= upper <= 1, and how much it rests on.

    `effective_defects` is the number of equally weighted defects that would leave the same uncertainty.
    """

    rate: float
    lower: float
    upper: float
    judged: int
    defects: int
    effective_defects: float


def estimate(sums: Sums, z: float) -> Estimate | None:
    """The weighted rate with two one-sided limits, each missed with the normal tail probability of `z` (>= 0) at most.

    None where nothing was judged: no data is not a rate of 0.
    """
    if z < 0:
        raise ValueError(f"z must be 0 or more, got {z}")
    if sums.judged == 0:
        return None
    # A sum of weights is kept over years, so it may differ from its parts in the last digit.
    rate = min(sums.defect_weight / sums.weight, 1.0)
    effective = sums.defect_weight**2 / sums.defect_weight_squares if sums.defects else 0.0
    lower = rate * _cube(effective, -z) if sums.defects else 0.0

    # The next answer to be judged might have been a defect: one that weighs as much as answers, and as defects, do.
    pseudo = sums.weight / sums.judged
    if sums.defects:
        pseudo = max(pseudo, sums.defect_weight_squares / sums.defect_weight)
    with_pseudo = sums.defect_weight + pseudo
    effective_with_pseudo = with_pseudo**2 / (sums.defect_weight_squares + pseudo**2)
    upper = min(with_pseudo / sums.weight * _cube(effective_with_pseudo, z), 1.0)
    return Estimate(rate, min(lower, rate), max(upper, rate), sums.judged, sums.defects, effective)


def _cube(effective: float, z: float) -> float:
    """The Wilson-Hilferty factor between a count and its limit `z` standard deviations away; never below 0."""
    return max(1 - 1 / (9 * effective) + z / (3 * math.sqrt(effective)), 0.0) ** 3


def interval_95(sums: Sums) -> Estimate | None:
    """The estimate as people are shown it, with limits that hold together in 95 cases of 100."""
    return estimate(sums, Z_95)


def doubled(threshold: float) -> float:
    """The rate that stands for "clearly above": twice the threshold, or halfway from it to 1 where that is less."""
    return min(2 * threshold, (1 + threshold) / 2)


def judged_to_tell(threshold: float, rate: float, z: float) -> int:
    """How many must be judged until a true `rate` above `threshold` shows in the lower limit at `z`, 9 times in 10.

    A planning figure for equal weights, from the square-root approximation of a Poisson count: within about a tenth of
    exact figures for rates up to 20 %, on the safe side above. Both are shares, 0 < threshold < rate <= 1.
    """
    if not 0 < threshold < rate <= 1:
        raise ValueError(f"needs 0 < threshold < rate <= 1, got threshold {threshold} and rate {rate}")
    return math.ceil(((z + _Z_POWER) / 2 / (math.sqrt(rate) - math.sqrt(threshold))) ** 2)
