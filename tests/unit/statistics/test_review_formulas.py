"""The formulas behind labels, each computed once more in another way: roots by bisection, chances by counting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product

import pytest

from monitor.statistics.correction import ConfusionCell, LabelledResult
from monitor.statistics.rates import Estimate, Sums, estimate
from monitor.statistics.review import (
    FEWEST,
    LabelCounts,
    VerdictShares,
    agreement,
    by_cells,
    chance_if_as_good,
    combine,
    corrected,
    log_choose,
    outlook,
    sensitivity,
    shares,
    specificity,
)

Z = 1.959964
ONE_AND_A_HALF = Sums.counted(300, 60)


def root(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that rises or falls crosses 0."""
    rises = of(high) > 0
    for _ in range(200):
        middle = (low + high) / 2
        if (of(middle) > 0) == rises:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def quantile(defects: float, good: float, z: float) -> float:
    """The share at which the ratio of two gamma variables is `z` above 1 by their cube roots (Wilson and Hilferty)."""
    of_defects, of_good = 1 / (9 * defects), 1 / (9 * good)

    def off(x: float) -> float:
        return ((1 - of_good) * x - (1 - of_defects)) / math.sqrt(of_good * x * x + of_defects) - z

    odds = defects / good * root(off, 0.0, 1e4) ** 3
    return odds / (1 + odds)


def beta_tail(share: float, defects: float, good: float, steps: int = 20_000) -> float:
    """The probability that a beta variable is above a share, by Simpson's rule on the logarithm of the odds."""
    whole = math.lgamma(defects + good) - math.lgamma(defects) - math.lgamma(good)

    def density(odds: float) -> float:
        log_share, log_rest = -math.log1p(math.exp(-odds)), -math.log1p(math.exp(odds))
        return math.exp(whole + defects * log_share + good * log_rest)

    low, high = math.log(share / (1 - share)), 60.0
    wide = (high - low) / steps
    return (
        wide
        / 3
        * sum(density(low + at * wide) * (1 if at in (0, steps) else 4 if at % 2 else 2) for at in range(steps + 1))
    )


def labels(defects: int, good: int, *, verdict: bool, weight: float = 1.0) -> list[LabelledResult]:
    return [LabelledResult(weight, verdict, number < defects) for number in range(defects + good)]


def share_of(given: Sequence[LabelledResult], *, verdict: bool, z: float = Z) -> Estimate:
    known = shares(ONE_AND_A_HALF, given, z)
    assert known is not None
    found = known.of_defects if verdict else known.of_good
    assert found is not None
    return found


@pytest.mark.parametrize("verdict", [True, False])
@pytest.mark.parametrize(("defects", "good"), [(3, 17), (9, 4), (1, 60), (40, 2), (25, 25)])
@pytest.mark.parametrize("z", [0.5, 1.645, Z])
def test_limits_of_few_labels_are_quantiles_with_six_tenths_of_an_answer_more_on_their_side(
    verdict: bool, defects: int, good: int, z: float
) -> None:
    found = share_of(labels(defects, good, verdict=verdict), verdict=verdict, z=z)
    assert found.rate == pytest.approx(defects / (defects + good), rel=1e-12)
    assert found.upper == pytest.approx(quantile(defects + 0.6, good + 0.4, z), rel=1e-9)
    assert found.lower == pytest.approx(1 - quantile(good + 0.6, defects + 0.4, z), rel=1e-9)
    assert (found.judged, found.defects) == (defects + good, defects)


@pytest.mark.parametrize(("defects", "good"), [(3, 17), (9, 4), (6, 60), (25, 25)])
def test_limits_of_few_labels_leave_the_tail_of_a_beta_distribution_that_they_say(defects: int, good: int) -> None:
    found = share_of(labels(defects, good, verdict=True), verdict=True)
    assert beta_tail(found.upper, defects + 0.6, good + 0.4) == pytest.approx(0.025, rel=0.12)
    assert beta_tail(1 - found.lower, good + 0.6, defects + 0.4) == pytest.approx(0.025, rel=0.12)


