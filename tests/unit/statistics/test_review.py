"""What labels say of a judge: limits that hold for few of them, an outlook that comes true, and agreement."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.label import LabelVerdict
from monitor.statistics.correction import LabelledResult
from monitor.statistics.rates import Estimate, Sums
from monitor.statistics.review import (
    LabelCounts,
    VerdictShares,
    agreement,
    chance_if_as_good,
    combine,
    corrected,
    outlook,
    sensitivity,
    shares,
    specificity,
    truth_of,
)
from tests.support.labels import label

weights = st.floats(0.5, 200.0)
labels_ = st.lists(st.builds(LabelledResult, weights, st.booleans(), st.booleans()), max_size=60)
judged_ = st.tuples(st.integers(1, 500), st.floats(0, 1)).map(lambda of: Sums.counted(of[0], round(of[0] * of[1])))


def labels(found: int, alarmed: int, missed: int, passed: int) -> list[LabelledResult]:
    numbers = {(True, True): found, (True, False): alarmed, (False, True): missed, (False, False): passed}
    return [LabelledResult(1.0, *kind) for kind, number in numbers.items() for _ in range(number)]


@given(judged_, labels_)
def test_rates_and_shares_lie_between_their_limits(judged: Sums, given_labels: list[LabelledResult]):
    rate, known = corrected(judged, given_labels), shares(judged, given_labels)
    assert known is not None
    found = [rate, known.of_defects, known.of_good]
    assert all(0 <= one.lower <= one.rate <= one.upper <= 1 for one in found if one is not None)
    for one in (sensitivity(known), specificity(known)):
        assert one is None or 0 <= one.lower <= one.value <= one.upper <= 1


@given(labels_, st.floats(0.01, 100.0))
def test_the_unit_of_weights_changes_nothing(given_labels: list[LabelledResult], factor: float):
    judged = Sums.counted(100, 20)
    scaled = [LabelledResult(one.weight * factor, one.verdict, one.truth) for one in given_labels]
    one, other = corrected(judged, given_labels), corrected(judged, scaled)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert (one.rate, one.lower, one.upper) == pytest.approx((other.rate, other.lower, other.upper), abs=1e-6)


def test_the_corrected_rate_combines_both_verdicts_by_how_often_they_are_given():
    rate = corrected(Sums.counted(1000, 100), labels(40, 10, 5, 95))
    assert rate is not None
    assert rate.rate == pytest.approx(0.1 * 0.8 + 0.9 * 0.05)


def test_sensitivity_and_specificity_are_of_all_traffic_and_not_of_the_labels():
    known = shares(Sums.counted(1000, 100), labels(40, 10, 5, 95))
    assert known is not None
    found, passed = sensitivity(known), specificity(known)
    assert found is not None
    assert passed is not None
    assert found.value == pytest.approx(0.08 / (0.08 + 0.045))
    assert passed.value == pytest.approx(0.855 / (0.855 + 0.02))


def test_limits_of_sensitivity_are_those_of_the_share_that_is_not_known_where_all_else_is():
    known = VerdictShares(Estimate(0.1, 0.1, 0.1, 1000, 100), Estimate(0.8, 0.7, 0.85, 50, 40), _exactly(0.05))
    found = sensitivity(known)
    assert found is not None
    assert found.lower == pytest.approx(0.07 / (0.07 + 0.045))
    assert found.upper == pytest.approx(0.085 / (0.085 + 0.045))


@pytest.mark.parametrize(("of_defects", "of_good", "limits"), [(0.9, 0.1, (0.26, 0.58)), (0.1, 0.5, (0.26, 0.42))])
def test_limits_of_the_judged_rate_move_the_corrected_rate_up_or_down_as_its_verdicts_mean_more_or_fewer_defects(
    of_defects: float, of_good: float, limits: tuple[float, float]
):
    judged = Estimate(0.3, 0.2, 0.6, 1000, 300)
    found = combine(VerdictShares(judged, _exactly(of_defects), _exactly(of_good)))
    assert found is not None
    assert (found.lower, found.upper) == pytest.approx(limits)


def _exactly(rate: float) -> Estimate:
    return Estimate(rate, rate, rate, 1000, round(1000 * rate))


def test_without_a_label_of_a_verdict_nothing_is_said():
    assert corrected(Sums.counted(1000, 100), labels(0, 0, 5, 95)) is None
    assert corrected(Sums(), labels(1, 1, 1, 1)) is None
    assert corrected(Sums.counted(1000, 0), labels(0, 0, 5, 95)) is not None  # the judge gives one verdict only


def _binomial(number: int, rate: float) -> list[float]:
    return [math.comb(number, hits) * rate**hits * (1 - rate) ** (number - hits) for hits in range(number + 1)]


def _alone(number: int, *, verdict: bool) -> list[Estimate]:
    found = []
    for hits in range(number + 1):
        known = shares(Sums.counted(2, 1), [LabelledResult(1.0, verdict, n < hits) for n in range(number)])
        assert known is not None
        one = known.of_defects if verdict else known.of_good
        assert one is not None
        found.append(one)
    return found


@pytest.mark.parametrize(("rate", "found", "passed"), [(0.05, 0.7, 0.9), (0.1, 0.7, 0.99), (0.1, 0.95, 0.99)])
@pytest.mark.parametrize("number", [40, 100])
def test_the_limits_hold_94_times_in_100_or_more(rate: float, found: float, passed: float, number: int):
    said = rate * found + (1 - rate) * (1 - passed)
    bad = max(round(0.25 * number), 1)
    of_defects, of_good = rate * found / said, rate * (1 - found) / (1 - said)
    judged = Estimate(said, said, said, 1000, 100)
    goods = list(zip(_binomial(number - bad, of_good), _alone(number - bad, verdict=False), strict=True))
    held = 0.0
    for chance, one in zip(_binomial(bad, of_defects), _alone(bad, verdict=True), strict=True):
        for other, good in goods:
            known = combine(VerdictShares(judged, one, good))
            assert known is not None
            held += chance * other * (known.lower <= rate <= known.upper)
    assert held >= 0.94


def test_more_labels_promise_narrower_limits_and_none_promise_nothing():
    judged, drawn = Sums.counted(1000, 100), {True: 0.3, False: 0.7}
    found = {more: outlook(judged, labels(15, 5, 2, 60), drawn, more=more) for more in (0, 40, 200)}
    widths = [one.half_width_after for one in found.values() if one is not None]
    assert len(widths) == 3
    assert widths == sorted(widths, reverse=True)
    assert found[0] is not None
    assert widths[0] == pytest.approx(found[0].half_width, rel=0.02)


@pytest.mark.parametrize(("defects", "missed", "passed"), [(1_000, 2, 58), (5_000, 30, 30)])
def test_what_40_more_labels_promise_is_what_comes_on_average(defects: int, missed: int, passed: int):
    # All that 40 labels may say, each as often as the true shares make it.
    judged, drawn = Sums.counted(10_000, defects), {True: 0.3, False: 0.7}
    promised = outlook(judged, labels(16, 4, missed, passed), drawn, more=40)
    assert promised is not None
    came = 0.0
    for found, chance in enumerate(_binomial(12, 0.8)):
        for more, other in enumerate(_binomial(28, missed / 60)):
            rate = corrected(judged, labels(16 + found, 16 - found, missed + more, passed + 28 - more))
            assert rate is not None
            came += chance * other * (rate.upper - rate.lower) / 2
    assert promised.half_width_after == pytest.approx(came, rel=0.1)


# -- people


GOOD, DEFECT, CANNOT_TELL = LabelVerdict


@pytest.mark.parametrize(
    ("said", "truth"),
    [
        ([GOOD], False),
        ([DEFECT, GOOD, DEFECT], True),
        ([DEFECT, GOOD], False),
        ([GOOD, DEFECT], True),
        ([CANNOT_TELL, DEFECT], True),
        ([CANNOT_TELL], None),
        ([], None),
    ],
)
def test_most_people_decide_and_the_latest_if_they_are_divided(said: list[LabelVerdict], truth: bool | None):
    assert truth_of([label(reviewer=f"r{n}", verdict=one) for n, one in enumerate(said)]) is truth


def test_kappa_is_that_of_a_known_example():
    # Fleiss, Cohen and Everitt: a two by two table with 20, 5, 10 and 15 answers has a kappa of 0.4.
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    found = agreement([(*one, 3.0) for one in pairs])
    assert found is not None
    assert found.value == pytest.approx(0.4)
    assert found.share == pytest.approx(0.7)
    assert found.both == 50
    assert found.lower == pytest.approx(0.15, abs=0.03)
    assert found.upper == pytest.approx(0.64, abs=0.03)


def test_kappa_of_one_who_says_one_thing_only_is_not_defined():
    assert agreement([(True, True, 1.0)] * 10) is None
    assert agreement([]) is None


@given(st.lists(st.tuples(st.booleans(), st.booleans(), weights), min_size=1, max_size=40))
def test_kappa_lies_between_its_limits(pairs: list[tuple[bool, bool, float]]):
    found = agreement(pairs)
    if found is not None:
        assert -1 <= found.lower <= found.value <= found.upper <= 1
        mirrored = agreement([(other, one, weight) for one, other, weight in pairs])
        assert mirrored is not None
        assert mirrored.value == pytest.approx(found.value)


def test_few_answers_on_which_all_agree_prove_little():
    found = agreement([(True, True, 1.0), (False, False, 1.0)] * 3)
    assert found is not None
    assert found.value == 1.0
    assert found.lower < 0.5


# -- has a judge become worse?


def test_a_judge_that_misses_far_more_than_before_is_surely_worse_and_one_that_does_not_is_not():
    before = LabelCounts(found=80, missed=20, alarmed=20, passed=180)
    assert chance_if_as_good(before, LabelCounts(8, 22, 10, 60)) < 1e-5
    assert chance_if_as_good(before, LabelCounts(24, 6, 22, 48)) < 1e-3  # more false alarms
    assert chance_if_as_good(before, LabelCounts(24, 6, 7, 63)) > 0.3
    assert chance_if_as_good(before, LabelCounts(30, 0, 0, 70)) > 0.99
    assert chance_if_as_good(LabelCounts(15, 0, 0, 50), LabelCounts(1, 14, 0, 50)) < 1e-5  # it never alarms


def test_more_defects_do_not_make_a_judge_worse():
    assert chance_if_as_good(LabelCounts(80, 20, 20, 180), LabelCounts(160, 40, 10, 90)) > 0.3


def test_a_judge_that_stays_as_it_is_looks_worse_as_seldom_as_the_level_says():
    """Exactly, over all that may be labelled of 12 defects and 14 good answers in two periods."""
    sizes, found, alarmed = ((5, 7), (7, 7)), 0.7, 0.2
    chances = [
        [
            (LabelCounts(hits, bad - hits, calls, good - calls), one * other)
            for hits, one in enumerate(_binomial(bad, found))
            for calls, other in enumerate(_binomial(good, alarmed))
        ]
        for bad, good in sizes
    ]
    for level in (0.05, 0.2):
        wrong = sum(
            one * other
            for before, one in chances[0]
            for lately, other in chances[1]
            if chance_if_as_good(before, lately) <= level
        )
        assert wrong <= level


@given(*[st.lists(st.integers(0, 40), min_size=4, max_size=4).map(lambda of: LabelCounts(*of))] * 2)
def test_the_chance_is_a_chance_for_any_counts(before: LabelCounts, lately: LabelCounts):
    assert 0 <= chance_if_as_good(before, lately) <= 1
