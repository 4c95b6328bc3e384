"""A cap on judgements that thins cases out where it is near, and never leaves one without a known chance.

The bucket is refilled evenly and holds a sixth of what the cap allows. While it is at least half full nothing happens;
below that every case keeps the part of its probability that the level is of the half. So a burst is taken in whole, a
flood settles at what comes in, and what a case finds depends on the past alone.
"""

from __future__ import annotations

from typing import Final

THINNEST: Final = 0.001
"""The smallest part of its probability that a case keeps: of 0 nothing could be told."""

_PART = 1 / 6


class Bucket:
    """Room for `at_most` judgements, which may be set anew at any time, within `seconds`.

    Args:
        now: seconds of a monotonic clock, as in `refill`.
        least: judgements that it holds at least. From 2 on the expectation never goes beyond the cap and `size`, save
            by what `THINNEST` leaves to cases that come more than a thousand times too often.
    """

    def __init__(self, at_most: float, now: float, *, seconds: float = 3600.0, least: float = 0.0) -> None:
        self.at_most = at_most
        self._seconds = seconds
        self._least = least
        self._refilled = now
        self.level = self.size / 2

    @property
    def size(self) -> float:
        """How many judgements may be made at once, after a quiet time."""
        return max(self.at_most * _PART, self._least)

    def refill(self, now: float) -> None:
        """Time has passed."""
        self.level = min(self.level + self.at_most * max(now - self._refilled, 0.0) / self._seconds, self.size)
        self._refilled = now

    def scale(self, factor: float) -> None:
        """The cap is `factor` times what it was, and so is what it has saved up."""
        self.at_most *= factor
        self.level = min(self.level * factor, self.size)

    @property
    def room(self) -> float:
        """The part of its probability that the next case keeps: `THINNEST` to 1."""
        return max(min(1.0, self.level / (self.size / 2)), THINNEST)

    def take(self, probability: float) -> None:
        """A case was drawn with `probability`."""
        self.level = max(self.level - probability, 0.0)