@pytest.mark.parametrize("number", [1, 4, 30])
def test_of_labels_that_all_say_the_same_one_limit_is_the_share_itself(number: int) -> None:
    bad, good = (
        share_of(labels(number, 0, verdict=True), verdict=True),
        share_of(labels(0, number, verdict=True), verdict=True),
    )
    assert (bad.rate, bad.upper) == (1.0, 1.0)
    assert (good.rate, good.lower) == (0.0, 0.0)
    assert 0 < bad.lower < 1
    assert good.upper == pytest.approx(1 - bad.lower, rel=1e-12)


@pytest.mark.parametrize("number", [8, 30])
def test_of_good_labels_alone_the_upper_limit_is_a_quantile_too(number: int) -> None:
    found = share_of(labels(0, number, verdict=False), verdict=False)
    assert found.upper == pytest.approx(quantile(0.6, number + 0.4, Z), rel=1e-9)


def test_at_a_z_that_no_share_reaches_a_limit_is_1() -> None:
    found = share_of(labels(1, 1, verdict=True), verdict=True, z=6.0)
    assert (found.lower, found.upper) == (0.0, 1.0)
    one = share_of(labels(0, 1, verdict=True), verdict=True, z=4.0)
    assert (one.lower, one.upper) == (0.0, 1.0)


def test_labels_of_unequal_weight_count_as_fewer_equal_ones_with_the_same_variance() -> None:
    given = [
        LabelledResult(weight, True, truth)
        for weight, truth in ((1, True), (3, True), (2, False), (5, False), (4, False))
    ]
    rate = 4 / 15
    squares = sum(one.weight**2 * (one.truth - rate) ** 2 for one in given)
    number = min(rate * (1 - rate) * 15**2 / squares, 15**2 / sum(one.weight**2 for one in given))
    found = share_of(given, verdict=True)
    assert found.rate == pytest.approx(rate, rel=1e-12)
    assert found.upper == pytest.approx(quantile(number * rate + 0.6, number * (1 - rate) + 0.4, Z), rel=1e-9)


JUDGED = Estimate(0.3, 0.22, 0.41, 200, 60)
OF_DEFECTS = Estimate(0.8, 0.65, 0.88, 40, 32)
OF_GOOD = Estimate(0.1, 0.04, 0.25, 50, 5)


def test_a_corrected_rate_has_limits_by_the_distances_of_all_three_shares() -> None:
    found = combine(VerdictShares(JUDGED, OF_DEFECTS, OF_GOOD))
    assert found is not None
    rate = 0.3 * 0.8 + 0.7 * 0.1
    assert found.rate == pytest.approx(rate, rel=1e-12)
    assert found.lower == pytest.approx(
        rate - math.sqrt((0.3 * 0.15) ** 2 + (0.7 * 0.06) ** 2 + (0.7 * 0.08) ** 2), rel=1e-12
    )
    assert found.upper == pytest.approx(
        rate + math.sqrt((0.3 * 0.08) ** 2 + (0.7 * 0.15) ** 2 + (0.7 * 0.11) ** 2), rel=1e-12
    )


def test_where_a_judge_is_upside_down_more_of_its_defects_are_fewer_defects() -> None:
    found = combine(VerdictShares(JUDGED, OF_GOOD, OF_DEFECTS))
    assert found is not None
    rate = 0.3 * 0.1 + 0.7 * 0.8
    assert found.rate == pytest.approx(rate, rel=1e-12)
    assert found.lower == pytest.approx(
        rate - math.sqrt((0.3 * 0.06) ** 2 + (0.7 * 0.15) ** 2 + (0.7 * 0.11) ** 2), rel=1e-12
    )
    assert found.upper == pytest.approx(
        rate + math.sqrt((0.3 * 0.15) ** 2 + (0.7 * 0.08) ** 2 + (0.7 * 0.08) ** 2), rel=1e-12
    )


