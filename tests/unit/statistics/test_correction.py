"""The corrected rate: what labels say of a judge, and what is left of its errors."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from monitor.statistics.correction import (
    ConfusionCell,
    LabelledResult,
    by_difference,
    by_quality,
    quality,
    quality_of,
    surely_corrected,
)
from monitor.statistics.rates import Estimate, Sums, estimate

weights = st.floats(min_value=0.01, max_value=1e4)
labels = st.lists(st.builds(LabelledResult, weights, st.booleans(), st.booleans()), min_size=1, max_size=30)


def counts(found: int, missed: int, alarmed: int, passed: int, weight: float = 1.0) -> list[LabelledResult]:
    return [
        *[LabelledResult(weight, True, True)] * found,
        *[LabelledResult(weight, False, True)] * missed,
        *[LabelledResult(weight, True, False)] * alarmed,
        *[LabelledResult(weight, False, False)] * passed,
    ]


def uniform(judged: int, defects: int) -> Sums:
    return Sums(judged, defects, float(judged), float(defects), float(defects), float(judged - defects))


@given(labels)
def test_shares_lie_between_their_limits_and_count_every_label(given_labels: list[LabelledResult]) -> None:
    found = quality(given_labels)
    assert found.defects + found.good == len(given_labels)
    for share in (found.sensitivity, found.specificity):
        if share is not None:
            assert 0 <= share.lower <= share.value + 1e-9
            assert share.value - 1e-9 <= share.upper <= 1
            assert share.effective <= len(given_labels) + 1e-6


@given(labels, st.floats(min_value=0.1, max_value=1e3))
def test_scaling_all_weights_changes_nothing(given_labels: list[LabelledResult], factor: float) -> None:
    scaled = quality([LabelledResult(one.weight * factor, one.verdict, one.truth) for one in given_labels])
    for before, after in zip(
        (quality(given_labels).sensitivity, quality(given_labels).specificity),
        (scaled.sensitivity, scaled.specificity),
        strict=True,
    ):
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert after.value == pytest.approx(before.value)
            assert after.lower == pytest.approx(before.lower, abs=1e-9)


def test_a_label_of_one_kind_only_leaves_the_other_unknown() -> None:
    found = quality(counts(3, 1, 0, 0))
    assert found.specificity is None
    assert found.sensitivity is not None
    assert found.sensitivity.value == 0.75


def test_a_label_counts_for_the_traffic_that_its_result_stands_for() -> None:
    found = quality([LabelledResult(30.0, True, True), LabelledResult(10.0, False, True)])
    assert found.sensitivity is not None
    assert found.sensitivity.value == pytest.approx(0.75)


@given(st.integers(100, 400), st.integers(100, 400), st.floats(0.05, 0.95), st.floats(0.6, 1.0), st.floats(0.6, 1.0))
def test_correcting_undoes_exactly_what_the_judge_does(
    defects: int, good: int, rate: float, sensitivity: float, specificity: float
) -> None:
    """What a judge of known quality shows of a rate, corrected, is that rate again."""
    found, passed = round(defects * sensitivity), round(good * specificity)
    judge = quality(counts(found, defects - found, good - passed, passed))
    shown = rate * found / defects + (1 - rate) * (1 - passed / good)
    assume(found / defects + passed / good > 1.05)
    corrected = by_quality(Sums(1000, 1, 1000.0, 1000 * shown, 1000 * shown, 1000 * (1 - shown)), judge)
    assert corrected is not None
    assert corrected.rate == pytest.approx(rate, abs=1e-6)
    assert 0 <= corrected.lower <= corrected.rate <= corrected.upper <= 1


@pytest.mark.parametrize(("found", "missed", "alarmed", "passed"), [(99, 0, 10, 500), (100, 20, 5, 94), (0, 0, 0, 900)])
def test_nothing_is_corrected_with_fewer_than_a_hundred_labels_of_each_kind(
    found: int, missed: int, alarmed: int, passed: int
) -> None:
    assert by_quality(uniform(1000, 50), quality(counts(found, missed, alarmed, passed))) is None


def test_a_judge_no_better_than_chance_corrects_nothing() -> None:
    assert by_quality(uniform(1000, 50), quality(counts(50, 50, 60, 60))) is None


def test_nothing_judged_is_nothing_to_correct() -> None:
    assert by_quality(Sums(), quality(counts(100, 0, 0, 100))) is None
    assert by_difference(Sums(), counts(100, 0, 0, 100)) is None


def test_audits_that_agree_leave_the_rate_as_it_is() -> None:
    corrected = by_difference(uniform(1000, 50), counts(10, 0, 0, 190, weight=7.0))
    assert corrected is not None
    assert corrected.rate == pytest.approx(0.05)


def test_too_few_audits_correct_nothing() -> None:
    assert by_difference(uniform(1000, 50), counts(10, 0, 0, 189)) is None


@given(st.lists(st.builds(LabelledResult, weights, st.booleans(), st.booleans()), min_size=200, max_size=220))
def test_a_corrected_rate_is_a_share_within_its_limits(audits: list[LabelledResult]) -> None:
    for corrected in (by_difference(uniform(1000, 50), audits), by_quality(uniform(1000, 50), quality(audits))):
        if corrected is not None:
            assert 0 <= corrected.lower <= corrected.rate <= corrected.upper <= 1


@pytest.mark.parametrize(("kind", "width"), [("quality", 0.058), ("audits", 0.046)])
def test_corrected_limits_hold_where_those_of_the_raw_rate_never_do(kind: str, width: float) -> None:
    """2 % defects; a judge that finds 80 % of them and calls 3 % of the good ones defective shows 4.5 %."""
    rng, runs, covered, widths = random.Random(5), 300, 0, 0.0
    raw_covered = 0
    for _ in range(runs):
        truth = [rng.random() < 0.02 for _ in range(1000)]
        verdicts = [rng.random() < (0.8 if one else 0.03) for one in truth]
        shown = sum(verdicts)
        if kind == "quality":
            found, passed = (sum(rng.random() < share for _ in range(100)) for share in (0.8, 0.97))
            corrected = by_quality(uniform(1000, shown), quality(counts(found, 100 - found, 100 - passed, passed)))
        else:
            drawn = zip(verdicts[:200], truth[:200], strict=True)
            corrected = by_difference(uniform(1000, shown), [LabelledResult(1.0, *one) for one in drawn])
        assert corrected is not None
        covered += corrected.lower <= 0.02 <= corrected.upper
        widths += corrected.upper - corrected.lower
        raw = estimate(uniform(1000, shown))
        assert raw is not None
        raw_covered += raw.lower <= 0.02 <= raw.upper
    assert covered / runs >= 0.94
    assert raw_covered / runs < 0.05
    assert widths / runs == pytest.approx(width, rel=0.1)


@given(labels)
def test_labels_that_were_summed_up_say_the_same_as_one_by_one(given_labels: list[LabelledResult]) -> None:
    kinds = [(verdict, truth) for verdict in (True, False) for truth in (True, False)]
    cells = []
    for verdict, truth in kinds:
        ours = [one.weight for one in given_labels if (one.verdict, one.truth) == (verdict, truth)]
        cells.append(ConfusionCell(verdict, truth, len(ours), sum(ours), sum(one**2 for one in ours)))
    alone, together = quality(given_labels), quality_of(cells)
    assert (together.defects, together.good) == (alone.defects, alone.good)
    for one, other in ((alone.sensitivity, together.sensitivity), (alone.specificity, together.specificity)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (other.value, other.effective) == pytest.approx((one.value, one.effective))


def test_a_few_heavy_labels_make_wide_limits():
    # 50 defects of weight 2 that the judge found, one of weight 25 that it missed: the one decides.
    known = quality([*[LabelledResult(2.0, True, True)] * 50, LabelledResult(25.0, False, True)]).sensitivity
    assert known is not None
    assert known.value == pytest.approx(0.8)
    assert known.effective < 7


def test_limits_for_alerts_move_outwards_by_what_is_not_known_of_the_judge():
    raw = Estimate(0.2, 0.15, 0.26, 1000, 200)
    few, many = (quality(counts(9 * n, n, n, 19 * n)) for n in (12, 1000))
    one, other = surely_corrected(raw, few), surely_corrected(raw, many)
    assert one is not None
    assert other is not None
    assert one.rate == pytest.approx((0.2 - 0.05) / 0.85)
    assert one.lower < other.lower < one.rate < other.upper < one.upper
    assert other.lower == pytest.approx((0.15 - 0.05) / 0.85, abs=0.01)


def test_with_too_few_labels_or_a_judge_that_guesses_no_limit_is_corrected():
    raw = Estimate(0.2, 0.15, 0.26, 1000, 200)
    assert surely_corrected(raw, quality(counts(80, 19, 5, 95))) is None
    assert surely_corrected(raw, quality(counts(50, 50, 50, 50))) is None
