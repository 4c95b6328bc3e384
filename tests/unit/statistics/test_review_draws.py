"""Drawing results for review: known chances, the same every time, and nothing that represents another."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.label import LabelDraw
from monitor.statistics.review_draws import JudgedResult, allocation, draw, strata, verdict_shares
from tests.support.examples import examples

results_ = st.lists(
    st.tuples(st.booleans(), st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]), st.floats(0.5, 50.0), st.booleans()),
    min_size=1,
    max_size=150,
).map(lambda rows: [JudgedResult(f"r{number}", *row) for number, row in enumerate(rows)])


def made(defects: int, good: int, weight: float = 1.0) -> list[JudgedResult]:
    bad = [JudgedResult(f"d{n}", defect=True, score=1.0 + n % 2, weight=weight) for n in range(defects)]
    return bad + [JudgedResult(f"g{n}", defect=False, score=3.0 + n % 3, weight=weight) for n in range(good)]


@given(results_)
def test_every_result_is_in_one_stratum_of_its_verdict(results: list[JudgedResult]):
    divided = strata(results)
    assert sorted(one.key for part in divided for one in part.results) == sorted(one.key for one in results)
    assert all(one.defect == part.defect for part in divided for one in part.results)
    assert all(part.results for part in divided)


@given(results_)
def test_shares_of_draws_add_up_to_one(results: list[JudgedResult]):
    shares = allocation(strata(results), {})
    assert sum(shares) == pytest.approx(1.0)
    assert min(shares) > 0
    assert sum(verdict_shares(results, {}).values()) == pytest.approx(1.0)


@given(results_, st.integers(0, 1000))
def test_a_draw_is_the_same_in_any_order_of_the_results(results: list[JudgedResult], number: int):
    assert draw(results, set(), {}, number) == draw(results[::-1], set(), {}, number)


@given(results_)
@examples(30)
def test_all_draws_are_different_and_have_a_chance(results: list[JudgedResult]):
    drawn: list[str] = []
    while (found := draw(results, set(drawn), {}, len(drawn))) is not None:
        assert found.key not in drawn
        assert 0 < found.probability <= 1
        drawn.append(found.key)


def test_the_chances_of_a_draw_add_up_to_one_over_all_results():
    # By symmetry: within a stratum the chance is in proportion to the weight, so one draw of each stratum says it all.
    results = [JudgedResult(f"d{n}", True, 1.0, 1.0 + n % 3) for n in range(60)]
    results += [JudgedResult(f"g{n}", False, 5.0, 1.0 + n % 4) for n in range(300)]
    chances: dict[bool, float] = {}
    for number in range(400):
        found = draw(results, set(), {}, number)
        assert found is not None
        one = next(one for one in results if one.key == found.key)
        whole = sum(each.weight for each in results if each.defect == one.defect)
        chances[one.defect] = found.probability / one.weight * whole
    assert sum(chances.values()) == pytest.approx(1.0)


def test_draws_come_as_often_as_their_chance_says():
    results = made(60, 540)
    drawn: list[str] = []
    for number in range(100):
        found = draw(results, set(drawn), {}, number)
        assert found is not None
        drawn.append(found.key)
    share = verdict_shares(results, {})[True]
    assert sum(one.startswith("d") for one in drawn) == pytest.approx(100 * share, abs=6)


def test_one_draw_of_five_is_from_all_traffic():
    results = made(100, 900)
    drawn: set[str] = set()
    kinds: Counter[LabelDraw] = Counter()
    for number in range(50):
        found = draw(results, drawn, {}, number)
        assert found is not None
        drawn.add(found.key)
        kinds[found.draw] += 1
    assert kinds == {LabelDraw.STRATIFIED: 40, LabelDraw.UNIFORM: 10}


def test_where_people_disagree_more_is_drawn_more():
    results = made(60, 540)
    agreed = {one.key: one.defect for one in results}
    split = {one.key: one.defect if not one.defect else number % 2 == 0 for number, one in enumerate(results)}
    assert verdict_shares(results, split)[True] > verdict_shares(results, agreed)[True]


def test_a_verdict_of_which_a_stratum_is_used_up_waits_for_more():
    results = made(3, 100)
    found = draw(results, {"d0", "d1", "d2"}, {}, 3)
    assert found is not None
    assert found.key.startswith("g")
    assert draw(results, {one.key for one in results}, {}, 103) is None
    assert draw([], set(), {}, 0) is None


def test_doubtful_results_are_a_stratum_of_their_own_if_there_are_enough():
    few = [JudgedResult(f"g{n}", False, 4.0, 1.0, doubtful=n < 5) for n in range(100)]
    many = [JudgedResult(f"g{n}", False, 4.0, 1.0, doubtful=n < 30) for n in range(100)]
    assert [len(part.results) for part in strata(few)] == [100]
    assert [len(part.results) for part in strata(many)] == [30, 70]
