"""Keeps sums of the last day by slice, in memory that does not grow with traffic. For the UI; no alert uses them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from monitor.clock import Clock
from monitor.statistics.change import DAY
from monitor.statistics.rates import Sums

BLOCK: Final = 3 * 3600
"""Seconds. A day is eight whole blocks and the current one, so it reaches back up to this much further."""

_BLOCKS: Final = math.ceil(DAY / BLOCK) + 1
Place = tuple[str, str]
"""App and evaluator."""

_Slice = tuple[str, str]  # name and value


class Sliced:
    """Rolling sums by app, evaluator, slice and value. The caller bounds the number of each.

    They start with the process: `since` is the wall-clock second from which they count.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now()
        self._sums: dict[Place, dict[_Slice, dict[int, Sums]]] = {}

    @property
    def since(self) -> float:
        """The start of the sums: a day ago, or the start of the process."""
        return max(self._began, self._clock.now() - DAY)

    def add(self, place: Place, name: str, value: str, at: float, one: Sums) -> None:
        """Count results on answers of the wall-clock second `at`.

        A time in the future counts as now; a time that is too old is ignored.
        """
        now = self._clock.now()
        block, oldest = math.floor(min(at, now) / BLOCK), self._oldest(now)
        if block < oldest:
            return
        row = self._sums.setdefault(place, {}).setdefault((name, value), {})
        if block not in row:
            for old in [other for other in row if other < oldest]:
                del row[old]
        row[block] = row.get(block, Sums()) + one

    def remove(self, app: str, name: str, value: str) -> None:
        """Forget a value of one app."""
        for place, rows in self._sums.items():
            if place[0] == app:
                rows.pop((name, value), None)

    def of(self, app: str, evaluator: str) -> Mapping[str, Mapping[str, Sums]]:
        """Return the sums of the last day by slice and value."""
        oldest = self._oldest(self._clock.now())
        found: dict[str, dict[str, Sums]] = {}
        for (name, value), row in self._sums.get((app, evaluator), {}).items():
            sums = sum((one for block, one in row.items() if block >= oldest), Sums())
            if sums.judged:
                found.setdefault(name, {})[value] = sums
        return found

    def _oldest(self, now: float) -> int:
        return math.floor(now / BLOCK) - _BLOCKS + 1
