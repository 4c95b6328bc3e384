"""The judged answers that a diagnosis compares, and the factors that they may share: plain values."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from monitor.statistics.rates import Sums

FactorKind: TypeAlias = Literal["slice", "pair", "document", "word"]
"""`slice`: a property of the request or the answer. `pair`: two of the configured slices together. `document`: what
was retrieved. `word`: a word of the question."""

LIGHTEST: Final = 1e-100
"""The smallest weight, as a part of the largest. Lighter weights count as this, since their squares may be 0."""


class Factor(NamedTuple):
    """Something that several answers may have in common, such as the slice `tenant` with the value `acme`.

    `pairs`: it is a configured slice, so the diagnosis also looks at it in pairs. `outcome`: it is a property of the
    answer itself, such as a refusal or a length, so its frequency follows the rate of bad answers.
    """

    kind: FactorKind
    name: str
    value: str
    pairs: bool = False
    outcome: bool = False


class JudgedCase(NamedTuple):
    """One judged answer.

    `time`: when it was given, in seconds since 1970. `weight`: 1 / (the probability with which it was judged), above 0
    and finite. `unit`: its session, or otherwise its question: all answers of one unit count as one observation.
    `judged_at`: when the verdict became known; None: at once.
    """

    time: float
    bad: bool
    unit: str
    factors: tuple[Factor, ...] = ()
    weight: float = 1.0
    judged_at: float | None = None


class WeighedCase(NamedTuple):
    """A case made ready: its weight as a part of the largest, its unit and its factors as numbers.

    `known`: when it was judged, or given if that is later.
    """

    time: float
    weight: float
    bad: bool
    unit: int
    factors: tuple[int, ...]
    known: float = 0.0


class Prepared:
    """All cases in chronological order, with numbers in place of texts; the order of equal times does not matter."""

    def __init__(self, cases: Iterable[JudgedCase]) -> None:
        given = list(cases)
        for one in given:
            if not (one.weight > 0 and math.isfinite(one.weight)):
                raise ValueError(f"{one.weight!r} is not a weight: it is 1 / probability, positive and finite")
            if not math.isfinite(one.time):
                raise ValueError(f"{one.time!r} is not a time: it is a number of seconds since 1970")
            if one.judged_at is not None and not math.isfinite(one.judged_at):
                raise ValueError(f"{one.judged_at!r} is not a time: it is a number of seconds since 1970")
        # Cases that are equal in all of these can be swapped without changing a sum.
        given.sort(key=lambda one: (one.time, one.weight, one.bad, one.unit))
        top = max((one.weight for one in given), default=1.0)
        self.factors: list[Factor] = []
        self._numbers: dict[Factor, int] = {}
        units: dict[str, int] = {}
        self.rows = [
            WeighedCase(
                one.time,
                max(one.weight / top, LIGHTEST),
                bool(one.bad),
                units.setdefault(one.unit, len(units)),
                tuple({self.number(factor): None for factor in one.factors}),
                max(one.time, one.judged_at if one.judged_at is not None else one.time),
            )
            for one in given
        ]

    def number(self, factor: Factor) -> int:
        """Return the number of a factor, a new one if it has none."""
        number = self._numbers.get(factor)
        if number is None:
            number = self._numbers[factor] = len(self.factors)
            self.factors.append(factor)
        return number


class CaseSums(NamedTuple):
    """Sums over some cases, or over those of them that have a factor.

    `cases` and `bad` are counts; `units` is the number of units with bad cases. `weight` sums the weights, `timed` the
    weights times the rate of their block of time relative to the whole, `bad_weight` the weights of bad cases.
    `bad_squares` sums, by unit, the square of its bad weight; `good_squares` the squares of the weights of good cases.
    """

    cases: int = 0
    bad: int = 0
    units: int = 0
    weight: float = 0.0
    timed: float = 0.0
    bad_weight: float = 0.0
    bad_squares: float = 0.0
    good_squares: float = 0.0

    @property
    def rate(self) -> float:
        """The weighted share of bad cases; 0 without cases."""
        return self.bad_weight / self.weight if self.weight > 0 else 0.0

    @property
    def unit_weight(self) -> float:
        """The weight of the bad cases of a typical unit; 0 without bad cases."""
        return self.bad_squares / self.bad_weight if self.bad_weight > 0 else 0.0


def tally(rows: Iterable[WeighedCase], timed: Iterable[float] | None = None) -> CaseSums:
    """Add up cases. `timed`: the timed weights of the same cases, otherwise their weights."""
    cases = bad = 0
    weight = timed_weight = bad_weight = good_squares = 0.0
    by_unit: dict[int, float] = {}
    for row in rows:
        own = row.weight
        cases += 1
        weight += own
        if row.bad:
            bad += 1
            bad_weight += own
            by_unit[row.unit] = by_unit.get(row.unit, 0.0) + own
        else:
            good_squares += own * own
    timed_weight = weight if timed is None else sum(timed)
    squares = sum([one * one for one in by_unit.values()])
    return CaseSums(cases, bad, len(by_unit), weight, timed_weight, bad_weight, squares, good_squares)


def unit_squares(rows: Iterable[WeighedCase]) -> float:
    """Sum, by unit, the square of the weight of its cases."""
    by_unit: dict[int, float] = defaultdict(float)
    for row in rows:
        by_unit[row.unit] += row.weight
    return sum([one * one for one in by_unit.values()])


def sums_of(rows: Sequence[WeighedCase]) -> Sums:
    """Return what `statistics.rates.estimate` needs for the rate of these cases and its limits."""
    bad_by_unit: dict[int, float] = defaultdict(float)
    by_unit: dict[int, float] = defaultdict(float)
    for row in rows:
        by_unit[row.unit] += row.weight
        bad_by_unit[row.unit] += row.weight * row.bad
    found = tally(rows)
    return Sums(
        judged=found.cases,
        defects=found.bad,
        weight=found.weight,
        defect_weight=found.bad_weight,
        defect_weight_squares=sum(row.weight**2 for row in rows if row.bad),
        good_weight_squares=found.good_squares,
        top=max((row.weight for row in rows), default=0.0),
        defect_products=found.bad_squares,
        every_products=sum(one**2 for one in by_unit.values()),
        both_products=sum(one * bad_by_unit[unit] for unit, one in by_unit.items()),
    )
