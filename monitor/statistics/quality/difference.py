"""The difference of two shares, with an interval.

It is the hybrid score interval, number 10 of the eleven that Newcombe compares ("Interval estimation for the difference
between independent proportions", Statistics in Medicine 17, 1998, p. 873): Wilson's limits of both shares, combined as
two legs of a triangle. It is valid at shares near 0, where the textbook interval fails.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from monitor.statistics.rates import score_interval


class Difference(NamedTuple):
    """The second share minus the first, -1 to 1, with limits."""

    value: float
    lower: float
    upper: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.lower > 0 or self.upper < 0


def difference(first: tuple[int, int], second: tuple[int, int], z: float) -> Difference | None:
    """Compare `(defects, scored)` before and after; None if nothing was scored on one side.

    `z` is half the width of the interval in standard deviations. The samples are treated as independent; for the same
    questions before and after, which mostly fail together, the interval is somewhat too wide.
    """
    if not first[1] or not second[1]:
        return None
    before, after = first[0] / first[1], second[0] / second[1]
    (low_before, high_before), (low_after, high_after) = wilson(*first, z), wilson(*second, z)
    value = after - before
    return Difference(
        value,
        value - math.hypot(after - low_after, high_before - before),
        value + math.hypot(high_after - after, before - low_before),
    )


def wilson(defects: int, judged: int, z: float) -> tuple[float, float]:
    """Return the score interval of one share (Wilson, J. of the American Statistical Association 22, 1927, p. 209)."""
    return score_interval(defects / judged, judged, z)
