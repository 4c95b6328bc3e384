from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.quality.ranking import Confusion, Point, Ranked, best, confusion

ANSWERS = st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=40)
QUALITIES = st.sampled_from([lambda counts: counts.f1, lambda counts: counts.balanced_accuracy])


def at(answers, cut):
    return confusion((danger >= cut, defective) for danger, defective in answers)


@given(ANSWERS, QUALITIES)
def test_no_other_threshold_is_better_on_the_answers_it_was_chosen_on(answers, quality):
    chosen = best(Ranked(Point(*one) for one in answers).steps(), quality)
    others = [quality(at(answers, danger)) for danger, _ in answers]
    assert quality(at(answers, chosen)) == pytest.approx(max(others), abs=1e-12)


@given(ANSWERS, QUALITIES)
def test_a_threshold_lies_between_dangers_or_calls_every_answer_defective(answers, quality):
    chosen = best(Ranked(Point(*one) for one in answers).steps(), quality)
    dangers = {danger for danger, _ in answers}
    assert chosen == -math.inf or (chosen not in dangers and min(dangers) < chosen < max(dangers))


def test_shares_are_those_of_the_textbook():
    counts = Confusion(caught=6, missed=2, alarmed=3, passed=9)
    assert (counts.recall, counts.alarms) == (0.75, 0.25)
    assert counts.f1 == pytest.approx(2 * (6 / 9) * 0.75 / (6 / 9 + 0.75))
    assert counts.balanced_accuracy == 0.75


def test_nothing_caught_is_no_division_by_zero():
    assert (Confusion().f1, Confusion().recall, Confusion().alarms) == (0, 0, 0)
