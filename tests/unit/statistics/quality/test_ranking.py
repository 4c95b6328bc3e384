"""AUROC and average precision against their definitions, written down in the plainest way."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.quality.bootstrap import intervals
from monitor.statistics.quality.ranking import Point, Ranked, auroc, average_precision, roc

# Few different dangers, so that most answers are tied with others.
ANSWERS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=40)
MIXED = ANSWERS.filter(lambda answers: len({defective for _, defective in answers}) == 2)


def steps(answers: Sequence[tuple[float, bool]]):
    return Ranked(Point(danger, defective) for danger, defective in answers).steps()


@given(MIXED)
def test_auroc_is_the_share_of_pairs_in_order_ties_counting_half(answers):
    pairs = [(bad, good) for bad, is_bad in answers if is_bad for good, is_defective in answers if not is_defective]
    in_order = sum(1.0 if bad > good else 0.5 if bad == good else 0.0 for bad, good in pairs)
    assert auroc(steps(answers)) == pytest.approx(in_order / len(pairs), abs=1e-12)


@given(MIXED, st.sampled_from([math.exp, math.atan, lambda x: 3 * x - 7, lambda x: x**3]))
def test_a_monotone_map_changes_nothing(answers, increasing):
    mapped = [(increasing(danger), defective) for danger, defective in answers]
    assert auroc(steps(mapped)) == auroc(steps(answers))
    assert average_precision(steps(mapped)) == average_precision(steps(answers))
    assert roc(steps(mapped)) == roc(steps(answers))


@given(MIXED)
def test_turned_round_auroc_is_its_complement(answers):
    turned = [(-danger, defective) for danger, defective in answers]
    assert auroc(steps(turned)) == pytest.approx(1 - auroc(steps(answers)), abs=1e-12)


@given(MIXED)
def test_average_precision_is_the_mean_over_defective_answers_of_the_precision_at_their_danger(answers):
    def precision(cut: float) -> float:
        flagged = [defective for danger, defective in answers if danger >= cut]
        return sum(flagged) / len(flagged)

    at_each = [precision(danger) for danger, defective in answers if defective]
    assert average_precision(steps(answers)) == pytest.approx(sum(at_each) / len(at_each), abs=1e-12)


@given(MIXED)
def test_the_area_under_the_drawn_curve_is_auroc(answers):
    corners = roc(steps(answers))
    area = sum((x2 - x1) * (y1 + y2) / 2 for (x1, y1), (x2, y2) in pairwise(corners))
    assert corners[0] == (0, 0)
    assert corners[-1] == (1, 1)
    assert area == pytest.approx(auroc(steps(answers)), abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 5)), min_size=1), st.data())
def test_a_cluster_with_a_weight_counts_as_often_as_if_it_stood_there_so_often(answers, data):
    ranked = Ranked(Point(*one) for one in answers)
    weights = data.draw(st.lists(st.integers(0, 3), min_size=ranked.clusters, max_size=ranked.clusters))
    repeated = Ranked(Point(*one) for one in answers for _ in range(weights[one[2]]))
    assert auroc(ranked.weighted(weights)) == auroc(repeated.steps())
    assert average_precision(ranked.weighted(weights)) == average_precision(repeated.steps())


@given(st.lists(st.integers(0, 5)), st.booleans())
def test_answers_of_one_kind_have_no_auroc(dangers, defective):
    of_one_kind = steps([(danger, defective) for danger in dangers])
    assert auroc(of_one_kind) is None
    assert roc(of_one_kind) == []
    if not defective or not dangers:
        assert average_precision(of_one_kind) is None


def drawn(rng: random.Random, clusters: int, size: int) -> list[Point]:
    """Answers whose danger and label both depend on their cluster. AUROC of the whole population: see the test."""
    found = []
    for cluster in range(clusters):
        defective = rng.random() < 0.5
        shared = rng.gauss(1.0 if defective else 0.0, 1.0)
        found += [Point(shared + rng.gauss(0, 0.1), defective, cluster) for _ in range(size)]
    return found


def test_the_interval_holds_the_truth_about_as_often_as_it_says_although_answers_of_a_cluster_are_alike():
    rng = random.Random(7)
    truth = 0.5 * (1 + math.erf(1 / math.sqrt(2 * (1 + 0.01)) / math.sqrt(2)))  # P(N(1, 2 * 1.01) > 0)
    held = held_if_alone = 0
    for _ in range(60):
        points = drawn(rng, clusters=40, size=4)
        (interval,) = intervals(Ranked(points), [auroc], rng, replicates=100)
        held += interval.lower <= truth <= interval.upper
        alone = [point._replace(cluster=number) for number, point in enumerate(points)]
        (interval,) = intervals(Ranked(alone), [auroc], rng, replicates=100)
        held_if_alone += interval.lower <= truth <= interval.upper
    assert held >= 52
    assert held_if_alone < 48, "the clusters make no difference: the test shows nothing"


def test_the_same_generator_draws_the_same_interval():
    points = drawn(random.Random(1), clusters=20, size=3)
    first, second = (intervals(Ranked(points), [auroc], random.Random(0), 100) for _ in range(2))
    assert first == second


def test_one_cluster_has_no_interval():
    points = [Point(1.0, True), Point(0.0, False)]
    assert intervals(Ranked(points), [auroc, average_precision], random.Random(0)) == [None, None]


def test_a_statistic_that_most_draws_do_not_define_has_no_interval():
    points = [Point(1.0, True, 0), Point(0.0, False, 1), Point(0.5, False, 2)]
    assert intervals(Ranked(points), [auroc], random.Random(0)) == [None]
