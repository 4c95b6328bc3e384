"""The difference of two shares, with its interval.

The interval is the hybrid score interval, number 10 of the eleven that Newcombe compares ("Interval estimation for the
difference between independent proportions", Statistics in Medicine 17, 1998, p. 873): Wilson's limits of both shares,
put together as two legs of a triangle. It holds at shares near 0, where the textbook's interval fails.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from monitor.statistics.rates import score_interval


class Difference(NamedTuple):
    """How much greater the second share is than the first, -1 to 1, with its limits."""

    value: float
    lower: float
    upper: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.lower > 0 or self.upper < 0


def difference(first: tuple[int, int], second: tuple[int, int], z: float) -> Difference | None:
    """Of `(defects, judged)` before and after; None where nothing was judged on one side.

    `z`: half the width of the interval in standard deviations. The two samples count as independent; of the same
    questions before and after, which mostly fail together, the interval is rather too wide.
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
    """The score interval of one share (Wilson, Journal of the American Statistical Association 22, 1927, p. 209)."""
    return score_interval(defects / judged, judged, z)
