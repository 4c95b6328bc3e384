"""Limits events per period: a token bucket, a calendar cap and a pacer. Pure: the caller passes the time in.

`TokenBucket` bounds any stretch of time and allows a burst, `CalendarCap` bounds each hour or day of the calendar,
`Pacer` spaces events evenly. `now` is in seconds: of a monotonic clock for the bucket and the pacer, since 1970 for the
cap of a calendar period.
"""

from __future__ import annotations

import math
from typing import Final

THINNEST: Final = 0.001
"""The smallest part of its probability that `TokenBucket.room` leaves a case. At 0 a case could not be weighted."""

_BURST: Final = 1 / 6
_ROUNDING: Final = 1 + 1e-12


class TokenBucket:
    """A bucket that refills evenly with `limit` tokens per `period` and holds a sixth of them, or at least `least`.

    A caller either takes whole tokens and is refused if there are none (`try_take`), or lowers the probability of its
    events before the bucket is empty, so that every event keeps a known chance (`room`, then `take`). While the bucket
    is at least half full, probabilities stay as they are; below that they are multiplied by level / half.

    Args:
        limit: tokens per period; may be set at any time.
        now: seconds, as in `refill`.
        period: seconds.
        least: the smallest size. With `room` and at least 2, the expectation never exceeds the limit plus `size`,
            except by what `THINNEST` leaves events that come more than a thousand times too often.
        filled: the part of `size` that is filled at the start.
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
        """The tokens of a full bucket."""
        return max(self.limit * _BURST, self._least)

    def refill(self, now: float) -> None:
        """Add the tokens for the time since the last call."""
        self.level = min(self.level + self.limit * max(now - self._refilled, 0.0) / self._period, self.size)
        self._refilled = now

    def restore(self, level: float, now: float, away: float) -> None:
        """Continue from the `level` that was left `away` seconds before `now`."""
        self.level, self._refilled = min(level, self.size), now - away
        self.refill(now)

    def scale(self, factor: float) -> None:
        """Multiply the limit and the remaining tokens by `factor`."""
        self.limit *= factor
        self.level = min(self.level * factor, self.size)

    def try_take(self, now: float, tokens: float = 1.0) -> bool:
        """Refill, then take `tokens` if there are enough. Return whether there were."""
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
        """Take tokens, as far as there are any; for an event with a probability, take that."""
        self.level = max(self.level - tokens, 0.0)


class CalendarCap:
    """Allows at most `limit` in each calendar period (UTC), of which this process may have a `share`.

    Call `turn` before the other methods. A wall clock that is set back does not reopen a period. `limit` is for all
    processes together; `period` is 3600 seconds for hours or 86400 for days.
    """

    def __init__(self, limit: float, period: float) -> None:
        self._of_all = limit
        self._period = period
        self._share = 1.0
        self._begun = False
        self._used_by_all: float | None = 0.0
        self.index = -1
        """The number of the current period since 1970."""
        self.limit = 0.0
        """This process's part of the limit in the current period."""
        self.used = 0.0

    def restore(self, index: int, used: float, used_by_all: float | None = None) -> None:
        """Continue from what was `used` in the period `index`, before the first `turn`.

        With a value of `used_by_all`, it continues as if it had run all the time, whatever the share is by now. None:
        as if the share had always been the one of the first `turn`.
        """
        self.index, self.used = index, used
        self._used_by_all = None if used_by_all is None else max(used_by_all, used)
        self._begun = False

    def used_by_all(self, more: float = 0.0) -> float | None:
        """Return what all processes have used once this one has used `more`.

        They are assumed to have used as much of their shares as this one of its own. The result does not depend on the
        current share or limit, so it can be restored with different ones. None before the first `turn` if unknown.
        """
        return None if self._used_by_all is None else self._used_by_all + more / self._share

    def index_of(self, now: float) -> int:
        """Return the number of the period of `now`."""
        return int(now // self._period)

    def turn(self, now: float, share: float = 1.0) -> None:
        """Move to the period of `now`. `share`, above 0, may change at any time."""
        index = self.index_of(now)
        if index > self.index:
            self.index, self.used, self._used_by_all, self._begun = index, 0.0, 0.0, False
        if not self._begun or share != self._share:
            self._begun = True
            if self._used_by_all is None:
                self._used_by_all = self.used / share
            left = (self._of_all - self._used_by_all) * share
            self.limit = self.used + left if left > 0 else min(self.used, self._of_all * share)
        self._share = share

    @property
    def ends(self) -> float:
        """The wall-clock second at which the next period begins."""
        return (self.index + 1) * self._period

    def fits(self, amount: float) -> bool:
        """Return whether `amount` more may be used in the current period."""
        return self.used + amount <= self.limit * _ROUNDING

    def use(self, amount: float) -> None:
        """Use `amount` of the current period; a negative amount gives back."""
        self.used += amount
        if self._used_by_all is not None:
            self._used_by_all += amount / self._share


class Pacer:
    """Spaces events evenly, `per_minute` of them; None means no limit."""

    def __init__(self, per_minute: float | None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = -math.inf

    def turn(self, now: float, share: float = 1.0) -> float:
        """Take the next free slot and return the seconds (>= 0) until it. This process has a `share` (above 0)."""
        mine = max(self._next, now)
        self._next = mine + self._interval / share
        return mine - now