def _exactly(rate: float) -> Estimate:
    return Estimate(rate, rate, rate, 9, round(9 * rate))


def test_corrected_limits_stop_at_0_and_1() -> None:
    all_good, all_bad = _exactly(0.0), _exactly(1.0)
    low = combine(VerdictShares(Estimate(0.2, 0.0, 0.3, 9, 2), Estimate(0.5, 0.0, 0.6, 9, 4), all_good))
    high = combine(VerdictShares(Estimate(0.8, 0.7, 1.0, 9, 7), all_bad, Estimate(0.5, 0.4, 1.0, 9, 4)))
    assert low is not None
    assert high is not None
    assert low.lower == 0.0
    assert high.upper == 1.0


@pytest.mark.parametrize("verdict", [True, False])
def test_a_verdict_that_the_judge_never_gives_needs_no_label(verdict: bool) -> None:
    judged = Estimate(float(verdict), float(verdict), float(verdict), 10, 10 * verdict)
    given = (OF_DEFECTS, None) if verdict else (None, OF_GOOD)
    found, own = combine(VerdictShares(judged, *given)), OF_DEFECTS if verdict else OF_GOOD
    assert found is not None
    assert (found.rate, found.lower, found.upper) == pytest.approx((own.rate, own.lower, own.upper), rel=1e-12)
    assert combine(VerdictShares(judged, *reversed(given))) is None
    assert combine(VerdictShares(JUDGED, *given)) is None


def rising(start: Fraction, number: int) -> Fraction:
    return math.prod((start + one for one in range(number)), start=Fraction(1))


def chances(more: int, defects: int, good: int) -> Iterator[float]:
    """How often so many of some more labels are defects: beta-binomial, from half a label of each kind, exactly."""
    bad, rest = defects + Fraction(1, 2), good + Fraction(1, 2)
    for said in range(more + 1):
        yield float(math.comb(more, said) * rising(bad, said) * rising(rest, more - said) / rising(bad + rest, more))


def squares_after(defects: int, good: int, more: int, *, verdict: bool) -> tuple[float, float]:
    below = above = 0.0
    for said, chance in enumerate(chances(more, defects, good)):
        one = share_of(labels(defects + said, good + more - said, verdict=verdict), verdict=verdict)
        below += chance * (one.rate - one.lower) ** 2
        above += chance * (one.upper - one.rate) ** 2
    return below, above


@pytest.mark.parametrize(("more", "of_defects", "of_good"), [(20, 6, 14), (7, 2, 5)])
def test_what_more_labels_promise_is_the_mean_over_all_that_they_may_say(
    more: int, of_defects: int, of_good: int
) -> None:
    judged = Sums.counted(900, 270)
    found = outlook(
        judged,
        [*labels(9, 3, verdict=True), *labels(2, 30, verdict=False)],
        {True: 0.3, False: 0.7},
        more=more,
    )
    own = estimate(judged)
    assert found is not None
    assert own is not None
    bad, good = squares_after(9, 3, of_defects, verdict=True), squares_after(2, 30, of_good, verdict=False)
    by_judge = (0.75 - 2 / 32) ** 2
    ends = [
        math.sqrt(0.3**2 * one + 0.7**2 * other + by_judge * (end - 0.3) ** 2)
        for one, other, end in zip(bad, good, (own.lower, own.upper), strict=True)
    ]
    rate = 0.3 * 0.75 + 0.7 * 2 / 32
    assert found.raw == pytest.approx(0.3, rel=1e-12)
    assert found.more == more
    assert found.corrected.rate == pytest.approx(rate, rel=1e-9)
    assert found.half_width == pytest.approx((found.corrected.upper - found.corrected.lower) / 2, rel=1e-12)
    assert found.half_width_after == pytest.approx((min(ends[0], rate) + min(ends[1], 1 - rate)) / 2, rel=1e-6)


