"""Keeps sums over sliding windows, for every app and evaluator, in memory that does not grow with traffic.

Three rows of buckets hold the same results, finer for newer ones: 10 seconds for the last ten minutes, one minute for
two hours, ten minutes for the longest window. A window is read from the finest row that covers it. If rates are
compared with the week before, `Blocks` holds eleven more days in hours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.statistics.blocks import REMEMBERED, Blocks
from monitor.statistics.change import DAY, WINDOWS, RateChange
from monitor.statistics.rates import Sums

_FINE: tuple[tuple[int, int], ...] = ((10, 600), (60, 7200))  # seconds in a bucket, seconds in the row
_COARSE = 600

Key = tuple[str, str]
_Row = dict[int, Sums]


@dataclass(frozen=True, slots=True)
class _Tier:
    """The shape of a row: seconds per bucket, and number of buckets."""

    seconds: int
    count: int


class Windows:
    """Rolling sums by (app, evaluator).

    `app` must be a capped label value: each pair takes up to a few hundred buckets. Any window up to `longest` seconds
    can be read. It counts whole buckets, so it reaches back a little further than asked: at most 10 s for windows up to
    10 minutes, 1 minute up to 2 hours, 10 minutes above.

    With `baselines`, `changes` compares with the week before; that takes about 80 kB more per pair.
    """

    def __init__(self, clock: Clock, longest: float = DAY, *, baselines: bool = False) -> None:
        if longest < _FINE[0][0]:
            raise ValueError(f"the longest window must be {_FINE[0][0]} s or more, got {longest}")
        if baselines and longest < DAY:
            raise ValueError(f"with baselines the longest window must be a day or more, got {longest} s")
        self.longest = longest
        self.remembered = REMEMBERED if baselines else longest
        """How far back, in seconds, `add_sums` can use a history."""
        self._clock = clock
        spans = [(seconds, span) for seconds, span in _FINE if span < longest]
        last = next((seconds for seconds, span in _FINE if span >= longest), _COARSE)
        spans.append((last, math.ceil(longest)))
        self._tiers = tuple(_Tier(seconds, math.ceil(span / seconds) + 1) for seconds, span in spans)
        self._rows: dict[Key, tuple[_Row, ...]] = {}
        self._blocks: dict[Key, Blocks] | None = {} if baselines else None

    def add(self, app: str, evaluator: str, at: float, weight: float, defect: bool) -> None:
        """Count one result at the wall-clock second `at`.

        A time in the future counts as now; a result older than the longest window is ignored. Raises `ValueError` for a
        weight that is not positive and finite.
        """
        self.add_sums(app, evaluator, at, Sums.of(weight, defect=defect))

    def add_sums(self, app: str, evaluator: str, at: float, one: Sums) -> None:
        """Count results that are already summed up, such as those of a minute from the history, all at `at`.

        Add a history in chronological order. Results older than the longest window count only by the hour and only for
        baselines.
        """
        now = self._clock.now()
        at = min(at, now)
        if at < now - self.remembered:
            return
        if self._blocks is not None:
            self._blocks.setdefault((app, evaluator), Blocks()).add(at, one)
        rows = self._rows_of((app, evaluator))
        if at < now - self.longest:
            return
        for tier, row in zip(self._tiers, rows, strict=True):
            index = math.floor(at / tier.seconds)
            keep_from = math.floor(now / tier.seconds) - tier.count + 1
            if index < keep_from:
                continue
            known = row.get(index)
            if known is None:
                for old in [index for index in row if index < keep_from]:
                    del row[old]
                row[index] = one
            else:
                row[index] = known + one

    def sums(self, app: str, evaluator: str, window_seconds: float, now: float) -> Sums:
        """Return the sums of the window that ends `now`; all 0 for a pair never seen.

        Raises `ValueError` unless the window is above 0 and at most `longest`.
        """
        if not 0 < window_seconds <= self.longest:
            raise ValueError(f"a window must be above 0 and at most {self.longest} s, got {window_seconds}")
        rows = self._rows.get((app, evaluator))
        if rows is None:
            return Sums()
        tier, row = next(
            (tier, row)
            for tier, row in zip(self._tiers, rows, strict=True)
            if (tier.count - 1) * tier.seconds >= window_seconds
        )
        oldest = math.floor((now - window_seconds) / tier.seconds)
        return Sums.total(part for index, part in row.items() if index >= oldest)

    def usual(self, app: str, evaluator: str, now: float) -> float:
        """Return `typical_weight` of the last day, or of the longest window if that is shorter, for `estimate`.

        0 for a pair without scores.
        """
        return self.sums(app, evaluator, min(self.longest, DAY), now).typical_weight

    def series(self, app: str, evaluator: str, step: float, count: int, now: float) -> list[Sums]:
        """Return the sums of `count` steps of `step` seconds, oldest first; the last one is still running.

        Steps begin at multiples of `step`. Raises `ValueError` if so much, or such small steps, is not kept.
        """
        fitting = [number for number, tier in enumerate(self._tiers) if (tier.count - 1) * tier.seconds >= step * count]
        if not fitting or step % self._tiers[fitting[0]].seconds:
            raise ValueError(f"{count} steps of {step} s are not kept")
        found = [Sums()] * count
        rows = self._rows.get((app, evaluator))
        if rows is None:
            return found
        seconds, first = self._tiers[fitting[0]].seconds, math.floor(now / step) - count + 1
        for index, part in rows[fitting[0]].items():
            at = math.floor(index * seconds / step) - first
            if 0 <= at < count:
                found[at] += part
        return found

    def changes(self, app: str, evaluator: str, now: float) -> tuple[dict[float, RateChange], int]:
        """Compare the windows of `change.WINDOWS` with their baselines, by length; also return the baseline's days.

        Windows that cannot be compared are left out; without `baselines`, all of them.
        """
        blocks = (self._blocks or {}).get((app, evaluator))
        if blocks is None:
            return {}, 0
        up_to_a_day = {
            window.length: self.sums(app, evaluator, window.length, now) for window in WINDOWS if window.length <= DAY
        }
        return blocks.changes(up_to_a_day, now), blocks.clean_days(now)

    def keys(self) -> tuple[Key, ...]:
        """Return every (app, evaluator) with a result ever counted, in alphabetical order."""
        return tuple(sorted(self._rows))

    def _rows_of(self, key: Key) -> tuple[_Row, ...]:
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = tuple({} for _ in self._tiers)
        return rows
