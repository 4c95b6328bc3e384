"""Finds groups of answers that are significantly worse than the rest, such as those given the same document.

As in a diagnosis, the test is the exact tail on effective counts of sessions, in blocks of time, so that a group is not
found worse only because all answers of its hours were. One level is shared out among the groups that are tried
(Bonferroni). Then the worst group's answers are set aside and the rest is tested again, so that a group is not found
worse only because it often occurs together with a bad one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from monitor.statistics.change import gamma_ratio_z
from monitor.statistics.diagnosis.cases import CaseSums, Factor, JudgedCase, Prepared, WeighedCase, sums_of, tally
from monitor.statistics.diagnosis.excess import HIGHEST, LEAST_UNITS
from monitor.statistics.diagnosis.rounds import time_blocks
from monitor.statistics.rates import Sums

FALSE_FINDINGS: Final = 0.05
"""The probability that a comparison calls any group significantly worse although none is."""

LEAST_CASES: Final = 5
"""The answers that a group needs to be compared."""

_MOST: Final = 0.9  # of the answers: above it, too little is left to compare with
_FOUND_AT_MOST: Final = 20
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class ComparedGroup:
    """A group of answers.

    `sums` are the sums of its rate. `z`: how much worse it is than the rest, in standard deviations; None if it was not
    compared. `surely_worse`: by more than chance explains. `beside`: the surely worse group to which most of its bad
    answers also belong, if it is no worse without them.
    """

    factor: Factor
    sums: Sums
    z: float | None
    surely_worse: bool
    beside: Factor | None


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """All groups, the sums of all answers, how many groups were compared, and the z of significantly worse ones."""

    groups: tuple[ComparedGroup, ...]
    whole: Sums
    tried: int
    limit: float


def compare_groups(cases: Iterable[JudgedCase]) -> GroupComparison:
    """Compare the answers of each group with all others; the groups of an answer are its factors.

    Raises `ValueError` for a weight that is not positive and finite, or a time that is not finite.
    """
    prepared = Prepared(cases)
    having, number = _having(prepared), len(prepared.rows)
    tried = {key: own for key, own in having.items() if LEAST_CASES <= len(own) <= _MOST * number}
    limit = corrected_z(len(tried))
    first = _tested(prepared.rows, tried)
    found = _found(prepared, tried, first, limit)
    bad = {key: {index for index in having[key] if prepared.rows[index].bad} for key in found}
    groups = []
    for key, own in having.items():
        z = first.get(key, -math.inf) if key in tried else None
        beside = None
        if z is not None and z >= limit and key not in found:
            mine = {index for index in own if prepared.rows[index].bad}
            company = min(found, key=lambda other: (-len(mine & bad[other]), prepared.factors[other]))
            beside = prepared.factors[company]
        rows = [prepared.rows[index] for index in own]
        groups.append(ComparedGroup(prepared.factors[key], sums_of(rows), z, key in found, beside))
    return GroupComparison(tuple(groups), sums_of(prepared.rows), len(tried), limit)


def group_sums(cases: Iterable[JudgedCase]) -> dict[Factor, Sums]:
    """Return the sums of each group. Raises `ValueError` as `compare_groups` does."""
    prepared = Prepared(cases)
    return {
        prepared.factors[number]: sums_of([prepared.rows[index] for index in own])
        for number, own in _having(prepared).items()
    }


def _having(prepared: Prepared) -> dict[int, list[int]]:
    """Return the positions of the cases of each group."""
    having: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(prepared.rows):
        for number in row.factors:
            having[number].append(index)
    return having


def corrected_z(tried: int, *, sides: int = 1) -> float:
    """Return the z at which any of `tried` tests is false with the probability `FALSE_FINDINGS`."""
    return _NORMAL.inv_cdf(1 - FALSE_FINDINGS / sides / max(tried, 1))


def _found(
    prepared: Prepared, tried: Mapping[int, Sequence[int]], first: Mapping[int, float], limit: float
) -> list[int]:
    """Return the groups that are significantly worse, even without the answers of the groups found before them."""
    rows, factors = prepared.rows, prepared.factors
    found: list[int] = []
    left, tested = set(range(len(rows))), dict(first)
    while len(found) < _FOUND_AT_MOST:
        best = min(tested, key=lambda key: (-tested[key], factors[key]), default=None)
        if best is None or tested[best] < limit:
            return found
        found.append(best)
        left.difference_update(tried[best])
        kept = sorted(left)
        place = {index: at for at, index in enumerate(kept)}
        within = {
            key: own
            for key, positions in tried.items()
            if key not in found and len(own := [place[i] for i in positions if i in left]) >= LEAST_CASES
        }
        tested = _tested([rows[index] for index in kept], within)
    return found


def _tested(rows: Sequence[WeighedCase], tried: Mapping[int, Collection[int]]) -> dict[int, float]:
    """Return the z of the groups that have bad answers from enough sessions."""
    every = tally(rows)
    if not every.bad:
        return {}
    timed = time_blocks(rows)
    whole = tally(rows, timed)
    found = {}
    for key, positions in tried.items():
        if sum([rows[index].bad for index in positions]) < LEAST_UNITS:
            continue
        own = tally([rows[index] for index in positions], [timed[index] for index in positions])
        if own.units >= LEAST_UNITS:
            found[key] = worse_z(own, whole)
    return found


def worse_z(own: CaseSums, every: CaseSums) -> float:
    """Return how much worse some answers are than all others, in standard deviations. `own` must have bad answers."""
    out = max(every.bad_weight - own.bad_weight, 0.0)
    out_unit = (every.bad_squares - own.bad_squares) / out if out > 0 else 0.0
    out_unit = out_unit if out_unit > 0 else every.unit_weight
    count = out / out_unit + 1  # one more, since the rest could otherwise look like 0
    rate_out = (out + out_unit) / max(every.timed - own.timed, out_unit)
    expected = min(rate_out * own.timed / own.weight, HIGHEST)
    good = max(own.weight - own.bad_weight, 0.0)
    bad_count = own.bad_weight**2 / own.bad_squares
    good_count = (good**2 / own.good_squares if own.good_squares > 0 else 0.0) + 1
    all_good = every.weight - every.bad_weight
    good_unit = every.good_squares / all_good if all_good > 0 else 0.0
    odds = own.bad_weight / (good + max(own.unit_weight, good_unit))
    return gamma_ratio_z(
        odds * (1 - expected) / expected, 1 / bad_count, 1 / good_count, 1 / count / (1 - expected) ** 2
    )
