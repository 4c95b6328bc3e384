"""The area under the curve over all pairs, and how many apps and verdicts are remembered."""

from __future__ import annotations

import pytest

from monitor.statistics.defect_model import INPUTS
from monitor.statistics.verdict_learning import (
    NEEDED,
    Foretold,
    Learners,
    OrderStanding,
    first_slopes,
    weighted_auroc,
)

CASES = [(float(at * 7 % 10), 0.5 + at % 4, float(at % 3 == 0)) for at in range(40)]


def by_pairs(cases: list[tuple[float, float, float]]) -> float:
    """The weight of the pairs in which the defect is the more dangerous one, ties half, over that of all pairs."""
    won = whole = 0.0
    for danger, weight, defect in cases:
        for other, other_weight, other_defect in cases:
            if defect and not other_defect:
                whole += weight * other_weight
                won += weight * other_weight * (1.0 if danger > other else 0.5 if danger == other else 0.0)
    return won / whole


def test_the_area_is_the_share_of_pairs_that_are_in_order() -> None:
    assert weighted_auroc(CASES) == pytest.approx(by_pairs(CASES), rel=1e-9)
    assert weighted_auroc([(1.0, 0.5, 1.0), (0.0, 0.25, 0.0)]) == 1.0


@pytest.mark.parametrize("defect", [0.0, 1.0])
def test_one_kind_of_cases_has_no_area(defect: float) -> None:
    assert weighted_auroc([(1.0, 1.0, defect), (2.0, 1.0, defect)]) is None
    assert weighted_auroc([(1.0, 1.0, defect), (2.0, 0.0, 1 - defect)]) is None
    assert weighted_auroc([]) is None


def test_a_model_begins_with_one_slope_at_most() -> None:
    rest = (0.0,) * (len(INPUTS) - 1)
    assert first_slopes(grounding=True) == (1.2, *rest)
    assert first_slopes(grounding=False) == (0.0, *rest)
    assert first_slopes(grounding=True, slope=0.0) == (0.0, *rest)
    assert first_slopes(grounding=False, slope=2.5) == (2.5, *rest)


def test_the_200_apps_that_had_verdicts_last_are_remembered() -> None:
    learners = Learners((1.0, 0.0))
    models = [learners.to_teach(f"app {number}") for number in range(200)]
    assert learners.to_teach("app 0") is models[0]
    learners.to_teach("one more")
    assert learners.of("app 0") is models[0]
    assert learners.of("app 2") is models[2]
    assert learners.of("app 1") is not models[1]
    assert learners.of("app 1") is learners.of("never seen")
    assert learners.of("never seen").labels == 0


def standing(defects: int, good: int) -> OrderStanding:
    foretold = Foretold()
    for number in range(defects + good):
        defect = number < defects
        foretold.add(1.0 + number % 2, float(number % 3), float(number % 5 + 2 * defect), defect=defect)
    return foretold.standing(77)


@pytest.mark.parametrize(("defects", "good", "enough"), [(30, 30, True), (29, 30, False), (30, 29, False)])
def test_an_order_needs_30_defects_and_30_good_answers(defects: int, good: int, enough: bool) -> None:
    found = standing(defects, good)
    assert NEEDED == 30
    assert (found.taught, found.verdicts, found.defects) == (77, defects + good, defects)
    assert (found.before is not None, found.learned is not None) == (enough, enough)
    assert found.learned_leads is enough


def test_both_orders_are_measured_by_their_own_dangers_and_again_after_each_verdict() -> None:
    foretold = Foretold()
    rows = [(1.0 + n % 2, float(n * 7 % 10), float(n % 9), n % 2 == 0) for n in range(70)]
    for weight, before, learned, defect in rows:
        foretold.add(weight, before, learned, defect=defect)
    found = foretold.standing(1)
    assert found.before == pytest.approx(by_pairs([(before, weight, float(bad)) for weight, before, _, bad in rows]))
    assert found.learned == pytest.approx(by_pairs([(learned, weight, float(bad)) for weight, _, learned, bad in rows]))
    assert foretold.standing(1) == found
    foretold.add(5.0, 99.0, -99.0, defect=True)
    after = foretold.standing(2)
    assert after.before is not None
    assert after.learned is not None
    assert found.before is not None
    assert found.learned is not None
    assert after.before > found.before
    assert after.learned < found.learned


def test_the_newest_two_thousand_verdicts_count() -> None:
    foretold = Foretold()
    for number in range(4321):
        foretold.add(1.0, 0.0, 0.0, defect=number >= 4000 or number < 2000)
        if number in (1998, 1999, 2000, 3998, 3999, 4000):
            assert foretold.standing(0).verdicts == min(number + 1, 2000)
    assert foretold.standing(0).defects == 321


@pytest.mark.parametrize(
    ("before", "learned", "leads"), [(0.6, 0.7, True), (0.7, 0.7, False), (None, 0.7, False), (0.6, None, False)]
)
def test_a_learned_order_leads_where_it_is_better(before: float | None, learned: float | None, leads: bool) -> None:
    assert OrderStanding(before=before, learned=learned).learned_leads is leads