def test_what_more_labels_promise_is_no_wider_than_the_limits_are() -> None:
    found = outlook(Sums.counted(50, 5), [*labels(3, 0, verdict=True), *labels(0, 9, verdict=False)], {}, more=5)
    assert found is not None
    assert found.half_width_after <= found.half_width


def test_an_outlook_needs_what_a_corrected_rate_needs() -> None:
    assert outlook(Sums(), labels(1, 1, verdict=True), {}, more=5) is None
    assert outlook(Sums.counted(10, 5), labels(1, 1, verdict=True), {}, more=5) is None
    assert outlook(Sums.counted(10, 10), labels(1, 1, verdict=True), {True: 1.0}, more=5) is not None


WEIGHED = [
    LabelledResult(weight, verdict, truth)
    for number, (verdict, truth) in enumerate(product((True, False), (True, False)))
    for weight in [1.0 + number, 2.5, 4.0] * (3 + number)
]


def cells(given: Sequence[LabelledResult]) -> list[ConfusionCell]:
    found = []
    for kind in product((True, False), (True, False)):
        own = [one.weight for one in given if (one.verdict, one.truth) == kind]
        found.append(ConfusionCell(*kind, len(own), sum(own), sum(one**2 for one in own)))
    return found


def test_labels_that_were_summed_up_correct_a_rate_as_one_by_one() -> None:
    one, other = corrected(ONE_AND_A_HALF, WEIGHED), by_cells(ONE_AND_A_HALF, cells(WEIGHED))
    assert one is not None
    assert other is not None
    assert (other.rate, other.lower, other.upper) == pytest.approx((one.rate, one.lower, one.upper), rel=1e-9)


def test_a_kind_of_label_that_there_is_none_of_adds_nothing() -> None:
    given = [one for one in WEIGHED if one.verdict == one.truth]
    kinds = cells(given)
    nothing = [ConfusionCell(*one[:2], 0, 7.0, 9.0) if not one.labels else one for one in kinds]
    assert by_cells(ONE_AND_A_HALF, nothing) == by_cells(ONE_AND_A_HALF, [one for one in kinds if one.labels])


def test_a_rate_is_corrected_from_40_labels_on() -> None:
    given = [*labels(10, 5, verdict=True), *labels(2, 23, verdict=False)]
    assert len(given) == FEWEST == 40
    assert by_cells(ONE_AND_A_HALF, cells(given)) is not None
    assert by_cells(ONE_AND_A_HALF, cells(given[1:])) is None
    assert by_cells(Sums(), cells(given)) is None


def part(own: Estimate, other: Estimate, weight: float) -> tuple[float, float, float]:
    """`own` as a part of both, with the limits of the ratio as roots: where the limit of a difference is 0 (MOVER)."""
    a, lower_a, upper_a = (weight * one for one in (own.rate, own.lower, own.upper))
    b, lower_b, upper_b = ((1 - weight) * one for one in (other.rate, other.lower, other.upper))
    upper = root(lambda ratio: b - ratio * a + math.hypot(upper_b - b, ratio * (a - lower_a)), b / a, 1e6)
    lower = root(lambda ratio: b - ratio * a - math.hypot(b - lower_b, ratio * (upper_a - a)), 0.0, b / a)
    return a / (a + b), 1 / (1 + upper), 1 / (1 + lower)


def over_rates(own: Estimate, other: Estimate, judged: Estimate) -> tuple[float, float, float]:
    value, lower, upper = part(own, other, judged.rate)
    below, above = (abs(part(own, other, end)[0] - value) for end in (judged.lower, judged.upper))
    return value, value - math.hypot(value - lower, below), value + math.hypot(upper - value, above)


def turned(one: Estimate) -> Estimate:
    return Estimate(1 - one.rate, 1 - one.upper, 1 - one.lower, one.judged, one.judged - one.defects)


