"""The formulas of the corrected rate, worked out once more by hand."""

from __future__ import annotations

import math

import pytest

from monitor.statistics.correction import (
    ConfusionCell,
    JudgeQuality,
    LabelledResult,
    ShareInterval,
    by_difference,
    by_quality,
    quality,
    quality_of,
    surely_corrected,
)
from monitor.statistics.rates import Estimate, Sums, effective_judged, estimate

Z = 1.959964
RAW = Sums(500, 40, 900.0, 90.0, 250.0, 1700.0)
JUDGE = JudgeQuality(ShareInterval(0.8, 0.7, 0.88, 110.0), ShareInterval(0.95, 0.9, 0.98, 240.0), 130, 260)


def pulled(share: float, number: float) -> tuple[float, float]:
    """A share with one label more on each side, and of how many labels."""
    return (share * number + 1) / (number + 2), number + 2


@pytest.mark.parametrize("defects", [90.0, 240.0, 610.0])
def test_a_rate_is_corrected_as_rogan_and_gladen_do_with_the_limits_of_lang_and_reiczigel(defects: float) -> None:
    raw = Sums(500, 40, 900.0, defects, 250.0, 1700.0)
    number, shown = effective_judged(raw), defects / 900
    (found, found_of), (passed, passed_of) = pulled(0.8, 110), pulled(0.95, 240)
    drawn, drawn_of = (number * shown + Z**2 / 2) / (number + Z**2), number + Z**2
    middle = (drawn + passed - 1) / (found + passed - 1)
    by_found, by_passed = found * (1 - found) / found_of, passed * (1 - passed) / passed_of
    spread = math.sqrt(drawn * (1 - drawn) / drawn_of + middle**2 * by_found + (1 - middle) ** 2 * by_passed)
    half = Z * spread / (found + passed - 1)
    shift = 2 * Z**2 * (middle * by_found - (1 - middle) * by_passed)
    rate = (shown + 0.95 - 1) / (0.8 + 0.95 - 1)
    corrected = by_quality(raw, JUDGE)
    assert corrected is not None
    assert corrected.rate == pytest.approx(rate, rel=1e-9)
    assert corrected.lower == pytest.approx(max(middle + shift - half, 0), rel=1e-9)
    assert corrected.upper == pytest.approx(min(middle + shift + half, 1), rel=1e-9)


@pytest.mark.parametrize(("shown", "rate"), [(9.0, 0.0), (890.0, 1.0)])
def test_a_corrected_rate_is_a_share_even_where_the_judge_shows_what_it_never_could(shown: float, rate: float) -> None:
    corrected = by_quality(Sums(500, 40, 900.0, shown, 250.0, 1700.0), JUDGE)
    assert corrected is not None
    assert corrected.rate == rate
    assert 0 <= corrected.lower <= rate <= corrected.upper <= 1


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.5, 0.5), (0.3, 0.6), (0.75, 0.25)])
def test_a_judge_that_guesses_corrects_nothing(sensitivity: float, specificity: float) -> None:
    judge = JudgeQuality(
        ShareInterval(sensitivity, 0.2, 0.7, 500.0), ShareInterval(specificity, 0.2, 0.7, 500.0), 500, 500
    )
    assert by_quality(RAW, judge) is None
    assert surely_corrected(Estimate(0.2, 0.1, 0.3, 100, 20), judge) is None


def test_a_judge_that_may_be_guessing_as_its_labels_are_worth_few_corrects_nothing() -> None:
    judge = JudgeQuality(ShareInterval(0.9, 0.1, 1.0, 0.5), ShareInterval(0.2, 0.1, 0.9, 400.0), 500, 500)
    assert by_quality(RAW, judge) is None
    assert surely_corrected(Estimate(0.2, 0.1, 0.3, 100, 20), judge) is None


@pytest.mark.parametrize(("defects", "good", "enough"), [(100, 100, True), (99, 100, False), (100, 99, False)])
def test_a_correction_needs_100_labels_of_each_kind(defects: int, good: int, enough: bool) -> None:
    judge = JudgeQuality(JUDGE.sensitivity, JUDGE.specificity, defects, good)
    assert judge.enough is enough
    assert (by_quality(RAW, judge) is not None) is enough
    assert (surely_corrected(Estimate(0.2, 0.1, 0.3, 100, 20), judge) is not None) is enough


