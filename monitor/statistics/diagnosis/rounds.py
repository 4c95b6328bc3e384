"""One round of tests: the remaining cases, in blocks of time, and the factors that they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from monitor.statistics.diagnosis.cases import WeighedCase, tally, unit_squares
from monitor.statistics.diagnosis.excess import Mix, Sides, mix

_BLOCKS, _BAD_IN_BLOCK = 4, 10  # enough to undo a rollout; enough in each to count


def time_blocks(rows: Sequence[WeighedCase]) -> list[float]:
    """Return the timed weights of cases in chronological order: weight times the rate of its block over that of all.

    The blocks, at most four, have equal numbers of bad cases.
    """
    bad = sum(row.bad for row in rows)
    count = max(1, min(_BLOCKS, bad // _BAD_IN_BLOCK))
    blocks: list[list[WeighedCase]] = [[]]
    seen = 0
    for row in rows:
        blocks[-1].append(row)
        seen += row.bad
        if row.bad and len(blocks) < count and seen * count >= bad * len(blocks):
            blocks.append([])
    rate = tally(rows).rate
    return [row.weight * of_block / rate for block in blocks for of_block in (tally(block).rate,) for row in block]


class TestedFactor(NamedTuple):
    """A factor that was tested: its number, z, share of the rise, and the positions of its cases."""

    number: int
    z: float
    share: float
    having: frozenset[int]


class Round(NamedTuple):
    """The remaining cases, now and before, the positions of each tried factor's cases, and sums."""

    now: list[WeighedCase]
    past: list[WeighedCase]
    timed: list[float]
    having: dict[int, list[int]]
    past_having: dict[int, list[int]]
    every: Sides

    def sides(self, number: int) -> Sides:
        """Return the sums of the cases with a tried factor."""
        own = self.having[number]
        now = tally([self.now[index] for index in own], [self.timed[index] for index in own])
        return Sides(now, tally([self.past[index] for index in self.past_having.get(number, ())]))

    def mix(self, number: int) -> Mix | None:
        """Return whether a factor has become more frequent and was always worse."""
        squares = unit_squares(self.now[index] for index in self.having[number])
        past_squares = unit_squares(self.past[index] for index in self.past_having.get(number, ()))
        return mix(self.sides(number), self.every, squares=squares, past_squares=past_squares)
