"""The last eleven days of one app and evaluator in hours (UTC), and which of them are excluded from baselines.

At the end of each hour it is decided, once, whether the hour, the six hours and the day that end there were an
incident. So replaying a history in chronological order restores exactly the state of the process that wrote it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from monitor.statistics.change import (
    BASELINE_DAYS,
    DAYS_LOST,
    HOURS_LOST,
    WINDOWS,
    ChangeWindow,
    RateChange,
    change,
    is_incident,
    spread,
)
from monitor.statistics.rates import Sums

_HOUR, _DAY = 3600, 24  # seconds; hours
_NONE = Sums()
_KEPT = (BASELINE_DAYS + 4) * _DAY  # hours: the baseline that ended three days ago, which may begin within a day
REMEMBERED = float(20 * 86400)
"""Seconds of history that restore the state completely: the hours kept, and the baselines that decided the oldest of
them."""


@dataclass(frozen=True, slots=True)
class _Baseline:
    sums: Sums
    spread: float


class Blocks:
    """Sums by hour. An hour is named by its end, in hours since 1970. Times are wall-clock seconds."""

    __slots__ = ("_bad_days", "_bad_hours", "_baselines", "_bases", "_ended", "_first", "_hours", "_settled")

    def __init__(self) -> None:
        self._hours: dict[int, Sums] = {}
        self._bad_hours: set[int] = set()
        self._bad_days: set[int] = set()
        self._first = 0
        self._settled = 0
        self._baselines: dict[float, _Baseline] = {}
        self._bases: dict[int, Sums] = {}
        self._ended: dict[tuple[int, int], Sums] = {}

    def add(self, at: float, sums: Sums) -> None:
        """Count results of the second `at`. A late result changes its hour, but no decision about that hour."""
        end = math.floor(at / _HOUR) + 1
        if not self._first:
            self._first, self._settled = end, end - 1
        self.settle(at)
        if end <= self._settled - _KEPT:
            return
        self._first = min(self._first, end)
        known = self._hours.get(end)
        self._hours[end] = sums if known is None else known + sums
        if end <= self._settled:
            self._ended.clear()

    def settle(self, now: float) -> None:
        """Decide the hours that have ended by `now`. If the clock was set back, decisions stay."""
        last = math.floor(now / _HOUR)
        if not self._first or last <= self._settled:
            return
        if last - self._settled > _KEPT:  # nothing was scored for longer than is kept
            self._settled = last - _KEPT
        while self._settled < last:
            self._settle(self._settled + 1)
        for end in [end for end in self._hours if end <= last - _KEPT]:
            del self._hours[end]
        for block in [block for block in self._ended if block[0] <= last - _KEPT]:
            del self._ended[block]
        self._bad_hours = {end for end in self._bad_hours if end > last - _KEPT}
        self._bad_days = {end for end in self._bad_days if end > last - _KEPT}

    def changes(self, day: dict[float, Sums], now: float) -> dict[float, RateChange]:
        """Compare the windows that end `now` with their baselines, by length; leave out those that cannot be compared.

        `day` has the sums of the windows up to a day, by length. Longer ones are whole hours.
        """
        self.settle(now)
        found = {}
        for window in WINDOWS:
            sums = day.get(window.length)
            one = self._change(window, sums if sums is not None else self._sum(self._settled, window.length))
            if one is not None:
                found[window.length] = one
        return found

    def clean_days(self, now: float) -> int:
        """Return the number of day blocks in the baseline that ended a day ago."""
        self.settle(now)
        return sum(1 for _ in self._ends(_DAY, _DAY, self._bad_days))

    def _settle(self, end: int) -> None:
        self._settled = end
        self._baselines, self._bases = {}, {}
        changes = {}
        for window in WINDOWS:
            hours = int(window.length) // _HOUR
            if hours < _DAY or (hours == _DAY and end % _DAY == 0):
                one = self._change(window, self._sum(end, window.length))
                if one is not None:
                    changes[window.length] = one
        if is_incident(changes, HOURS_LOST):
            self._bad_hours.add(end)
        if is_incident(changes, DAYS_LOST):
            self._bad_days.add(end)

    def _change(self, window: ChangeWindow, now: Sums) -> RateChange | None:
        if now.weight <= 0:
            return None
        baseline = self._baselines.get(window.length)
        if baseline is None:
            gap, block = int(window.gap) // _HOUR, int(window.block) // _HOUR
            bad = self._bad_hours if block < _DAY else self._bad_days
            blocks = [self._sum(end, window.block) for end in self._ends(gap, block, bad)]
            baseline = self._baselines[window.length] = _Baseline(self._base(gap), spread(blocks))
        return change(now, baseline.sums, baseline.spread)

    def _base(self, gap: int) -> Sums:
        """Sum the clean hours of the baseline that ended `gap` hours ago."""
        base = self._bases.get(gap)
        if base is None:
            hours = self._hours
            base = Sums.total(hours[end] for end in self._ends(gap, 1, self._bad_hours) if end in hours)
            self._bases[gap] = base
        return base

    def _ends(self, gap: int, block: int, bad: set[int]) -> Iterable[int]:
        """Yield the ends of a baseline's blocks, at multiples of their length, back to the first block with results."""
        last = self._settled - gap
        for end in range(last // block * block, last - BASELINE_DAYS * _DAY, -block):
            if end < self._first:
                return
            if end not in bad:
                yield end

    def _sum(self, end: int, seconds: float) -> Sums:
        count = int(seconds) // _HOUR
        if count == 1:
            return self._hours.get(end, _NONE)
        if end % count or end > self._settled:
            return self._added(end, count)
        known = self._ended.get((end, count))  # a baseline's block is read again in every hour of a week
        if known is None:
            known = self._ended[end, count] = self._added(end, count)
        return known

    def _added(self, end: int, count: int) -> Sums:
        return Sums.total(self._hours[hour] for hour in range(end - count + 1, end + 1) if hour in self._hours)
