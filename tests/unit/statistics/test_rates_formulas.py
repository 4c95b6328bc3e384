"""The formulas of rates once more, over all pairs of answers: limits as roots, variances by session."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from monitor.statistics.rates import (
    Z_95,
    Difference,
    Sums,
    difference,
    doubled,
    effective_judged,
    estimate,
    judged_to_tell,
    score_interval,
)


class Answer(NamedTuple):
    session: str
    weight: float
    bad: bool


MIXED = [
    Answer(session, weight, bad)
    for session, weight, bad in (
        *(("a", 2.0, True), ("a", 1.0, True), ("a", 4.0, False), ("b", 1.5, False), ("b", 3.0, True)),
        *((f"good {number}", 1.0 + number % 4, False) for number in range(30)),
        *((f"bad {number}", 0.5 + number % 3, True) for number in range(5)),
        *((f"long {number % 4}", 1.25, False) for number in range(16)),
    )
]
STORIES = [Answer(f"s{number // 5}", 1.0 + number % 2, number // 5 % 4 == 0) for number in range(80)]
FEW = [
    Answer("a", 3.0, True),
    Answer("b", 1.0, False),
    Answer("c", 2.0, False),
    Answer("d", 2.0, True),
    Answer("e", 7.0, False),
]
MIXES = pytest.mark.parametrize("answers", [MIXED, STORIES, FEW], ids=["mixed", "stories", "few"])


def pairs(answers: Sequence[Answer], one: Callable[[Answer], bool], other: Callable[[Answer], bool]) -> float:
    """The products of the weights of all pairs of a session."""
    return sum(a.weight * b.weight for a in answers for b in answers if a.session == b.session and one(a) and other(b))


def is_bad(one: Answer) -> bool:
    return one.bad


def is_good(one: Answer) -> bool:
    return not one.bad


def sums(answers: Sequence[Answer]) -> Sums:
    def every(_: Answer) -> bool:
        return True

    return Sums(
        len(answers),
        sum(map(is_bad, answers)),
        sum(one.weight for one in answers),
        sum(one.weight for one in answers if one.bad),
        sum(one.weight**2 for one in answers if one.bad),
        sum(one.weight**2 for one in answers if not one.bad),
        max(one.weight for one in answers),
        pairs(answers, is_bad, is_bad),
        pairs(answers, every, every),
        pairs(answers, is_bad, every),
    )


def root(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that rises crosses 0."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if of(middle) > 0 else (middle, high)
    return (low + high) / 2


def upper_limit(
    answers: Sequence[Answer], own: Callable[[Answer], bool], session: float, z: float, usual: float
) -> float:
    """The limit of the share of a side, with one answer more in it, as heavy as its session makes it."""

    def rest(one: Answer) -> bool:
        return not own(one)

    whole = sum(one.weight for one in answers)
    typical = sum(one.weight**2 for one in answers) / whole
    pseudo = max((typical + max(one.weight for one in answers)) / 2, usual) + session
    side, others = (sum(one.weight for one in answers if kind(one)) for kind in (own, rest))
    weight = side + pseudo
    squares, other_squares = (sum(one.weight**2 for one in answers if kind(one)) for kind in (own, rest))
    alone = squares / weight**2 + (pseudo / weight) ** 2 + other_squares / others**2
    together = (
        (pairs(answers, own, own) - squares) / weight**2
        - 2 * pairs(answers, own, rest) / weight / others
        + (pairs(answers, rest, rest) - other_squares) / others**2
    )
    error = (alone + max(together, 0.0)) / 9
    share = weight / (weight + others)
    of_side, of_rest = error * share, error * (1 - share)

    def off(x: float) -> float:
        return ((1 - of_side) * x - (1 - of_rest)) / math.sqrt(of_side * x * x + of_rest) - z

    odds = weight / others * root(off, 0.0, 1e4) ** 3
    return odds / (1 + odds)


@MIXES
@pytest.mark.parametrize("z", [0.5, 1.281552, Z_95])
@pytest.mark.parametrize("usual", [0.0, 9.0])
def test_limits_are_of_all_answers_and_one_heavy_session_more_on_their_side(
    answers: list[Answer], z: float, usual: float
) -> None:
    bad, good = (sum(one.weight for one in answers if one.bad is kind) for kind in (True, False))
    whole = bad + good
    squares = sum(one.weight**2 for one in answers)
    of_bad = (pairs(answers, is_bad, is_bad) - sum(one.weight**2 for one in answers if one.bad)) / bad
    of_good = (pairs(answers, is_good, is_good) - sum(one.weight**2 for one in answers if not one.bad)) / good
    of_every = (pairs(answers, lambda _: True, lambda _: True) - squares) / whole
    found = estimate(sums(answers), z, usual=usual)
    assert found is not None
    assert found.rate == pytest.approx(bad / whole, rel=1e-12)
    assert found.upper == pytest.approx(upper_limit(answers, is_bad, of_bad, z, usual), rel=1e-9)
    lower = 1 - upper_limit(answers, is_good, max(of_good, of_every), z, usual)
    assert found.lower == pytest.approx(lower, rel=1e-9, abs=1e-12)
    assert (found.judged, found.defects) == (len(answers), sum(map(is_bad, answers)))


@MIXES
def test_the_effective_number_is_by_the_variance_of_the_rate_between_sessions(answers: list[Answer]) -> None:
    whole = sum(one.weight for one in answers)
    rate = sum(one.weight for one in answers if one.bad) / whole
    by_session = dict.fromkeys((one.session for one in answers), 0.0)
    for one in answers:
        by_session[one.session] += one.weight * (one.bad - rate)
    alone = sum(one.weight**2 * (one.bad - rate) ** 2 for one in answers)
    variance = max(sum(one**2 for one in by_session.values()), alone)
    kish = whole**2 / sum(one.weight**2 for one in answers)
    expected = min(kish, rate * (1 - rate) * whole**2 / variance)
    assert effective_judged(sums(answers)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("bad", [True, False])
def test_of_answers_that_are_all_alike_their_sessions_count(bad: bool) -> None:
    answers = [Answer(f"s{number % 3}", 1.0 + number % 2, bad) for number in range(12)]
    whole = sum(one.weight for one in answers)
    expected = whole**2 / pairs(answers, lambda _: True, lambda _: True)
    assert effective_judged(sums(answers)) == pytest.approx(expected, rel=1e-12)
    assert effective_judged(Sums()) == 0.0


def test_without_products_each_answer_is_a_session_of_its_own() -> None:
    plain = Sums(50, 10, 80.0, 20.0, 60.0, 130.0)
    assert effective_judged(plain) == pytest.approx(0.25 * 0.75 * 80**2 / (60 * 0.75**2 + 130 * 0.25**2), rel=1e-12)
    assert effective_judged(Sums(50, 0, 80.0, 0.0, 0.0, 190.0)) == pytest.approx(80**2 / 190, rel=1e-12)


def test_the_weight_of_a_typical_answer_counts_each_by_its_weight() -> None:
    assert sums(FEW).typical_weight == pytest.approx((9 + 1 + 4 + 4 + 49) / 15, rel=1e-12)


@pytest.mark.parametrize(("products", "expected"), [(10.0, 60.0), (100.0, 100.0), (500.0, 400.0)])
def test_the_squares_of_sessions_lie_between_those_of_answers_and_that_of_them_all(
    products: float, expected: float
) -> None:
    assert Sums(50, 10, 80.0, 20.0, 60.0, 130.0, 4.0, products).defect_session_squares == expected


def test_sums_scale_with_the_number_of_answers_but_not_their_heaviest_weight() -> None:
    one = Sums(10, 3, 20.0, 8.0, 30.0, 40.0, 5.0, 36.0, 80.0, 44.0)
    assert one.scaled(25) == Sums(25, 8, 50.0, 20.0, 75.0, 100.0, 5.0, 90.0, 200.0, 110.0)


def test_sums_add_up_field_by_field_and_keep_the_heaviest_weight() -> None:
    one = Sums(1, 2, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
    other = Sums(20, 30, 40.0, 50.0, 60.0, 70.0, 6.5, 80.0, 90.0, 100.0)
    both = Sums(21, 32, 43.0, 54.0, 65.0, 76.0, 7.0, 88.0, 99.0, 110.0)
    assert one + other == other + one == Sums.total([one, other]) == both
    assert Sums.total([]) == Sums()


def test_one_answer_makes_sums_of_its_weight_and_square_on_its_side() -> None:
    assert Sums.of(3.0, defect=True) == Sums(1, 1, 3.0, 3.0, 9.0, 0.0, 3.0, 9.0, 9.0, 9.0)
    assert Sums.of(3.0, defect=False) == Sums(1, 0, 3.0, 0.0, 0.0, 9.0, 3.0, 0.0, 9.0, 0.0)
    assert Sums.counted(7, 2) == Sums(7, 2, 7, 2, 2, 5, 1.0, 2, 7, 2)
    assert Sums.counted(12, 6, per_session=3) == Sums(12, 6, 12, 6, 6, 6, 1.0, 18, 36, 18)
    assert Sums.counted(0, 0) == Sums()


def test_a_session_of_more_than_a_hundred_answers_counts_as_several() -> None:
    found = Sums.by_session([("long", number % 5 == 0) for number in range(250)] + [("short", True)] * 3)
    assert (found.judged, found.defects) == (253, 53)
    assert found.every_products == 100**2 + 100**2 + 50**2 + 3**2
    assert found.defect_products == 20**2 + 20**2 + 10**2 + 3**2
    assert found.both_products == 100 * 20 + 100 * 20 + 50 * 10 + 3 * 3


@pytest.mark.parametrize(("share", "number"), [(0.0, 20.0), (0.1, 30.0), (0.37, 12.5), (1.0, 9.0)])
@pytest.mark.parametrize("z", [1.0, Z_95])
def test_score_limits_are_the_shares_from_which_the_one_seen_is_just_z_away(
    share: float, number: float, z: float
) -> None:
    def off(true: float) -> float:
        return (true - share) ** 2 - z * z * true * (1 - true) / number

    low, high = score_interval(share, number, z)
    assert off(low) == pytest.approx(0.0, abs=1e-12)
    assert off(high) == pytest.approx(0.0, abs=1e-12)
    assert 0 <= low <= share <= high <= 1
    assert low < high


@pytest.mark.parametrize(("first", "second"), [(MIXED, FEW), (FEW, MIXED), (STORIES, MIXED)])
def test_a_difference_has_the_limits_of_both_shares_as_legs_of_a_triangle(
    first: list[Answer], second: list[Answer]
) -> None:
    shares = [sum(one.weight for one in each if one.bad) / sum(one.weight for one in each) for each in (first, second)]
    ends = [
        score_interval(share, effective_judged(sums(each)), 1.5)
        for share, each in zip(shares, (first, second), strict=True)
    ]
    before, after = shares
    found = difference(sums(first), sums(second), 1.5)
    assert found is not None
    assert found.value == pytest.approx(after - before, rel=1e-12)
    assert found.lower == pytest.approx(
        after - before - math.sqrt((after - ends[1][0]) ** 2 + (ends[0][1] - before) ** 2)
    )
    assert found.upper == pytest.approx(
        after - before + math.sqrt((ends[1][1] - after) ** 2 + (before - ends[0][0]) ** 2)
    )


@pytest.mark.parametrize(
    ("lower", "upper", "clear"),
    [(0.0, 0.1, False), (0.01, 0.1, True), (-0.1, 0.0, False), (-0.1, -0.01, True), (-1, 1, False)],
)
def test_a_difference_is_clear_where_its_limits_are_on_one_side_of_0(lower: float, upper: float, clear: bool) -> None:
    assert Difference((lower + upper) / 2, lower, upper).clear is clear


def test_a_difference_needs_answers_on_both_sides() -> None:
    assert difference(Sums(), sums(FEW), 1.0) is None
    assert difference(sums(FEW), Sums(), 1.0) is None


@pytest.mark.parametrize(("threshold", "rate"), [(0.03, 0.06), (0.1, 0.13), (0.5, 1.0), (0.01, 0.5)])
@pytest.mark.parametrize("z", [0.0, 1.645, 3.0])
def test_so_many_answers_tell_a_rate_from_a_threshold_by_the_square_roots_of_both(
    threshold: float, rate: float, z: float
) -> None:
    def off(number: float) -> float:
        """The distance of both roots, in standard deviations of 1 / (2 sqrt(number)), less z and the power."""
        return 2 * math.sqrt(number) * (math.sqrt(rate) - math.sqrt(threshold)) - z - 1.281552

    assert judged_to_tell(threshold, rate, z) == math.ceil(root(off, 0.0, 1e9))


@pytest.mark.parametrize(("threshold", "rate"), [(0.0, 0.5), (0.2, 0.2), (0.3, 0.2), (0.2, 1.01), (-0.1, 0.5)])
def test_a_rate_that_is_not_above_its_threshold_cannot_be_told_from_it(threshold: float, rate: float) -> None:
    with pytest.raises(ValueError, match="needs 0 < threshold < rate <= 1"):
        judged_to_tell(threshold, rate, 1.0)


@pytest.mark.parametrize(("threshold", "expected"), [(0.1, 0.2), (0.33, 0.66), (0.34, 0.67), (0.6, 0.8), (1.0, 1.0)])
def test_clearly_above_is_twice_or_halfway_to_1(threshold: float, expected: float) -> None:
    assert doubled(threshold) == pytest.approx(expected)


def test_z_may_be_0_and_not_less() -> None:
    assert estimate(sums(FEW), 0.0) is not None
    with pytest.raises(ValueError, match="z must be 0 or more"):
        estimate(sums(FEW), -0.001)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_a_weight_that_is_no_weight_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="is not a weight"):
        Sums.of(weight, defect=True)
