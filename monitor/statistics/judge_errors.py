"""Finds what the answers that a judge gets wrong have in common. Pure functions.

Each factor is tested on the labelled answers: do people contradict the judge more often where it is present? The test
is exact, within each verdict of the judge, so it does not matter which verdict is labelled more often (Fisher's test in
two strata, with fixed margins). The chance that anything is named without a reason is at most `FALSE_FINDINGS`, shared
out among the kinds of factors, and within a kind among those that could reach the limit at all (Tarone, Biometrics 46,
1990, p. 515).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, NamedTuple

from monitor.statistics.diagnosis import FALSE_FINDINGS
from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.rates import Estimate, Sums, estimate
from monitor.statistics.review import log_choose

FACTORS_AT_MOST: Final = 3
LEAST_ERRORS: Final = 3
"""Errors, in different sessions or on different questions, that a factor needs."""
LEAST_ANSWERS: Final = 5
"""Labelled answers that a factor needs."""

_MOST: Final = 0.9  # of the answers: above it, too little is left to compare with
_SAME_ERRORS: Final = 0.6


class LabelledAnswer(NamedTuple):
    """A labelled answer: the judge's verdict, the people's verdict, its weight, and its factors.

    `unit`: its session, or otherwise its question. Only the first answer of a unit counts.
    """

    unit: str
    verdict: bool
    truth: bool
    weight: float
    factors: tuple[Factor, ...]

    @property
    def wrong(self) -> bool:
        """Whether the judge erred."""
        return self.verdict != self.truth


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFactor:
    """What many errors of the judge have in common.

    `parts`: the two slices of a pair, otherwise the factor itself. `inside` and `outside`: the share of the judge's
    verdicts that are wrong, with the factor and without it, with 95 % limits. `answers` labelled answers have it; among
    these the judge missed `missed` defects and called `alarmed` good answers a defect. `likewise`: other factors that
    most of these errors have. `chance`: the probability of such a difference by chance, in this test alone.
    """

    factor: Factor
    parts: tuple[Factor, ...]
    inside: Estimate
    outside: Estimate
    answers: int
    missed: int
    alarmed: int
    chance: float
    likewise: tuple[Factor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeErrors:
    """Where a judge errs: the factors, smallest chance first, and the numbers of labelled answers and errors."""

    answers: int
    missed: int
    alarmed: int
    factors: tuple[ErrorFactor, ...] = ()


class _Tested(NamedTuple):
    chance: float
    factor: Factor
    having: frozenset[int]


def judge_errors(answers: Iterable[LabelledAnswer]) -> JudgeErrors:
    """Find what the errors have in common. The order of the answers matters only within a unit."""
    units: dict[str, LabelledAnswer] = {}
    for one in answers:
        units.setdefault(one.unit, one)
    left = [one._replace(factors=_with_pairs(one.factors)) for one in units.values()]
    kinds, found = Counter(one.truth for one in left if one.wrong), list[ErrorFactor]()
    every = left
    while len(found) < FACTORS_AT_MOST:
        tested = _surely(left)
        if not tested:
            break
        best = min(tested, key=lambda one: (one.chance, one.factor))
        found.append(_reported(best, tested, left, every))
        left = [one for one in left if best.factor not in one.factors]
    return JudgeErrors(answers=len(every), missed=kinds[True], alarmed=kinds[False], factors=tuple(found))


def _with_pairs(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    """Return the factors of an answer, with pairs of its configured slices."""
    own = tuple(dict.fromkeys(factors))
    pairs = combinations(sorted(one for one in own if one.pairs), 2)
    return (*own, *(Factor("pair", f"{a.name} and {b.name}", f"{a.value} and {b.value}") for a, b in pairs))


def _surely(answers: Sequence[LabelledAnswer]) -> list[_Tested]:
    """Return the factors with which the judge errs more often than chance explains."""
    having: defaultdict[Factor, list[int]] = defaultdict(list)
    for index, one in enumerate(answers):
        for factor in one.factors:
            having[factor].append(index)
    kinds: defaultdict[str, list[tuple[Factor, frozenset[int]]]] = defaultdict(list)
    for factor, places in having.items():
        if LEAST_ANSWERS <= len(places) <= _MOST * len(answers):
            kinds[factor.kind].append((factor, frozenset(places)))
    groups = {verdict: _group(answers, verdict=verdict) for verdict in (True, False)}
    found = []
    for tried in kinds.values():
        chances = {factor: _chances(answers, own, groups) for factor, own in tried}
        limit = _limit([least for _, least in chances.values()], FALSE_FINDINGS / len(kinds))
        for factor, own in tried:
            chance = chances[factor][0]
            if chance <= limit and sum(answers[at].wrong for at in own) >= LEAST_ERRORS:
                found.append(_Tested(chance, factor, own))
    return found


def _group(answers: Sequence[LabelledAnswer], *, verdict: bool) -> tuple[int, int]:
    """Return how many answers have a verdict, and at how many of them the judge erred."""
    own = [one for one in answers if one.verdict == verdict]
    return len(own), sum(one.wrong for one in own)


def _chances(
    answers: Sequence[LabelledAnswer], having: Iterable[int], groups: Mapping[bool, tuple[int, int]]
) -> tuple[float, float]:
    """Return the chance of at least this many errors with a factor, and the smallest possible chance."""
    number: Counter[bool] = Counter()
    errors = 0
    for at in having:
        number[answers[at].verdict] += 1
        errors += answers[at].wrong
    ways = [1.0]
    lowest = 0
    for verdict, (size, wrong) in groups.items():
        drawn = number[verdict]
        fewest, most = max(0, drawn - (size - wrong)), min(drawn, wrong)
        whole = log_choose(size, drawn)
        own = [
            math.exp(log_choose(wrong, one) + log_choose(size - wrong, drawn - one) - whole)
            for one in range(fewest, most + 1)
        ]
        ways = [
            math.fsum(ways[at - one] * own[one] for one in range(len(own)) if 0 <= at - one < len(ways))
            for at in range(len(ways) + len(own) - 1)
        ]
        lowest += fewest
    return min(math.fsum(ways[errors - lowest :]), 1.0), ways[-1]


def _limit(least: Sequence[float], level: float) -> float:
    """Return the limit for a factor's chance: `level` divided by the number of factors that can get below it."""
    number = 1
    while sum(one <= level / number for one in least) > number:
        number += 1
    return level / number


