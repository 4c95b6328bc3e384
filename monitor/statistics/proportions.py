"""The interval of one share."""

from __future__ import annotations

import math


def score_interval(share: float, number: float, z: float) -> tuple[float, float]:
    """The score interval of a share of `number` (Wilson, Journal of the American Statistical Association 22, 1927).

    See its page 209. `number` (> 0) may be an effective one, which is not whole; `z` is half the width in standard
    deviations.
    """
    shrink = 1 + z * z / number
    middle = (share + z * z / (2 * number)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return max(middle - half, 0.0), min(middle + half, 1.0)
