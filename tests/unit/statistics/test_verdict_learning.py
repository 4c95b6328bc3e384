"""What is learned by app, and the comparison of two orders by the verdicts that they foretold."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.defect_model import INPUTS, DefectModel
from monitor.statistics.verdict_learning import NEEDED, Foretold, Learners, first_slopes, weighted_auroc

NONE_SEEN = tuple(0.0 for _ in INPUTS)


def noise(rng: random.Random) -> tuple[float, ...]:
    return tuple(max(-3.0, min(rng.gauss(0, 1), 3.0)) for _ in INPUTS)


CASES = st.tuples(st.integers(-3, 3).map(float), st.integers(1, 5).map(float), st.integers(0, 1).map(float))


@given(st.lists(CASES, max_size=30))
def test_the_weighted_auroc_is_the_chance_that_a_defect_is_ranked_as_more_dangerous(cases) -> None:
    bad = [(danger, weight) for danger, weight, defect in cases if defect]
    good = [(danger, weight) for danger, weight, defect in cases if not defect]
    pairs = [(one > other) + (one == other) / 2 for one, _ in bad for other, _ in good]
    weights = [weight * by for _, weight in bad for _, by in good]
    found = weighted_auroc(cases)
    if not pairs:
        assert found is None
    else:
        expected = sum(pair * weight for pair, weight in zip(pairs, weights, strict=True)) / sum(weights)
        assert found == pytest.approx(expected)


def test_apps_share_no_coefficients() -> None:
    learners = Learners(first_slopes(grounding=True))
    for _ in range(50):
        learners.to_teach("one").learn(NONE_SEEN, 1.0, defect=True)
    assert learners.of("one").score(NONE_SEEN) < 0.5
    assert learners.of("other").coefficients == DefectModel(first_slopes(grounding=True)).coefficients
    assert learners.of("other").labels == 0


def test_apps_without_number_take_no_memory_without_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.statistics.verdict_learning._APPS", 3)
    learners = Learners(first_slopes(grounding=True))
    for number in range(10):
        learners.to_teach(str(number))
        learners.of(f"only asked about {number}")
    assert list(learners._apps) == ["7", "8", "9"]


def test_two_orders_are_compared_only_with_enough_defects_and_good_answers() -> None:
    foretold = Foretold()
    for number in range(NEEDED):
        assert foretold.standing(number).learned is None
        foretold.add(1.0, 0.0, 1.0, defect=True)
        foretold.add(1.0, 0.0, 0.0, defect=False)
    found = foretold.standing(7)
    assert (found.taught, found.verdicts, found.defects) == (7, 2 * NEEDED, NEEDED)
    assert (found.before, found.learned, found.learned_leads) == (0.5, 1.0, True)


def test_the_order_it_began_with_leads_until_the_learned_one_is_better() -> None:
    foretold = Foretold()
    for _ in range(NEEDED):
        foretold.add(1.0, 1.0, 1.0, defect=True)
        foretold.add(1.0, 0.0, 0.0, defect=False)
    assert not foretold.standing(0).learned_leads


def test_only_the_newest_verdicts_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.statistics.verdict_learning._VERDICTS", 100)
    foretold = Foretold()
    for number in range(1000):
        right = number >= 900
        foretold.add(1.0, 0.0, float((number % 2 == 0) is right), defect=number % 2 == 0)
    found = foretold.standing(0)
    assert (found.verdicts, found.defects, found.learned) == (100, 50, 1.0)


def test_where_the_measures_know_nothing_the_leading_order_costs_nothing() -> None:
    """Prequential, over seeds: what orders the answers is on average as good as what it began with."""
    lost = []
    for seed in range(8):
        rng, learners, foretold = random.Random(seed), Learners(first_slopes(grounding=True)), Foretold()
        held = [(noise(rng), number % 2 == 0) for number in range(400)]
        for _ in range(500):
            seen, defect = noise(rng), rng.random() < 0.1
            model = learners.to_teach("app")
            foretold.add(1.0, seen[0], model.log_odds(seen), defect=defect)
            model.learn(seen, 1.0, defect=defect)
        leading = learners.of("app").log_odds if foretold.standing(0).learned_leads else lambda seen: seen[0]
        before, after = (
            weighted_auroc((order(seen), 1.0, float(defect)) for seen, defect in held)
            for order in (lambda seen: seen[0], leading)
        )
        assert before is not None
        assert after is not None
        lost.append(before - after)
    assert fmean(lost) < 0.02
