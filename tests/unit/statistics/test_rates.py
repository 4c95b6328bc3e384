"""The estimate keeps its promises: limits hold as often as they say, and no arithmetic on sums can surprise."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.rates import Estimate, Sums, doubled, effective_judged, estimate, interval_95, judged_to_tell

weights = st.floats(min_value=1e-3, max_value=1e6)
samples = st.lists(st.tuples(weights, st.booleans()), min_size=1, max_size=40)
zs = st.floats(min_value=0, max_value=5)


def add_up(sample: list[tuple[float, bool]]) -> Sums:
    return reduce(Sums.__add__, (Sums.of(weight, defect=defect) for weight, defect in sample), Sums())


def known(sums: Sums, z: float = 1.96) -> Estimate:
    found = estimate(sums, z)
    assert found is not None
    return found


def binomial(n: int, p: float) -> list[float]:
    return [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def uniform(n: int, k: int) -> Sums:
    return Sums(n, k, float(n), float(k), float(k))


def test_nothing_judged_is_no_data_and_not_a_rate_of_zero() -> None:
    assert estimate(Sums(), 1.96) is None


@given(samples, zs)
def test_the_rate_lies_between_its_limits_and_all_are_shares(sample: list[tuple[float, bool]], z: float) -> None:
    found = known(add_up(sample), z)
    assert 0 <= found.lower <= found.rate <= found.upper <= 1


@given(samples, weights, zs)
def test_a_good_answer_never_raises_rate_or_lower_limit(
    sample: list[tuple[float, bool]], weight: float, z: float
) -> None:
    before = known(add_up(sample), z)
    after = known(add_up(sample) + Sums.of(weight, defect=False), z)
    assert after.rate <= before.rate
    assert after.lower <= before.lower


@given(samples, weights)
def test_a_defect_never_lowers_the_rate(sample: list[tuple[float, bool]], weight: float) -> None:
    before, after = known(add_up(sample)), known(add_up(sample) + Sums.of(weight, defect=True))
    assert after.rate >= before.rate * (1 - 1e-12)


@given(samples, st.floats(min_value=1e-3, max_value=1e3))
def test_scaling_all_weights_changes_nothing(sample: list[tuple[float, bool]], factor: float) -> None:
    before = known(add_up(sample))
    after = known(add_up([(weight * factor, defect) for weight, defect in sample]))
    for field in ("rate", "lower", "upper", "effective_defects"):
        assert getattr(after, field) == pytest.approx(getattr(before, field), rel=1e-6, abs=1e-9)


@given(samples, samples)
def test_sums_of_two_replicas_are_the_sums_of_all_they_judged(
    one: list[tuple[float, bool]], other: list[tuple[float, bool]]
) -> None:
    merged, whole = add_up(one) + add_up(other), add_up(one + other)
    assert (merged.judged, merged.defects) == (whole.judged, whole.defects)
    assert merged.weight == pytest.approx(whole.weight)
    assert merged.defect_weight == pytest.approx(whole.defect_weight)
    assert merged.defect_weight_squares == pytest.approx(whole.defect_weight_squares)


@given(samples)
def test_effective_defects_are_the_defects_where_weights_are_equal_and_never_more(
    sample: list[tuple[float, bool]],
) -> None:
    sums = add_up(sample)
    assert known(sums).effective_defects <= sums.defects * (1 + 1e-9)
    equal = add_up([(7.0, defect) for _, defect in sample])
    assert known(equal).effective_defects == pytest.approx(equal.defects)


@given(samples, zs, zs)
def test_a_larger_z_only_widens(sample: list[tuple[float, bool]], one: float, other: float) -> None:
    narrow, wide = known(add_up(sample), min(one, other)), known(add_up(sample), max(one, other))
    assert wide.lower <= narrow.lower
    assert wide.upper >= narrow.upper


def test_without_defects_the_upper_limit_is_right_and_the_lower_is_zero() -> None:
    """Exactly: with no defect in n the rate is below 3.689 / n, 97.5 times in 100 (Poisson)."""
    found = known(uniform(200, 0), 1.959964)
    assert (found.rate, found.lower) == (0.0, 0.0)
    assert found.upper == pytest.approx(3.689 / 200, rel=0.01)


def test_known_limits_of_a_poisson_count_are_met() -> None:
    """Exact 95 % limits of 10 events are 4.795 and 18.39 (chi-square tables)."""
    found = known(uniform(100_000, 10), 1.959964)
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
        found = interval_95(uniform(judged, defects))
        assert found is not None
        if found.lower <= rate <= found.upper:
            covered += chance
    assert covered >= 0.94


@pytest.mark.parametrize(("threshold", "judged"), [(0.03, 10), (0.01, 30), (0.03, 100), (0.1, 300), (0.05, 1000)])
@pytest.mark.parametrize(("z", "nominal"), [(3.09, 0.001), (2.58, 0.005), (2.33, 0.01)])
def test_the_lower_limit_is_above_a_true_rate_no_more_often_than_promised(
    threshold: float, judged: int, z: float, nominal: float
) -> None:
    chances = binomial(judged, threshold)
    false = sum(chance for k, chance in enumerate(chances) if known(uniform(judged, k), z).lower > threshold)
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
        found = interval_95(sums)
        assert found is not None
        covered += found.lower <= 0.02 <= found.upper
        missed_low += found.upper < 0.02
    assert covered / runs >= 0.94
    assert missed_low / runs <= 0.03


def shown(sums: Sums) -> Estimate:
    found = interval_95(sums)
    assert found is not None
    return found


def counted(judged: int, defects: int, weight: float = 1.0) -> Sums:
    """A sample of equal weights, with the squares of its good answers."""
    good = judged - defects
    return Sums(judged, defects, judged * weight, defects * weight, defects * weight**2, good * weight**2)


@given(samples)
def test_what_is_shown_lies_between_its_limits_and_is_the_rate_that_alerts_see(
    sample: list[tuple[float, bool]],
) -> None:
    sums = add_up(sample)
    found = shown(sums)
    assert 0 <= found.lower <= found.rate <= found.upper <= 1
    assert replace(found, lower=0, upper=1) == replace(known(sums), lower=0, upper=1)


@given(samples, st.floats(min_value=1e-3, max_value=1e3))
def test_scaling_all_weights_changes_nothing_shown(sample: list[tuple[float, bool]], factor: float) -> None:
    before, after = shown(add_up(sample)), shown(add_up([(weight * factor, defect) for weight, defect in sample]))
    assert after.lower == pytest.approx(before.lower, rel=1e-6, abs=1e-9)
    assert after.upper == pytest.approx(before.upper, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("judged", [20, 60, 200])
@pytest.mark.parametrize("rate", [0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98])
def test_limits_shown_at_high_rates_hold_and_are_no_wider_than_those_of_rare_ones(rate: float, judged: int) -> None:
    """Exact, by the binomial distribution. Score intervals dip to .92 where counts are few, as is well known."""
    chances = binomial(judged, rate)
    covered = [chance for k, chance in enumerate(chances) if shown(counted(judged, k)).lower <= rate]
    covered_too = [chance for k, chance in enumerate(chances) if shown(counted(judged, k)).upper >= rate]
    assert sum(covered) >= 0.95
    assert sum(covered_too) >= 0.95
    assert sum(covered) + sum(covered_too) - 1 >= 0.925
    middle = shown(counted(judged, round(rate * judged)))
    gamma = known(counted(judged, round(rate * judged)), 1.959964)
    assert middle.upper - middle.lower < gamma.upper - gamma.lower


def test_seventeen_defects_of_seventeen_are_most_answers_and_not_half_of_them() -> None:
    """Exactly, by the binomial distribution: 80.5 % to 100 %."""
    found = shown(counted(17, 17))
    assert found.upper == 1.0
    assert 0.75 < found.lower < 0.81


def test_below_a_fifth_what_is_shown_are_the_limits_that_alerts_use() -> None:
    sums = counted(500, 10, weight=4.0)
    assert shown(sums) == known(sums, 1.959964)


@given(samples)
def test_without_the_squares_of_good_answers_the_wider_limits_are_shown(sample: list[tuple[float, bool]]) -> None:
    sums = replace(add_up([*sample, (1.0, False)]), good_weight_squares=0.0)
    assert shown(sums) == known(sums, 1.959964)


@given(samples)
def test_the_effective_number_judged_is_theirs_where_weights_are_equal_and_never_more(
    sample: list[tuple[float, bool]],
) -> None:
    assert effective_judged(add_up(sample)) <= len(sample) * (1 + 1e-9)
    equal = add_up([(7.0, defect) for _, defect in sample])
    assert effective_judged(equal) == pytest.approx(len(sample))


def test_good_answers_too_light_to_show_in_the_sum_are_survived() -> None:
    found = shown(Sums.of(1e20, defect=True) + Sums.of(1.0, defect=False))
    assert 0 <= found.lower <= found.rate <= found.upper <= 1


def test_heavy_good_answers_widen_what_is_shown() -> None:
    """At 10 % the good answers' weights make a tenth of the variance; only what is shown knows them."""
    light, heavy = Sums(100, 20, 1000.0, 100.0, 500.0, 10_125.0), Sums(100, 20, 1000.0, 100.0, 500.0, 405_000.0)
    assert shown(heavy).lower < shown(light).lower
    assert known(heavy) == known(light)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="is not a weight"):
        Sums.of(weight, defect=True)


