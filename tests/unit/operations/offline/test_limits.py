"""Limits on the defect rates of an evaluation: what they may name, and what each of them answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import ConfigError, evaluate
from monitor.errors import JudgeError
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Level, Scale, Score, UnscoredReason
from monitor.operations.offline.limits import DefectLimit
from monitor.stages import Verdict
from monitor.statistics.gating import GateDecision
from monitor.testing import ScriptedJudge

HARM = Scale(0, 7, "lower", (Level("very_low", 0), Level("low", 2), Level("high", 6)), whole=True)
GROUNDED = Scale.share(unsupported=0.0, partly=0.4, supported=0.9)


def report(scores: list[int | None], *limits: str) -> Any:
    """The answer on cases that get these scores for violence; None is a judge that fails."""
    left = iter(scores)

    def verdict(_question: object) -> Verdict:
        score = next(left)
        if score is None:
            raise JudgeError(UnscoredReason.AUTH, "wrong key")
        return Verdict({"observations": [], "explanation": "scripted", "score": score}, "scripted")

    cases = [Case.from_texts("Why?", f"An answer, the {number}th of them.") for number in range(len(scores))]
    found = evaluate(cases, ["violence"], judge=ScriptedJudge(verdict))
    return found.gate(*limits)


@pytest.mark.parametrize(
    ("scores", "limit", "answer"),
    [
        ([0] * 100, "violence:5%", GateDecision.PASS),
        ([0] * 50 + [7] * 50, "violence:5%", GateDecision.FAIL),
        ([0] * 10, "violence:5%", GateDecision.NOT_ENOUGH_DATA),
        ([], "violence:5%", GateDecision.NOT_ENOUGH_DATA),
        ([None] * 10, "violence:5%", GateDecision.NOT_JUDGED),
        ([None] * 10 + [0], "violence:5%", GateDecision.NOT_ENOUGH_DATA),
    ],
)
def test_the_interval_decides_and_failed_judgements_alone_are_an_answer_of_their_own(
    scores: list[int | None], limit: str, answer: GateDecision
) -> None:
    assert report(scores, limit).answer is answer


def test_a_level_counts_scores_of_this_level_or_a_worse_one() -> None:
    scores: list[int | None] = [0] * 100 + [2] * 100 + [7] * 1
    found = report(scores, "violence:low:5%", "violence:high:5%")
    low, high = found.checks
    assert (low.now.defects, high.now.defects) == (101, 1)
    assert (low.decision.answer, high.decision.answer) == (GateDecision.FAIL, GateDecision.PASS)
    assert found.answer is GateDecision.FAIL
    assert "violence, level low or higher (2 or more): below 5.0 %" in str(found)


def test_one_limit_that_fails_is_enough_and_what_was_not_judged_is_no_pass() -> None:
    assert report([0] * 100, "violence:5%", "violence:low:6%").answer is GateDecision.PASS
    assert report([0] * 100 + [7] * 100, "violence:99%", "violence:5%").answer is GateDecision.FAIL


def test_the_report_says_of_how_many_answers_the_rate_says_nothing() -> None:
    (note,) = report([0] * 100 + [None] * 3, "violence:5%").notes
    assert note == "violence says nothing about 3 unscored (auth 3)"


@pytest.mark.parametrize(
    ("scale", "level", "rule"),
    [
        (HARM, "low", DefectRule("at_least", 2.0)),
        (HARM, "high", DefectRule("at_least", 6.0)),
        (GROUNDED, "partly", DefectRule("below", 0.9)),
        (GROUNDED, "unsupported", DefectRule("below", 0.4)),
    ],
)
def test_the_rule_of_a_level_holds_it_and_all_worse_ones(scale: Scale, level: str, rule: DefectRule) -> None:
    found = DefectLimit("one", 0.1, level).rule(scale)
    assert found == rule
    starts = {one.name: one.start for one in scale.levels}
    ordered = list(starts) if scale.better == "lower" else list(reversed(starts))
    worse = ordered[ordered.index(level) :]
    assert [name for name in ordered if found.matches(Score(starts[name], ""))] == worse


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "needs an evaluator and a rate"),
        ("violence", "needs an evaluator and a rate"),
        ("violence:", "needs an evaluator and a rate"),
        ("violence::5%", "needs an evaluator and a rate"),
        (":5%", "needs an evaluator"),
        ("violence:lots", "is not a rate"),
        ("violence:0", "a rate above 0"),
        ("violence:120%", "is not a rate"),
        ("violense:5%", r"not run \(did you mean 'violence'\?\); these are: violence"),
        ("violence:hihg:5%", r"no level 'hihg' \(did you mean 'high'\?\); a limit may name: low, medium, high"),
        ("violence:very_low:5%", "best level"),
        ("violence:high:low:5%", "no level 'high:low'"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_with_what_would(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        report([], text)


def test_a_gate_without_a_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match="groundedness:5%"):
        report([])


@given(st.text(max_size=60))
def test_any_text_is_a_limit_or_refused(text: str) -> None:
    try:
        limit = DefectLimit.of(text)
    except ConfigError:
        return
    assert limit.evaluator
    assert 0 < limit.rate <= 1
