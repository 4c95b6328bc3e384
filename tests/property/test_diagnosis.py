"""Any cases have a diagnosis, and it does not depend on their order, on the unit of weights, or on who makes it."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.diagnosis import alert_looks, diagnose, diagnose_alert
from monitor.statistics.diagnosis.cases import Factor, JudgedCase
from monitor.statistics.diagnosis.results import Diagnosis
from monitor.statistics.diagnosis.search import FACTORS_AT_MOST
from tests.support.examples import examples

FACTORS = [
    *(Factor("slice", "tenant", str(number), pairs=True) for number in range(3)),
    *(Factor("slice", "language", str(number), pairs=True) for number in range(2)),
    *(Factor("document", "doc_uri", str(number)) for number in range(4)),
    *(Factor("word", "word", word) for word in ("", "refund", "\ud800", "a" * 1000)),
    Factor("slice", "refusal", "yes", outcome=True),
]
WEIGHTS = st.one_of(st.just(1.0), st.floats(1.0, 100.0), st.floats(min_value=5e-324, max_value=1e308))


@st.composite
def case_lists(draw: st.DrawFn, weights: st.SearchStrategy[float] = WEIGHTS) -> list[JudgedCase]:
    """Cases over 100 seconds, after 50 of which one of the factors may become bad."""
    number = draw(st.integers(0, 400))
    rng = random.Random(draw(st.integers(0, 2**32)))
    worse, rate, since = draw(st.sampled_from(FACTORS)), draw(st.floats(0, 1)), draw(st.floats(0, 1))
    few = draw(st.lists(weights, min_size=1, max_size=5))
    units = draw(st.integers(1, 400))
    found = []
    for _ in range(number):
        time = rng.choice((rng.uniform(0, 100), float(rng.randint(0, 100))))
        factors = tuple(rng.choices(FACTORS, k=rng.randint(0, 6)))
        risk = since if time >= 50 and worse in factors else rate
        found.append(JudgedCase(time, rng.random() < risk, str(rng.randrange(units)), factors, rng.choice(few)))
    return found


@examples(150)
@given(case_lists())
def test_every_diagnosis_keeps_its_bounds(cases: list[JudgedCase]) -> None:
    found = diagnose(cases, 30.0)
    assert len(found.factors) <= FACTORS_AT_MOST
    assert (found.state == "found") == bool(found.factors)
    for one in found.factors:
        assert math.isfinite(one.z)
        assert one.share.lower <= one.share.value <= one.share.upper
        assert 0 <= one.before <= 1
        assert one.inside is not None
        assert one.outside is not None
        assert 0 < one.bad <= one.cases < found.judged
    if found.onset is not None:
        assert 30 <= found.onset.earliest <= found.onset.at <= found.onset.latest <= 100
    assert found.visible is None or 0.1 <= found.visible <= 1


@examples(60)
@given(case_lists(), st.randoms(use_true_random=False))
def test_the_order_of_the_cases_does_not_matter(cases: list[JudgedCase], rng: random.Random) -> None:
    before = diagnose(cases, 30.0)
    shuffled = cases.copy()
    rng.shuffle(shuffled)
    assert diagnose(shuffled, 30.0) == before


@examples(60)
@given(case_lists(st.floats(1.0, 100.0)), st.sampled_from([2.0**-40, 0.5, 8.0, 2.0**60]))
def test_weights_in_another_unit_say_the_same(cases: list[JudgedCase], unit: float) -> None:
    scaled = [one._replace(weight=one.weight * unit) for one in cases]
    assert diagnose(scaled, 30.0) == diagnose(cases, 30.0)


@examples(30)
@given(case_lists())
def test_a_factor_that_a_case_has_twice_counts_once(cases: list[JudgedCase]) -> None:
    twice = [one._replace(factors=one.factors * 2) for one in cases]
    assert diagnose(twice, 30.0) == diagnose(cases, 30.0)


@examples(60)
@given(case_lists(st.just(1.0)), st.floats(30, 100), st.floats(30, 100), st.randoms(use_true_random=False))
def test_what_comes_later_changes_no_look_that_was_made(
    cases: list[JudgedCase], fired: float, now: float, rng: random.Random
) -> None:
    cases = [one._replace(judged_at=one.time + rng.choice((0.0, rng.uniform(0, 20)))) for one in cases]
    looks = list(alert_looks(cases, 30.0, fired))
    known = [one for one in cases if one.time < 30 or (one.judged_at or 0.0) <= max(now, fired)]
    made = list(alert_looks(known, 30.0, fired))
    assert made == looks[: len(made)]
    assert all((one.looked or 0.0) > now for one in looks[len(made) :] if one.looked is not None)
    found = diagnose_alert(cases, 30.0, fired)
    assert found == looks[-1] if looks else found.awaits_first_look or found.state != "found"


@pytest.mark.parametrize("number", [1, 2, 5, 1000])
def test_cases_that_are_all_bad_or_all_good_have_no_cause(number: int) -> None:
    for bad in (True, False):
        cases = [JudgedCase(float(at), bad, str(at), (FACTORS[at % 3],)) for at in range(number)]
        assert diagnose(cases, number / 2).factors == ()


def test_one_huge_weight_names_nothing() -> None:
    cases = [JudgedCase(float(at), at % 10 == 0, str(at), (FACTORS[at % 3],)) for at in range(1000)]
    heavy: Diagnosis = diagnose(
        [*cases, JudgedCase(999.5, bad=True, unit="x", factors=(FACTORS[0],), weight=1e300)], 500.0
    )
    assert heavy.factors == ()