def test_a_negative_z_is_refused() -> None:
    with pytest.raises(ValueError, match="z must be 0 or more"):
        estimate(uniform(1, 1), -1)


@pytest.mark.parametrize(("threshold", "rate"), [(0.01, 0.02), (0.03, 0.06), (0.03, 0.04), (0.05, 0.1), (0.1, 0.2)])
def test_as_many_as_needed_to_tell_do_tell_nine_times_in_ten(threshold: float, rate: float) -> None:
    rng = random.Random(3)
    needed = judged_to_tell(threshold, rate, 2.58)
    told = 0
    for _ in range(400):
        spread = math.sqrt(needed * rate * (1 - rate))
        defects = min(max(round(rng.gauss(needed * rate, spread)), 0), needed)
        told += known(uniform(needed, defects), 2.58).lower > threshold
    assert 0.85 <= told / 400 <= 0.97


def test_clearly_above_is_twice_the_threshold_and_stays_a_share() -> None:
    assert doubled(0.05) == 0.1
    assert 0.9 < doubled(0.9) < 1


def test_needing_to_tell_a_rate_below_its_threshold_is_refused() -> None:
    with pytest.raises(ValueError, match="threshold < rate"):
        judged_to_tell(0.1, 0.1, 2.58)


def test_an_estimate_survives_a_rounding_that_makes_a_part_exceed_the_whole() -> None:
    sums = replace(uniform(3, 3), defect_weight=3.0000000000000004)
    assert known(sums).rate == 1.0