@pytest.mark.parametrize(
    "judge",
    [JudgeQuality(None, JUDGE.specificity, 500, 500), JudgeQuality(JUDGE.sensitivity, None, 500, 500)],
    ids=["sensitivity", "specificity"],
)
def test_a_correction_needs_both_shares(judge: JudgeQuality) -> None:
    assert by_quality(RAW, judge) is None
    assert surely_corrected(Estimate(0.2, 0.1, 0.3, 100, 20), judge) is None


AUDITS = [
    LabelledResult(1.0 + number % 4, number % 9 == 0, (number % 9 == 0 and number % 4 != 1) or number % 25 == 7)
    for number in range(260)
]


@pytest.mark.parametrize("judged", [500, 300, 200])
def test_audits_correct_by_the_mean_difference_with_one_more_disagreement_of_each_kind(judged: int) -> None:
    raw = Sums(judged, 40, 900.0, 150.0, 250.0, 1700.0)
    whole = sum(one.weight for one in AUDITS)
    mean = sum(one.weight * (one.truth - one.verdict) for one in AUDITS) / whole
    typical = sum(one.weight**2 for one in AUDITS) / whole
    off = sum(one.weight**2 * (one.truth - one.verdict - mean) ** 2 for one in AUDITS) + 2 * typical**2
    shown, rate = 150 / 900, 150 / 900 + mean
    variance = off / whole**2 * max(1 - 260 / judged, 0) + max(
        rate * (1 - rate), shown * (1 - shown)
    ) / effective_judged(raw)
    corrected = by_difference(raw, AUDITS)
    assert corrected is not None
    assert mean != 0
    assert corrected.rate == pytest.approx(rate, rel=1e-9)
    assert corrected.lower == pytest.approx(rate - Z * math.sqrt(variance), rel=1e-9)
    assert corrected.upper == pytest.approx(rate + Z * math.sqrt(variance), rel=1e-9)


def test_a_rate_that_audits_lower_has_the_variance_of_the_raw_one() -> None:
    audits = [LabelledResult(1.0, number % 4 == 0, number % 8 == 0) for number in range(200)]
    raw = Sums(10**9, 1, 1000.0, 300.0, 300.0, 700.0)
    corrected = by_difference(raw, audits)
    off = sum((one.truth - one.verdict + 0.125) ** 2 for one in audits) + 2
    variance = off / 200**2 * (1 - 200 / 10**9) + 0.3 * 0.7 / effective_judged(raw)
    assert corrected is not None
    assert corrected.rate == pytest.approx(0.175)
    assert corrected.upper - corrected.rate == pytest.approx(Z * math.sqrt(variance), rel=1e-9)


@pytest.mark.parametrize(("verdict", "shown", "rate"), [(True, 1.0, 0.0), (False, 899.0, 1.0)])
def test_audits_correct_to_a_share(verdict: bool, shown: float, rate: float) -> None:
    audits = [LabelledResult(1.0, verdict, not verdict and number < 190) for number in range(200)]
    corrected = by_difference(Sums(500, 1, 900.0, shown, 250.0, 1700.0), audits)
    assert corrected is not None
    assert corrected.rate == rate
    assert 0 <= corrected.lower <= rate <= corrected.upper <= 1


def test_audits_correct_from_200_on() -> None:
    assert by_difference(RAW, AUDITS[:200]) is not None
    assert by_difference(RAW, AUDITS[:199]) is None


