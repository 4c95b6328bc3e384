"""One search for the factors that explain a rise whose onset is known: rounds of tests.

Each factor is tested: are the answers with it worse, since the onset, than a rise common to all answers would make
them? One factor is reported, its cases are removed, and the rest is looked at again. The level of false findings is
shared out among the kinds of factors, and within a kind among its factors (Bonferroni).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from statistics import NormalDist
from typing import Final

from monitor.statistics.diagnosis.cases import Factor, Prepared, WeighedCase, sums_of, tally
from monitor.statistics.diagnosis.excess import (
    LEAST_UNITS,
    Sides,
    excess_z,
    own_rate,
    rise_share,
    share_interval,
    visible_share,
)
from monitor.statistics.diagnosis.onset import Step, find_step
from monitor.statistics.diagnosis.results import Diagnosis, FoundFactor, How
from monitor.statistics.diagnosis.rounds import Round, TestedFactor, time_blocks
from monitor.statistics.rates import estimate

FACTORS_AT_MOST: Final = 3
LEAST_BAD_BEFORE: Final = 5
"""The bad answers before the onset that a diagnosis needs."""

LEAST_CASES: Final = 5
"""The cases that a factor needs since the onset. With fewer no z can reach the limit."""

_MOST: Final = 0.9  # of the cases, and of their weight: above it, too little is left to compare with
_MOST_OF_PART: Final = 0.8  # of the cases of a part: above it, a pair is practically that part
_LEAST_SHARE, _LEAST_MIX_SHARE = 0.1, 0.15  # of the rise: smaller shares may be real, but are of no use
_PART_INSTEAD: Final = 0.7  # a part replaces a pair if its z is smaller by at most this
_LIKEWISE: Final = 2.0  # how much smaller the z of a factor with the same cases may be
_SAME_CASES: Final = 0.6  # of its bad cases
_SURELY_MORE: Final = 1.645  # the z to say that a found factor is only more frequent
_STILL: Final = 1.645  # the z that a factor named at an earlier look needs to stay: one test, with an error of 5 %
_NEARLY_ALL, _HARDLY_ANY = 0.9, 0.1
_NORMAL: Final = NormalDist()


class FactorSearch:
    """Rounds of tests, each without the cases of the factors found before.

    Args:
        prepared: all cases.
        before: the cases before the interval of the onset.
        after: those since the onset.
        step: the onset.
        searched: the cases in which the onset was searched.
        level: the chance that anything is named in a rise without a cause, 0 to 1; 0 names nothing.
        named: what earlier looks at the same rise named. It stays as long as its answers are still worse.
    """

    def __init__(
        self,
        prepared: Prepared,
        before: list[WeighedCase],
        after: list[WeighedCase],
        step: Step,
        searched: list[WeighedCase],
        *,
        level: float,
        named: Collection[Factor] = (),
    ) -> None:
        self._prepared = prepared
        self._pairs: dict[int, tuple[int, int]] = {}
        self._pair_numbers: dict[tuple[int, int], int] = {}
        self._step = step
        self._searched = searched
        self._level = level
        self._named = frozenset(named)
        wanted = self._pairable(after)
        self._after = [self._with_pairs(row, wanted) for row in after]
        self._before = [self._with_pairs(row, wanted) for row in before]
        self._whole = self._round(self._after, self._before, self._tried(self._after))
        self._limits = self._limit_by_kind()

    def diagnosis(self) -> Diagnosis:
        """Return the result of the search."""
        every = self._whole.every
        rise = every.now.bad_weight - every.now.weight * every.past.rate
        found = self._factors() if rise > 0 and every.past.bad >= LEAST_BAD_BEFORE else []
        return Diagnosis(
            state="found" if found else "nothing_stands_out",
            onset=self._step.onset,
            judged=every.now.cases,
            bad=every.now.bad,
            rate_before=estimate(sums_of(self._before)),
            rate_since=estimate(sums_of(self._after)),
            factors=tuple(found),
            switched=self._switched(),
            visible=visible_share(every, max(self._limits.values(), default=math.inf)),
        )

    def _factors(self) -> list[FoundFactor]:
        found: list[FoundFactor] = []
        left = self._whole
        while True:
            one = self._next(left)
            if one is None:
                return found
            found.append(one[1])
            number = one[0]
            if len(found) == FACTORS_AT_MOST:
                return found
            now = [row for row in left.now if number not in row.factors]
            past = [row for row in left.past if number not in row.factors]
            if not any(row.bad for row in now) or not any(row.bad for row in past):
                return found
            tried = {key: having for key, having in self._tried(now).items() if key in self._whole.having}
            left = self._round(now, past, tried)

    def _next(self, left: Round) -> tuple[int, FoundFactor] | None:
        """Return the factor that stands out most among the remaining cases, with its number."""
        worse = self._worse(left)
        if worse:
            best = self._part_instead(max(worse, key=self._order), worse)
            how: How = "more" if self._only_more(best) else "worse"
            return best.number, self._reported(best, how, self._likewise(best, worse, left))
        more = self._more(left)
        if more:
            best = max(more, key=self._order)
            return best.number, self._reported(best, "more", self._likewise(best, more, left))
        return None

    def _order(self, one: TestedFactor) -> tuple[float, Factor]:
        return one.z, self._prepared.factors[one.number]

    def _worse(self, left: Round) -> list[TestedFactor]:
        found = []
        for number, positions in left.having.items():
            if sum([left.now[index].bad for index in positions]) < LEAST_UNITS:
                continue
            own, factor = left.sides(number), self._prepared.factors[number]
            if own.now.units < LEAST_UNITS:
                continue
            z = excess_z(own, left.every, outcome=factor.outcome)
            if z < self._limit(factor):
                continue
            share = rise_share(self._whole.sides(number), self._whole.every, outcome=factor.outcome)
            if share >= _LEAST_SHARE:
                found.append(TestedFactor(number, z, share, frozenset(positions)))
        return found

    def _more(self, left: Round) -> list[TestedFactor]:
        """Return the factors that were always bad and have become more frequent."""
        found = []
        for number, positions in left.having.items():
            factor, own = self._prepared.factors[number], left.sides(number)
            if factor.outcome or own.past.units < LEAST_UNITS or own.now.rate < left.every.now.rate:
                continue
            one = left.mix(number)
            if one is None or one.z < self._limit(factor):
                continue
            if one.share >= _LEAST_MIX_SHARE:
                found.append(TestedFactor(number, one.z, one.share, frozenset(positions)))
        return found

    def _only_more(self, one: TestedFactor) -> bool:
        """Return whether a factor explains the rise mainly because it is more frequent, not worse, than before."""
        found = None if self._prepared.factors[one.number].outcome else self._whole.mix(one.number)
        return found is not None and found.z >= _SURELY_MORE and found.plain_share >= one.share / 2

    def _part_instead(self, best: TestedFactor, kept: Sequence[TestedFactor]) -> TestedFactor:
        parts = self._pairs.get(best.number, ())
        simpler = [one for one in kept if one.number in parts and one.z >= best.z - _PART_INSTEAD]
        return max(simpler, key=self._order, default=best)

    def _likewise(self, best: TestedFactor, kept: Sequence[TestedFactor], left: Round) -> tuple[Factor, ...]:
        bad = {index for index in best.having if left.now[index].bad}
        same = [
            one
            for one in kept
            if one.number != best.number
            and one.z > best.z - _LIKEWISE
            and len(bad & one.having) > _SAME_CASES * len(bad)
        ]
        return tuple(self._prepared.factors[one.number] for one in sorted(same, key=self._order, reverse=True))

    def _reported(self, one: TestedFactor, how: How, likewise: tuple[Factor, ...]) -> FoundFactor:
        factor, every, rows = self._prepared.factors[one.number], self._whole.every, self._whole.now
        own = self._whole.sides(one.number)
        having = {index for index, row in enumerate(rows) if one.number in row.factors}
        before = own_rate(own.past, every.past)
        onset = self._step.onset if how == "more" else None
        if how == "worse":
            step = find_step(self._of(one.number), before)
            onset = step.onset if step is not None else None
        return FoundFactor(
            factor=factor,
            parts=tuple(self._prepared.factors[part] for part in self._pairs.get(one.number, (one.number,))),
            how=how,
            z=one.z,
            share=share_interval(own, every, rows, having, outcome=factor.outcome),
            onset=onset,
            inside=estimate(sums_of([row for index, row in enumerate(rows) if index in having])),
            outside=estimate(sums_of([row for index, row in enumerate(rows) if index not in having])),
            before=own.past.rate if own.past.units >= LEAST_UNITS else before,
            cases=own.now.cases,
            bad=own.now.bad,
            part_now=own.now.weight / every.now.weight,
            part_before=own.past.weight / every.past.weight,
            likewise=likewise,
        )

    def _of(self, number: int) -> list[WeighedCase]:
        """Return the searched cases that have a factor."""
        parts = self._pairs.get(number, (number,))
        return [row for row in self._searched if all(part in row.factors for part in parts)]

    def _round(self, now: list[WeighedCase], past: list[WeighedCase], having: dict[int, list[int]]) -> Round:
        timed = time_blocks(now)
        past_having: dict[int, list[int]] = defaultdict(list)
        for index, row in enumerate(past):
            for number in row.factors:
                if number in having:
                    past_having[number].append(index)
        return Round(now, past, timed, having, past_having, Sides(tally(now, timed), tally(past)))

    def _tried(self, now: Sequence[WeighedCase]) -> dict[int, list[int]]:
        """Return the positions of the cases of each factor that can be tested."""
        having: dict[int, list[int]] = defaultdict(list)
        for index, row in enumerate(now):
            for number in row.factors:
                having[number].append(index)
        most, most_weight = _MOST * len(now), _MOST * sum(row.weight for row in now)
        return {
            number: positions
            for number, positions in having.items()
            if LEAST_CASES <= len(positions) <= most
            and sum([now[index].weight for index in positions]) <= most_weight
            and all(len(positions) <= _MOST_OF_PART * len(having[part]) for part in self._pairs.get(number, ()))
        }

    def _limit_by_kind(self) -> Mapping[str, float]:
        tried: dict[str, int] = defaultdict(int)
        for number in self._whole.having:
            tried[self._prepared.factors[number].kind] += 1
        if self._level <= 0:
            return {}
        return {kind: -_NORMAL.inv_cdf(self._level / len(tried) / number) for kind, number in sorted(tried.items())}

    def _limit(self, factor: Factor) -> float:
        return _STILL if factor in self._named else self._limits.get(factor.kind, math.inf)

    def _pairable(self, after: Sequence[WeighedCase]) -> frozenset[int]:
        """Return the configured slices that can form a pair: each part has at least as many cases as the pair."""
        counts: dict[int, int] = defaultdict(int)
        for row in after:
            for number in row.factors:
                if self._prepared.factors[number].pairs:
                    counts[number] += 1
        return frozenset(number for number, count in counts.items() if count >= LEAST_CASES)

    def _with_pairs(self, row: WeighedCase, wanted: frozenset[int]) -> WeighedCase:
        parts = sorted(number for number in row.factors if number in wanted)
        pairs = tuple([self._pair(one, other) for one, other in combinations(parts, 2)])
        return row._replace(factors=row.factors + pairs) if pairs else row

    def _pair(self, one: int, other: int) -> int:
        number = self._pair_numbers.get((one, other))
        if number is None:
            first, second = sorted((self._prepared.factors[one], self._prepared.factors[other]))
            joined = Factor("pair", f"{first.name} and {second.name}", f"{first.value} and {second.value}")
            number = self._pair_numbers[one, other] = self._prepared.number(joined)
            self._pairs[number] = (one, other) if self._prepared.factors[one] == first else (other, one)
        return number

    def _switched(self) -> tuple[Factor, ...]:
        """Return factors that nearly all have had since the onset and hardly any before, switched in its interval."""
        counts: dict[int, int] = defaultdict(int)
        for row in self._after:
            for number in row.factors:
                counts[number] += 1
        nearly = {number for number, count in counts.items() if count >= _NEARLY_ALL * len(self._after)}
        past: dict[int, int] = defaultdict(int)
        for row in self._before:
            for number in nearly.intersection(row.factors):
                past[number] += 1
        found = [
            self._prepared.factors[number]
            for number in nearly
            if number not in self._pairs
            and past[number] <= _HARDLY_ANY * len(self._before)
            and self._switched_within(number)
        ]
        return tuple(sorted(found))

    def _switched_within(self, number: int) -> bool:
        """Return whether the searched cases are best split, into those without and with it, within the interval."""
        rows, onset = self._searched, self._step.onset
        wrong = least = sum(number not in row.factors for row in rows)
        at = 0
        for index, row in enumerate(rows, start=1):
            wrong += 1 if number in row.factors else -1
            if wrong < least:
                least, at = wrong, index
        switched = rows[min(at, len(rows) - 1)].time
        return onset.earliest <= switched <= onset.latest