KNOWN = [
    VerdictShares(JUDGED, OF_DEFECTS, OF_GOOD),
    VerdictShares(
        Estimate(0.1, 0.08, 0.13, 900, 90), Estimate(0.6, 0.45, 0.74, 50, 30), Estimate(0.05, 0.03, 0.09, 200, 10)
    ),
    VerdictShares(
        Estimate(0.7, 0.66, 0.73, 900, 630), Estimate(0.9, 0.8, 0.97, 70, 63), Estimate(0.3, 0.2, 0.42, 60, 18)
    ),
]


@pytest.mark.parametrize("known", KNOWN)
def test_limits_of_sensitivity_are_those_of_a_ratio_and_of_the_judged_rate(known: VerdictShares) -> None:
    found = sensitivity(known)
    assert found is not None
    assert known.of_defects is not None
    assert known.of_good is not None
    expected = over_rates(known.of_defects, known.of_good, known.judged)
    assert (found.value, found.lower, found.upper) == pytest.approx(expected, rel=1e-9)
    assert found.effective == 0.0


@pytest.mark.parametrize("known", KNOWN)
def test_specificity_is_the_sensitivity_of_the_same_judge_with_good_and_bad_exchanged(known: VerdictShares) -> None:
    found = specificity(known)
    assert found is not None
    assert known.of_defects is not None
    assert known.of_good is not None
    expected = over_rates(turned(known.of_good), turned(known.of_defects), turned(known.judged))
    assert (found.value, found.lower, found.upper) == pytest.approx(expected, rel=1e-9)
    assert found.effective == 0.0


def test_without_defects_there_is_no_sensitivity_and_without_labels_neither_share() -> None:
    never = Estimate(0.0, 0.0, 0.1, 10, 0)
    assert sensitivity(VerdictShares(JUDGED, never, never)) is None
    for given in ((None, OF_GOOD), (OF_DEFECTS, None)):
        assert sensitivity(VerdictShares(JUDGED, *given)) is None
        assert specificity(VerdictShares(JUDGED, *given)) is None


def test_where_a_share_may_be_0_so_may_be_the_sensitivity_and_where_it_may_be_all_it_may_be_1() -> None:
    wide = sensitivity(
        VerdictShares(Estimate(0.3, 0.3, 0.3, 9, 3), Estimate(0.4, 0.0, 0.9, 9, 4), Estimate(0.1, 0.1, 0.1, 9, 1))
    )
    assert wide is not None
    assert (wide.lower, wide.upper) == (0.0, 1.0)


def fewer(before: tuple[int, int], lately: tuple[int, int]) -> Fraction:
    """The chance of so few hits or fewer lately, by counting the ways to share out the hits."""
    hits, misses, late = before[0] + lately[0], before[1] + lately[1], sum(lately)
    ways = sum(
        math.comb(hits, found) * math.comb(misses, late - found) for found in range(lately[0] + 1) if found <= late
    )
    return Fraction(ways, math.comb(hits + misses, late))


@pytest.mark.parametrize(
    ("before", "lately"),
    [
        (LabelCounts(8, 2, 3, 40), LabelCounts(3, 4, 2, 11)),
        (LabelCounts(20, 5, 1, 30), LabelCounts(6, 2, 4, 12)),
        (LabelCounts(2, 9, 5, 5), LabelCounts(1, 12, 9, 3)),
        (LabelCounts(4, 4, 4, 4), LabelCounts(9, 1, 0, 7)),
    ],
)
def test_the_chance_of_labels_as_bad_is_the_exact_one_of_the_less_likely_test_doubled(
    before: LabelCounts, lately: LabelCounts
) -> None:
    found = fewer((before.found, before.missed), (lately.found, lately.missed))
    passed = fewer((before.passed, before.alarmed), (lately.passed, lately.alarmed))
    assert chance_if_as_good(before, lately) == pytest.approx(float(min(2 * min(found, passed), 1)), rel=1e-9)


