"""At most so many a period: a token bucket, a calendar cap and a pacer. Pure: the caller passes the time in.

`TokenBucket` bounds any stretch of time and allows a burst, `CalendarCap` bounds each hour or day of the calendar,
`Pacer` spaces events evenly. `now` is in seconds: of a monotonic clock for the bucket and the pacer, since 1970 for the
cap of a calendar period.
"""

from __future__ import annotations

import math
from typing import Final

THINNEST: Final = 0.001
"""The smallest part of its probability that `TokenBucket.room` leaves to a case: with 0 it could not be weighted."""

_BURST: Final = 1 / 6
_ROUNDING: Final = 1 + 1e-12


class TokenBucket:
    """`limit` tokens each `period`, refilled evenly; holds a sixth of them, and at least `least`.

    A caller either takes whole tokens and is refused where there are none (`try_take`), or thins its events out before
    the bucket is empty, so that none is left without a known chance (`room`, then `take`): while the bucket is at least
    half full nothing happens, below that each event keeps the part of its probability that the level is of the half.

    Args:
        limit: tokens a period; may be set at any time.
        now: seconds, as in `refill`.
        period: seconds.
        least: tokens that it holds at least. With `room`, from 2 on the expectation never goes beyond the limit and
            `size`, except for what `THINNEST` leaves to events that come more than a thousand times too often.
        filled: the part of `size` that it holds at first.
    """

    def __init__(
        self, limit: float, now: float, *, period: float = 3600.0, least: float = 0.0, filled: float = 0.5
    ) -> None:
        self.limit = limit
        self._period = period
        self._least = least
        self._refilled = now
        self.level = self.size * filled

    @property
    def size(self) -> float:
        """Tokens when it is full."""
        return max(self.limit * _BURST, self._least)

    def refill(self, now: float) -> None:
        """Add the tokens of the time since the last call."""
        self.level = min(self.level + self.limit * max(now - self._refilled, 0.0) / self._period, self.size)
        self._refilled = now

    def scale(self, factor: float) -> None:
        """Multiply the limit by `factor`, and the tokens that are left."""
        self.limit *= factor
        self.level = min(self.level * factor, self.size)

    def try_take(self, now: float, tokens: float = 1.0) -> bool:
        """Refill, then take `tokens` if there are as many; whether there were."""
        self.refill(now)
        if self.level < tokens:
            return False
        self.level -= tokens
        return True

    @property
    def room(self) -> float:
        """The part of its probability that the next event keeps: `THINNEST` to 1."""
        return max(min(1.0, self.level / (self.size / 2)), THINNEST)

    def take(self, tokens: float) -> None:
        """Take tokens, as far as there are any: for an event with a probability, the probability."""
        self.level = max(self.level - tokens, 0.0)


class CalendarCap:
    """At most `limit` in each calendar period (UTC), of which this process may have a `share`.

    Call `turn` before the rest. A wall clock that is set back opens no period again.

    Args:
        limit: of all processes together.
        period: seconds that divide a day: 3600 for hours, 86400 for days.
    """

    def __init__(self, limit: float, period: float) -> None:
        self._of_all = limit
        self._period = period
        self._share = 1.0
        self.index = -1
        """The number of the current period since 1970."""
        self.limit = 0.0
        """The part of this process, in the current period."""
        self.used = 0.0

    def turn(self, now: float, share: float = 1.0) -> None:
        """Go to the period of `now`. `share`, above 0, may change at any time."""
        index = int(now // self._period)
        if index > self.index:
            self.index, self.used = index, 0.0
            self.limit = self._of_all * share
        elif share != self._share:
            # What all have left is what this process has left, by its share: all have used alike.
            self.limit = self.used + max(self.limit - self.used, 0.0) * share / self._share
        self._share = share

    @property
    def ends(self) -> float:
        """The wall-clock second at which the next period begins."""
        return (self.index + 1) * self._period

    def fits(self, amount: float) -> bool:
        """Whether `amount` more may be used in the current period."""
        return self.used + amount <= self.limit * _ROUNDING

    def use(self, amount: float) -> None:
        """Use `amount` of the current period; a negative amount gives back."""
        self.used += amount


class Pacer:
    """Spaces events evenly, `per_minute` of them; None: without a limit."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = -math.inf

    def turn(self, now: float, share: float = 1.0) -> float:
        """Take the next free place, where `share` (above 0) of them are this process's; seconds to wait, >= 0."""
        mine = max(self._next, now)
        self._next = mine + self._interval / share
        return mine - now