def test_limits_for_alerts_are_each_corrected_and_moved_by_a_one_sided_95_in_100_of_the_judge() -> None:
    (found, found_of), (passed, passed_of) = pulled(0.8, 110), pulled(0.95, 240)
    by_found, by_passed = found * (1 - found) / found_of, passed * (1 - passed) / passed_of

    def at(rate: float, side: int) -> float:
        point = (rate - 0.05) / 0.75
        return point + side * 1.645 * math.sqrt(point**2 * by_found + (1 - point) ** 2 * by_passed) / 0.75

    corrected = surely_corrected(Estimate(0.3, 0.22, 0.41, 400, 120), JUDGE)
    assert corrected is not None
    assert corrected.rate == pytest.approx(at(0.3, 0), rel=1e-9)
    assert corrected.lower == pytest.approx(at(0.22, -1), rel=1e-9)
    assert corrected.upper == pytest.approx(at(0.41, 1), rel=1e-9)
    assert (corrected.judged, corrected.defects) == (400, 120)


def test_limits_for_alerts_stay_shares() -> None:
    corrected = surely_corrected(Estimate(0.5, 0.01, 0.99, 400, 200), JUDGE)
    assert corrected is not None
    assert (corrected.lower, corrected.upper) == (0.0, 1.0)
    below = surely_corrected(Estimate(0.01, 0.0, 0.02, 400, 4), JUDGE)
    assert below is not None
    assert below.rate == 0.0
    assert 0 < below.upper < 0.1


CELLS = (
    ConfusionCell(True, True, 40, 70.0, 150.0),
    ConfusionCell(False, True, 10, 25.0, 80.0),
    ConfusionCell(True, False, 6, 9.0, 16.0),
    ConfusionCell(False, False, 90, 120.0, 200.0),
)


@pytest.mark.parametrize("at_random", [False, True])
def test_shares_of_a_judge_are_by_the_weights_of_its_cells(at_random: bool) -> None:
    judge = quality_of(CELLS, at_random=at_random)
    for share, sums, value in (
        (judge.sensitivity, Sums(50, 40, 95.0, 70.0, 150.0, 80.0), 70 / 95),
        (judge.specificity, Sums(96, 90, 129.0, 120.0, 200.0, 16.0), 120 / 129),
    ):
        expected = estimate(sums)
        assert share is not None
        assert expected is not None
        assert share.value == pytest.approx(value, rel=1e-12)
        assert (share.lower, share.upper) == pytest.approx((expected.lower, expected.upper), rel=1e-9)
        assert share.effective == pytest.approx(effective_judged(sums), rel=1e-12)
    assert (judge.defects, judge.good, judge.cells, judge.at_random) == (50, 96, CELLS, at_random)


def test_a_cell_without_labels_or_without_weight_says_nothing() -> None:
    nothing = (ConfusionCell(True, True, 0, 5.0, 5.0), ConfusionCell(False, True, 0, 5.0, 5.0))
    assert quality_of(nothing).sensitivity is None
    light = quality_of([ConfusionCell(True, True, 3, 0.5, 0.1), ConfusionCell(False, True, 3, 0.25, 0.03)]).sensitivity
    assert light is not None
    assert light.value == pytest.approx(2 / 3)
    assert (
        quality_of([ConfusionCell(True, True, 3, 0.0, 5.0), ConfusionCell(True, True, 3, 5.0, 0.0)]).sensitivity is None
    )


def test_a_quality_from_labels_one_by_one_has_no_cells_and_is_not_taken_for_random() -> None:
    judge = quality(AUDITS)
    assert (judge.cells, judge.at_random) == ((), False)
    assert judge.defects == sum(one.truth for one in AUDITS)
    assert judge.good == 260 - judge.defects


def test_sums_whose_defects_outweigh_them_by_what_was_rounded_count_as_all() -> None:
    """Weights are added up for years, the parts and the whole in another order."""
    raw = Sums(500, 500, 900.0, 909.0, 2500.0, 0.0)
    audits = [LabelledResult(1.0, True, number % 5 > 0) for number in range(200)]
    one, other = by_difference(raw, audits), by_difference(Sums(500, 500, 900.0, 900.0, 2500.0, 0.0), audits)
    assert one == other
    assert one is not None
    assert one.rate == pytest.approx(0.8)
    assert by_quality(raw, JUDGE) == by_quality(Sums(500, 500, 900.0, 900.0, 2500.0, 0.0), JUDGE)
