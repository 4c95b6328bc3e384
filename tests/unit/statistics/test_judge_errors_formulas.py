"""The chance of a judge's errors by counting all ways to share them out, and who is tested at all."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.judge_errors import JudgeErrors, LabelledAnswer, judge_errors
from monitor.statistics.rates import Sums, estimate

ACME, REST = Factor("slice", "tenant", "acme"), Factor("slice", "tenant", "rest")
WORD = Factor("word", "word", "refund")

Counts = tuple[int, int, int, int]
"""Of what the judge calls a defect: answers and errors. Then of what it calls good."""


def answers(own: Counts, rest: Counts, *more: Factor) -> list[LabelledAnswer]:
    found = []
    for factors, counts in (((ACME, *more), own), ((REST,), rest)):
        for verdict, number, wrong in ((True, *counts[:2]), (False, *counts[2:])):
            for at in range(number):
                weight = 1.0 + len(found) % 3
                found.append(LabelledAnswer(f"u{len(found)}", verdict, verdict != (at < wrong), weight, factors))
    return found


def chance(own: Counts, rest: Counts) -> float:
    """Of as many errors or more among the own answers, if those of each verdict are shared out at random."""
    ways = whole = Fraction(0)
    strata = [(own[at], own[at + 1], rest[at], rest[at + 1]) for at in (0, 2)]
    sizes = [
        [(errors, number, wrong + other, size - wrong - other + number) for errors in range(number + 1)]
        for number, wrong, size, other in strata
    ]
    for parts in product(*sizes):
        count = Fraction(1)
        for errors, number, wrong, good in parts:
            count *= math.comb(wrong, errors) * math.comb(good, number - errors)
        whole += count
        if sum(part[0] for part in parts) >= own[1] + own[3]:
            ways += count
    return float(ways / whole)


WORLDS = [
    ((9, 7, 3, 2), (20, 2, 30, 1)),
    ((4, 3, 8, 6), (25, 1, 25, 2)),
    ((12, 10, 0, 0), (10, 1, 40, 5)),
    ((0, 0, 6, 6), (30, 4, 24, 1)),
]


@pytest.mark.parametrize(("own", "rest"), WORLDS)
def test_the_chance_of_a_factor_is_exact_within_each_verdict(own: Counts, rest: Counts) -> None:
    given = answers(own, rest)
    found = judge_errors(given)
    assert [one.factor for one in found.factors] == [ACME]
    first = found.factors[0]
    assert first.chance == pytest.approx(chance(own, rest), rel=1e-9)
    assert first.chance < 0.05
    assert (first.answers, first.alarmed, first.missed) == (own[0] + own[2], own[1], own[3])
    assert (found.answers, found.alarmed, found.missed) == (len(given), own[1] + rest[1], own[3] + rest[3])
    for shown, factor in ((first.inside, ACME), (first.outside, REST)):
        expected = estimate(Sums.total(Sums.of(one.weight, defect=one.wrong) for one in given if factor in one.factors))
        assert shown == expected
    assert (first.parts, first.likewise) == ((ACME,), ())


@pytest.mark.parametrize(("own", "named"), [((3, 3, 1, 0), False), ((4, 3, 1, 0), True), ((4, 2, 1, 0), False)])
def test_a_factor_needs_five_answers_and_three_errors(own: Counts, named: bool) -> None:
    assert bool(judge_errors(answers(own, (60, 0, 60, 0))).factors) is named


@pytest.mark.parametrize(("rest", "named"), [((4, 0, 0, 0), True), ((3, 0, 0, 0), False)])
def test_a_factor_of_more_than_9_in_10_answers_is_not_tested(rest: Counts, named: bool) -> None:
    """Of 36 answers of acme all that can be wrong are; one in nine others is the most that there may be."""
    given = answers((36, 33, 0, 0), rest)
    assert bool(judge_errors(given).factors) is named


def test_what_has_more_than_6_in_10_of_the_errors_is_listed_beside_the_factor() -> None:
    given = answers((10, 10, 5, 0), (40, 1, 45, 1))
    for number, listed in ((6, False), (7, True)):
        wrong = 0
        marked = []
        for one in given:
            wrong += one.wrong and ACME in one.factors
            has = one.wrong and ACME in one.factors and wrong <= number
            marked.append(one._replace(factors=(*one.factors, WORD)) if has else one)
        found = judge_errors(marked).factors[0]
        assert found.factor == ACME
        assert found.likewise == ((WORD,) if listed else ())


def test_without_errors_there_is_nothing_to_name() -> None:
    assert judge_errors(answers((9, 0, 9, 0), (9, 0, 9, 0))) == JudgeErrors(answers=36, missed=0, alarmed=0)
    assert judge_errors([]) == JudgeErrors(answers=0, missed=0, alarmed=0)
