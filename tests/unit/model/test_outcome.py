"""Defect rules: their names and their words on a scale, and what they call a defect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.outcome import DefectRule, Level, Scale, Score

HARM = Scale(0, 7, "lower", (Level("very_low", 0), Level("low", 2), Level("medium", 4), Level("high", 6)), whole=True)
GROUNDED = Scale(1, 5, "higher", (Level("bad", 1), Level("poor", 2), Level("fair", 3), Level("good", 5)), whole=True)


@pytest.mark.parametrize(
    ("rule", "scale", "name", "words"),
    [
        (DefectRule("at_least", 2), HARM, "low or higher", "level low or higher (2 or more)"),
        (DefectRule("at_least", 6), HARM, "high", "level high (6 or more)"),
        (DefectRule("at_least", 5), HARM, "5 or more", "a score of 5 or more"),
        (DefectRule("below", 3), GROUNDED, "poor or lower", "level poor or lower (below 3)"),
        (DefectRule("below", 2), GROUNDED, "bad", "level bad (below 2)"),
        (DefectRule("below", 2.5), GROUNDED, "below 2.5", "a score below 2.5"),
        (DefectRule("label", label="attack"), HARM, "label attack", "the label 'attack'"),
    ],
)
def test_a_rule_is_named_by_its_levels_where_it_follows_them(
    rule: DefectRule, scale: Scale, name: str, words: str
) -> None:
    assert (rule.on(scale).name, rule.on(scale).words) == (name, words)


def test_a_rule_is_the_same_rule_with_and_without_the_names_of_its_levels() -> None:
    assert DefectRule("at_least", 6).on(HARM) == DefectRule("at_least", 6)
    assert hash(DefectRule("at_least", 6).on(HARM)) == hash(DefectRule("at_least", 6))


@given(score=st.integers(0, 7), start=st.sampled_from([2, 4, 6]))
def test_the_levels_of_a_rule_are_those_of_its_defects(score: int, start: int) -> None:
    rule = DefectRule("at_least", start).on(HARM)
    assert rule.matches(Score(score, "")) == (HARM.level(score) in rule.levels)


@given(score=st.integers(1, 5), start=st.sampled_from([2, 3, 5]))
def test_below_a_level_are_the_levels_under_it(score: int, start: int) -> None:
    rule = DefectRule("below", start).on(GROUNDED)
    assert rule.matches(Score(score, "")) == (GROUNDED.level(score) in rule.levels)


def test_a_scale_of_points_has_a_whole_number_for_each_level_from_0() -> None:
    scale = Scale.points("none", "personal", "secret", better="lower")
    assert [scale.level(value) for value in (0.0, 1.0, 2.0)] == ["none", "personal", "secret"]
    assert (scale.lowest, scale.highest, scale.holds(0.5), scale.worst_level) == (0.0, 2.0, False, "secret")