def _reported(
    best: _Tested, tested: Sequence[_Tested], left: Sequence[LabelledAnswer], every: Sequence[LabelledAnswer]
) -> ErrorFactor:
    inside = [one for one in every if best.factor in one.factors]
    outside = [one for one in every if best.factor not in one.factors]
    errors = {at for at in best.having if left[at].wrong}
    likewise = [
        one.factor
        for one in sorted(tested)
        if one.factor != best.factor and len(errors & one.having) > _SAME_ERRORS * len(errors)
    ]
    parts: tuple[Factor, ...] = (best.factor,)
    if best.factor.kind == "pair":
        of_one = inside[0]
        pairs = combinations(sorted(one for one in of_one.factors if one.pairs), 2)
        parts = next(pair for pair in pairs if _with_pairs(pair)[-1] == best.factor)
    kinds = Counter(one.truth for one in inside if one.wrong)
    return ErrorFactor(
        factor=best.factor,
        parts=parts,
        inside=_share(inside),
        outside=_share(outside),
        answers=len(inside),
        missed=kinds[True],
        alarmed=kinds[False],
        chance=best.chance,
        likewise=tuple(likewise),
    )


def _share(answers: Sequence[LabelledAnswer]) -> Estimate:
    found = estimate(Sums.total(Sums.of(one.weight, defect=one.wrong) for one in answers))
    return found if found is not None else Estimate(0.0, 0.0, 1.0, 0, 0)
