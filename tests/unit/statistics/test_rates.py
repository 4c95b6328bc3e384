"""The estimate keeps its promises: limits hold as often as they say, and no arithmetic on sums can surprise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.model.outcome import SessionProducts
from monitor.statistics.rates import (
    Z_95,
    Estimate,
    Sums,
    doubled,
    effective_judged,
    estimate,
    judged_to_tell,
)
from monitor.statistics.session_products import SessionMemory

weights = st.floats(min_value=1e-3, max_value=1e6)
samples = st.lists(st.tuples(weights, st.booleans()), min_size=1, max_size=40)
zs = st.floats(min_value=0, max_value=5)


def add_up(sample: list[tuple[float, bool]]) -> Sums:
    return reduce(Sums.__add__, (Sums.of(weight, defect=defect) for weight, defect in sample), Sums())


def known(sums: Sums, z: float = Z_95, usual: float = 0.0) -> Estimate:
    found = estimate(sums, z, usual=usual)
    assert found is not None
    return found


def binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def test_nothing_judged_is_no_data_and_not_a_rate_of_zero() -> None:
    assert estimate(Sums(), 1.96) is None


@given(samples, zs)
def test_the_rate_lies_between_its_limits_and_all_are_shares(sample: list[tuple[float, bool]], z: float) -> None:
    found = known(add_up(sample), z)
    assert 0 <= found.lower <= found.rate <= found.upper <= 1


@given(samples, weights, st.booleans())
def test_one_more_answer_moves_the_rate_to_its_side(
    sample: list[tuple[float, bool]], weight: float, defect: bool
) -> None:
    before = known(add_up(sample)).rate
    after = known(add_up(sample) + Sums.of(weight, defect=defect)).rate
    assert after >= before * (1 - 1e-12) if defect else after <= before * (1 + 1e-12)


@given(st.integers(0, 80), st.integers(0, 80), st.floats(1.28, 3.09))
def test_with_equal_weights_a_defect_never_lowers_a_limit_and_a_good_answer_never_raises_one(
    good: int, defects: int, z: float
) -> None:
    judged = good + defects
    worse, better = known(Sums.counted(judged + 1, defects + 1), z), known(Sums.counted(judged + 1, defects), z)
    if judged:
        one = known(Sums.counted(judged, defects), z)
        assert worse.lower >= one.lower - 1e-12
        assert worse.upper >= one.upper - 1e-12
        assert better.lower <= one.lower + 1e-12
        assert better.upper <= one.upper + 1e-12


@given(st.integers(1, 80), st.floats(0, 1), st.floats(1.28, 3.09))
def test_twice_the_evidence_is_never_less_certain(judged: int, share: float, z: float) -> None:
    defects = round(judged * share)
    one, two = known(Sums.counted(judged, defects), z), known(Sums.counted(2 * judged, 2 * defects), z)
    assert two.upper - two.lower <= one.upper - one.lower + 1e-12


@given(samples, weights, zs)
def test_a_light_defect_lowers_the_upper_limit_by_a_point_at_most(
    sample: list[tuple[float, bool]], weight: float, z: float
) -> None:
    """With unequal weights it may: another typical weight makes less of the one more that is added."""
    before, after = known(add_up(sample), z), known(add_up(sample) + Sums.of(weight, defect=True), z)
    assert after.upper >= before.upper - 0.1


@given(samples, st.floats(min_value=1e-3, max_value=1e3))
def test_scaling_all_weights_changes_nothing(sample: list[tuple[float, bool]], factor: float) -> None:
    before = known(add_up(sample))
    after = known(add_up([(weight * factor, defect) for weight, defect in sample]))
    for field in ("rate", "lower", "upper"):
        assert getattr(after, field) == pytest.approx(getattr(before, field), rel=1e-6, abs=1e-9)


@given(samples, samples)
def test_sums_of_two_replicas_are_the_sums_of_all_they_judged(
    one: list[tuple[float, bool]], other: list[tuple[float, bool]]
) -> None:
    merged, whole = add_up(one) + add_up(other), add_up(one + other)
    assert (merged.judged, merged.defects, merged.top) == (whole.judged, whole.defects, whole.top)
    assert merged.weight == pytest.approx(whole.weight)
    assert merged.defect_weight == pytest.approx(whole.defect_weight)
    assert merged.defect_weight_squares == pytest.approx(whole.defect_weight_squares)


@given(samples, zs, zs)
def test_a_larger_z_only_widens(sample: list[tuple[float, bool]], one: float, other: float) -> None:
    narrow, wide = known(add_up(sample), min(one, other)), known(add_up(sample), max(one, other))
    assert wide.lower <= narrow.lower
    assert wide.upper >= narrow.upper


def test_without_defects_the_upper_limit_is_right_and_the_lower_is_zero() -> None:
    """Exactly: with no defect in n the rate is below 1 - .025^(1/n), 97.5 times in 100."""
    found = known(Sums.counted(200, 0), 1.959964)
    assert (found.rate, found.lower) == (0.0, 0.0)
    assert found.upper == pytest.approx(1 - 0.025 ** (1 / 200), rel=0.01)


def test_known_limits_of_a_poisson_count_are_met() -> None:
    """Exact 95 % limits of 10 events are 4.795 and 18.39 (chi-square tables)."""
    found = known(Sums.counted(100_000, 10), 1.959964)
    assert found.lower * 100_000 == pytest.approx(4.795, rel=0.01)
    assert found.upper * 100_000 == pytest.approx(18.39, rel=0.01)


@pytest.mark.parametrize(
    ("rate", "judged"), [(0.02, 50), (0.02, 200), (0.02, 1000), (0.005, 200), (0.1, 50), (0.3, 200)]
)
def test_the_interval_holds_the_true_rate_as_often_as_it_says(rate: float, judged: int) -> None:
    """Exact, by the binomial distribution: no seed decides."""
    chances = binomial(judged, rate)
    covered = 0.0
    for defects, chance in enumerate(chances):
        found = known(Sums.counted(judged, defects))
        if found.lower <= rate <= found.upper:
            covered += chance
    assert covered >= 0.94


@pytest.mark.parametrize(("threshold", "judged"), [(0.03, 10), (0.01, 30), (0.03, 100), (0.1, 300), (0.05, 1000)])
@pytest.mark.parametrize(("z", "nominal"), [(3.09, 0.001), (2.58, 0.005), (2.33, 0.01)])
def test_the_lower_limit_is_above_a_true_rate_no_more_often_than_promised(
    threshold: float, judged: int, z: float, nominal: float
) -> None:
    chances = binomial(judged, threshold)
    false = sum(chance for k, chance in enumerate(chances) if known(Sums.counted(judged, k), z).lower > threshold)
    assert false <= nominal * 1.1


def test_the_interval_holds_as_often_under_boosted_sampling() -> None:
    """2 % defects, 200 judged of 2000, a scorer that sees them fairly well, half of the budget spread evenly."""
    rng = random.Random(20)
    runs, p = 800, 0.1
    covered = missed_low = 0
    for _ in range(runs):
        sums, defects = Sums(), 0
        for _ in range(2000):
            defect = rng.random() < 0.02
            suspicion = 1 / (1 + math.exp(-rng.gauss(-1.0 if defect else -3.5, 1.0)))
            chosen = min(max(1.15 * p * math.sqrt(suspicion / 0.04), p / 2), 1.0)
            defects += defect
            if rng.random() < chosen:
                sums += Sums.of(1 / chosen, defect=defect)
        found = known(sums)
        covered += found.lower <= 0.02 <= found.upper
        missed_low += found.upper < 0.02
    assert covered / runs >= 0.94
    assert missed_low / runs <= 0.03


@given(samples)
def test_the_effective_number_judged_is_theirs_where_weights_are_equal_and_never_more(
    sample: list[tuple[float, bool]],
) -> None:
    assert effective_judged(add_up(sample)) <= len(sample) * (1 + 1e-9)
    equal = add_up([(7.0, defect) for _, defect in sample])
    assert effective_judged(equal) == pytest.approx(len(sample))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=300))
def test_sums_by_session_are_those_that_the_running_monitor_keeps(verdicts: list[tuple[int, bool]]) -> None:
    """In any order, also of a session that is so long that it counts as several."""
    memory = SessionMemory(ManualClock())
    kept = Sums.total(
        Sums.of(1.0, defect=defect, products=memory.add(bytes([session]), ("any",), 1.0, defect=defect))
        for session, defect in verdicts
    )
    assert Sums.by_session(verdicts) == kept


def test_a_session_that_is_shared_by_all_answers_counts_as_several() -> None:
    assert Sums.by_session([("all", False)] * 1000).every_products == 10 * 100**2


def test_the_effective_number_of_answers_that_agree_is_that_of_their_sessions() -> None:
    for defects in (0, 300, 1000):
        assert effective_judged(Sums.counted(1000, defects, 10)) == pytest.approx(100)
    independent = Sums.by_session((at // 10, at % 10 == 0) for at in range(1000))
    assert effective_judged(independent) == pytest.approx(1000), "every session has one defect of ten"


def test_good_answers_too_light_to_show_in_the_sum_are_survived() -> None:
    found = known(Sums.of(1e20, defect=True) + Sums.of(1.0, defect=False))
    assert 0 <= found.lower <= found.rate <= found.upper <= 1


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="is not a weight"):
        Sums.of(weight, defect=True)


def test_a_negative_z_is_refused() -> None:
    with pytest.raises(ValueError, match="z must be 0 or more"):
        estimate(Sums.counted(1, 1), -1)


@pytest.mark.parametrize(("threshold", "rate"), [(0.01, 0.02), (0.03, 0.06), (0.03, 0.04), (0.05, 0.1), (0.1, 0.2)])
def test_as_many_as_needed_to_tell_do_tell_nine_times_in_ten(threshold: float, rate: float) -> None:
    rng = random.Random(3)
    needed = judged_to_tell(threshold, rate, 2.58)
    noticed = 0
    for _ in range(400):
        spread = math.sqrt(needed * rate * (1 - rate))
        defects = min(max(round(rng.gauss(needed * rate, spread)), 0), needed)
        noticed += known(Sums.counted(needed, defects), 2.58).lower > threshold
    assert 0.85 <= noticed / 400 <= 0.97


def test_clearly_above_is_twice_the_threshold_and_stays_a_share() -> None:
    assert doubled(0.05) == 0.1
    assert 0.9 < doubled(0.9) < 1


def test_needing_to_tell_a_rate_below_its_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match="threshold < rate"):
        judged_to_tell(0.1, 0.1, 2.58)


def test_an_estimate_survives_a_rounding_that_makes_a_part_exceed_the_whole() -> None:
    sums = replace(Sums.counted(3, 3), defect_weight=3.0000000000000004)
    assert known(sums).rate == 1.0


def exact_limits(judged: int, defects: int, z: float) -> tuple[float, float]:
    """The limits of Clopper and Pearson, by halving: each tail of the binomial distribution is that of `z`."""
    tail = math.erfc(z / math.sqrt(2)) / 2

    def solved(meets: Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if meets(middle) else (low, middle)
        return (low + high) / 2

    lower = solved(lambda rate: sum(binomial(judged, rate)[defects:]) < tail) if defects else 0.0
    upper = solved(lambda rate: sum(binomial(judged, rate)[: defects + 1]) > tail) if defects < judged else 1.0
    return lower, upper


@pytest.mark.parametrize("judged", [1, 2, 3, 4, 5, 6, 10, 20, 30, 100])
@pytest.mark.parametrize("z", [Z_95, 2.33, 3.09])
def test_with_equal_weights_the_limits_are_those_of_clopper_and_pearson(judged: int, z: float) -> None:
    """To 1.1 points at 95 %, and then never narrower by more than a fifth of a point."""
    for defects in range(judged + 1):
        found, (lower, upper) = known(Sums.counted(judged, defects), z), exact_limits(judged, defects, z)
        assert (found.lower, found.upper) == pytest.approx((lower, upper), abs=0.012 if z == Z_95 else 0.02)
        if z == Z_95:
            assert found.upper - found.lower >= upper - lower - 0.0023


@pytest.mark.parametrize(
    ("defects", "judged", "lower", "upper"),
    [
        (1, 1, 0.014, 1),
        (3, 3, 0.29, 1),
        (3, 4, 0.192, 0.997),
        (4, 5, 0.282, 0.997),
        (9, 10, 0.555, 0.999),
        (17, 17, 0.806, 1),
    ],
)
def test_more_bad_answers_are_never_shown_as_no_knowledge(
    defects: int, judged: int, lower: float, upper: float
) -> None:
    found = known(Sums.counted(judged, defects))
    assert (found.lower, found.upper) == pytest.approx((lower, upper), abs=0.001)


@given(samples, zs)
def test_limits_of_good_answers_are_those_of_defects_mirrored(sample: list[tuple[float, bool]], z: float) -> None:
    found, mirrored = known(add_up(sample), z), known(add_up([(weight, not defect) for weight, defect in sample]), z)
    assert (found.lower, found.upper) == pytest.approx((1 - mirrored.upper, 1 - mirrored.lower), abs=1e-9)


@given(samples, zs, weights)
def test_a_heavier_usual_weight_only_widens(sample: list[tuple[float, bool]], z: float, usual: float) -> None:
    narrow, wide = known(add_up(sample), z), known(add_up(sample), z, usual)
    assert wide.lower <= narrow.lower + 1e-9
    assert wide.upper >= narrow.upper - 1e-9


@given(st.lists(st.tuples(st.floats(1e-150, 1e150), st.booleans()), min_size=1, max_size=10), zs)
def test_no_weight_makes_limits_that_are_no_numbers(sample: list[tuple[float, bool]], z: float) -> None:
    found = known(add_up(sample), z)
    assert 0 <= found.lower <= found.rate <= found.upper <= 1


def in_sessions(sessions: Sequence[Sequence[tuple[float, bool]]]) -> Sums:
    """The sums of sessions, each a list of weights and whether the answer is a defect."""
    found = Sums()
    for session in sessions:
        before_bad = before = 0.0
        for weight, defect in session:
            bad = weight if defect else 0.0
            after_bad, after = before_bad + bad, before + weight
            products = SessionProducts(
                after_bad**2 - before_bad**2, after**2 - before**2, after_bad * after - before_bad * before
            )
            found += Sums.of(weight, defect=defect, products=products)
            before_bad, before = after_bad, after
    return found


sessions_of = st.lists(
    st.lists(st.tuples(st.floats(1, 100), st.booleans()), min_size=1, max_size=6), min_size=1, max_size=12
)


@given(sessions_of, st.floats(1.28, 4))
def test_limits_by_session_are_never_narrower_than_those_by_answer(
    sessions: list[list[tuple[float, bool]]], z: float
) -> None:
    by_answer = known(add_up([one for session in sessions for one in session]), z)
    by_session = known(in_sessions(sessions), z)
    assert by_session.rate == pytest.approx(by_answer.rate)
    assert 0 <= by_session.lower <= by_answer.lower + 1e-9
    assert by_answer.upper - 1e-9 <= by_session.upper <= 1


@given(samples, zs)
def test_sessions_of_one_answer_are_answers(sample: list[tuple[float, bool]], z: float) -> None:
    one, other = known(add_up(sample), z), known(in_sessions([[answer] for answer in sample]), z)
    kept = add_up(sample)
    without = known(replace(kept, defect_products=0.0, every_products=0.0, both_products=0.0), z)
    for found in (other, without):
        assert (found.lower, found.upper) == pytest.approx((one.lower, one.upper), rel=1e-6, abs=1e-6)


def test_ten_bad_answers_of_one_session_are_one_bad_session() -> None:
    """The hour of the finding: 97 scored, 10 bad in one session. By answer it is surely above 3 %, by session not."""
    good = [[(1.0, False)]] * 87
    by_session, by_answer = in_sessions([*good, [(1.0, True)] * 10]), Sums.counted(97, 10)
    assert known(by_answer, 3.09).lower > 0.03
    assert known(by_session, 3.09).lower < 0.001
    many = in_sessions([[(1.0, False)]] * 870 + [[(1.0, True)] * 10] * 10)
    assert known(many, 3.09).lower > 0.02


def test_answers_that_do_not_agree_within_their_session_are_nearly_as_good_as_single_ones() -> None:
    sessions = [[(1.0, number % 10 == one) for one in range(10)] for number in range(50)]
    mixed, single = known(in_sessions(sessions)), known(Sums.counted(500, 50))
    assert mixed.rate == single.rate
    assert mixed.upper - mixed.lower < 1.1 * (single.upper - single.lower)


def test_products_with_answers_before_the_window_only_widen_and_stay_limits() -> None:
    sums = replace(Sums.counted(5, 2), defect_products=900.0, every_products=2500.0, both_products=1200.0)
    found = known(sums)
    assert 0 <= found.lower < 0.03 < found.rate < 0.9 < found.upper <= 1
