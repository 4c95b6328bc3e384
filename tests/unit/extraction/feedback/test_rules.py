"""What of somebody else's verdict is a score, and what a defect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from monitor.config import Config
from monitor.errors import ConfigError
from monitor.extraction.feedback import ExternalEvaluatorSettings, FeedbackSettings
from monitor.extraction.feedback.rules import Ruling, known_names, label_name, ruling
from monitor.model.external import ExternalScore, ScoreSource
from monitor.model.outcome import Score, Unscored, UnscoredReason

NONE = FeedbackSettings()


def verdict(name="tone", **said):
    return ExternalScore(request_id="r", evaluator=name, score_source=ScoreSource.GEN_AI_EVENTS, **said)


def read(name="tone", settings=NONE, **said):
    return ruling(name, settings).read(verdict(name, **said))


@pytest.mark.parametrize(("value", "defect"), [(0.0, True), (0.49, True), (0.5, False), (1.0, False)])
def test_unless_configured_a_score_from_0_to_1_is_a_defect_below_the_middle(value, defect):
    assert read(value=value) == (Score(value, ""), defect)


@pytest.mark.parametrize(
    ("label", "defect"),
    [("fail", True), ("Hallucinated", True), ("thumbs-down", True), ("PASS", False), ("correct", False)],
)
def test_a_label_that_everybody_knows_decides_and_stands_at_its_end_of_the_scale(label, defect):
    assert read(label=label) == (Score(0.0 if defect else 1.0, "", label=label), defect)
    assert read(label=label, value=0.6) == (Score(0.6, "", label=label), defect)


@pytest.mark.parametrize(
    ("name", "said", "reason"),
    [
        ("tone", {"value": 4.0}, UnscoredReason.OUT_OF_RANGE),
        ("tone", {"label": "meh"}, UnscoredReason.MALFORMED),
        ("tone", {"error": "timeout"}, UnscoredReason.ERROR),
        ("toxicity", {"value": 0.9}, UnscoredReason.MALFORMED),
        ("hallucination", {"value": 0.9}, UnscoredReason.MALFORMED),
    ],
)
def test_what_cannot_be_read_is_unscored_and_never_guessed(name, said, reason):
    outcome, defect = read(name, **said)
    assert isinstance(outcome, Unscored)
    assert (outcome.reason, defect) == (reason, False)


def test_a_name_that_does_not_say_which_end_is_good_is_read_by_its_label():
    assert read("toxicity", value=0.9, label="toxic") == (Score(0.9, "", label="toxic"), True)


def test_what_is_configured_decides():
    one = ExternalEvaluatorSettings(lowest=0, highest=5, better="lower", at_least=3, bad_labels=("Very Rude",))
    settings = FeedbackSettings(evaluators={"toxicity": one})
    assert [read("toxicity", settings, value=value)[1] for value in (2.9, 3.0)] == [False, True]
    assert read("toxicity", settings, label="very_rude") == (Score(5.0, "", label="very_rude"), True)
    assert str(ruling("toxicity", settings)) == "at least 3, or a label that is known to be bad"


@pytest.mark.parametrize(("value", "defect"), [(-1.0, True), (-0.1, True), (0.0, False), (1.0, False)])
def test_users_speak_from_minus_1_to_1_and_0_is_neutral(value, defect):
    assert read("user_feedback", value=value) == (Score(value, ""), defect)


@pytest.mark.parametrize(
    "given",
    [
        {"lowest": 1},
        {"highest": 1e-9},
        {"highest": 1e300},
        {"lowest": float("nan")},
        {"at_least": 0.5},
        {"below": 2},
        {"better": "lower", "below": 0.5},
        {"scale": 1},
    ],
)
def test_a_rule_that_contradicts_itself_is_refused(given):
    with pytest.raises(ValidationError):
        ExternalEvaluatorSettings.model_validate(given)


def test_a_name_of_ours_gets_another():
    assert label_name("groundedness", {"groundedness", "groundedness_external"}) == "groundedness_external_external"
    assert known_names(
        FeedbackSettings(evaluators={"groundedness": ExternalEvaluatorSettings()}), {"groundedness"}
    ) == [
        "user_feedback",
        "groundedness_external",
    ]


def test_alerts_may_name_users_and_configured_evaluators_and_no_others():
    alerts = [{"evaluator": "user_feedback", "warning": "20%"}, {"evaluator": "tone", "critical": "5%"}]
    Config.model_validate({"alerts": alerts, "feedback": {"evaluators": {"tone": {}}}})
    with pytest.raises((ConfigError, ValidationError), match="'tone' is not among the evaluators"):
        Config.model_validate({"alerts": alerts})


ends = st.floats(-1e6, 1e6)


@given(ends, ends, st.sampled_from(["higher", "lower"]), st.none() | st.floats(), st.text(max_size=8))
def test_a_score_always_lies_on_the_scale_and_has_a_level(lowest, highest, better, value, label):
    if highest - lowest < 0.001:
        return
    one = Ruling(ExternalEvaluatorSettings(lowest=lowest, highest=highest, better=better))
    outcome, _ = one.read(verdict(value=value, label=label))
    if isinstance(outcome, Score):
        assert one.scale.level(outcome.value) in ("low", "high")