def test_without_labels_nothing_has_changed() -> None:
    assert chance_if_as_good(LabelCounts(0, 0, 0, 0), LabelCounts(0, 0, 0, 0)) == 1.0


@pytest.mark.parametrize(("number", "chosen"), [(0, 0), (7, 3), (52, 5), (10, 10)])
def test_the_number_of_ways_to_choose_is_a_binomial_coefficient(number: int, chosen: int) -> None:
    assert math.exp(log_choose(number, chosen)) == pytest.approx(math.comb(number, chosen), rel=1e-9)


def kappa(cells: Sequence[float]) -> float:
    """Of shares of the traffic: both a defect, the first only, the second only, neither."""
    both, first, second, neither = cells
    chance = (both + first) * (both + second) + (second + neither) * (first + neither)
    return (both + neither - chance) / (1 - chance)


def kappa_error(cells: Sequence[float], number: float) -> float:
    """The standard error by the delta method, with slopes by small differences."""
    slopes = []
    for at in range(4):
        up, down = ([one + step * (number == at) for number, one in enumerate(cells)] for step in (1e-6, -1e-6))
        slopes.append((kappa(up) - kappa(down)) / 2e-6)
    mean = sum(one * slope for one, slope in zip(cells, slopes, strict=True))
    return math.sqrt(sum(one * (slope - mean) ** 2 for one, slope in zip(cells, slopes, strict=True)) / number)


@pytest.mark.parametrize("weights", [(20, 5, 10, 15), (3, 1, 2, 9), (40, 2, 7, 5), (1, 6, 5, 2)])
def test_limits_of_kappa_are_those_of_the_delta_method_with_half_an_answer_more_of_each_kind(
    weights: tuple[int, int, int, int],
) -> None:
    kinds = list(product((True, False), (True, False)))
    pairs = [(*kind, 2.0) for kind, number in zip(kinds, weights, strict=True) for _ in range(number)]
    found, whole = agreement(pairs), sum(weights)
    assert found is not None
    pulled = [(one + 0.5) / (whole + 2) for one in weights]
    half = 1.959964 * kappa_error(pulled, whole + 2)
    value = kappa([one / whole for one in weights])
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.lower == pytest.approx(max(min(kappa(pulled) - half, value), -1), rel=1e-6)
    assert found.upper == pytest.approx(min(max(kappa(pulled) + half, value), 1), rel=1e-6)
    assert found.share == pytest.approx((weights[0] + weights[3]) / whole, rel=1e-9)
    assert found.both == whole


def test_kappa_of_answers_of_unequal_weight_counts_them_as_fewer_equal_ones() -> None:
    pairs = [
        (True, True, 3.0),
        (True, False, 1.0),
        (False, True, 2.0),
        (False, False, 5.0),
        (True, True, 1.0),
        (False, False, 4.0),
    ]
    number = 16**2 / (9 + 1 + 4 + 25 + 1 + 16)
    pulled = [(number * one / 16 + 0.5) / (number + 2) for one in (4, 1, 2, 9)]
    found = agreement(pairs)
    assert found is not None
    assert found.value == pytest.approx(kappa([4 / 16, 1 / 16, 2 / 16, 9 / 16]), rel=1e-9)
    assert found.lower == pytest.approx(kappa(pulled) - 1.959964 * kappa_error(pulled, number + 2), rel=1e-6)


def test_kappa_needs_answers_of_some_weight() -> None:
    assert agreement([(True, False, 0.0), (False, True, 0.0)]) is None


def test_two_that_always_contradict_each_other_have_a_kappa_of_minus_1_at_an_even_share() -> None:
    found = agreement([(True, False, 1.0), (False, True, 1.0)] * 50)
    assert found is not None
    assert found.value == pytest.approx(-1.0)
    assert found.lower >= -1.0
