"""The probability of agreement: what the classifier is asked, and how strictly its scores are read."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import config
from monitor.errors import ConfigError, JudgeError
from monitor.evaluators.hhem import Hhem, read_scores
from monitor.model.case import Case, Document, Message, Request
from monitor.model.outcome import Score, Skipped, SkippedReason, UnscoredReason
from monitor.testing import ScriptedJudge
from tests.support.work import assert_linear

pytestmark = pytest.mark.anyio

BOTH = '[[{"label": "consistent", "score": 0.75}, {"label": "hallucinated", "score": 0.25}]]'


def case(*contexts: str, query: str = "How many moons?") -> Case:
    documents = tuple(map(Document, contexts))
    return Case(request_id="1", request=Request(query), retrieved_context=documents, response=" Two moons.\n")


def classifier(reply: str = BOTH) -> ScriptedJudge:
    return ScriptedJudge(lambda _: {"text": reply, "tokens": []})


@pytest.mark.parametrize(
    ("reply", "label", "read"),
    [
        (BOTH, "", ("consistent", 0.75)),
        ('[{"label": "consistent", "score": 1}]', "", ("consistent", 1.0)),
        ('[{"label": "ENTAILMENT", "score": 0.5}, {"label": "NEUTRAL", "score": 0.3}]', "", ("ENTAILMENT", 0.5)),
        ('[{"label": "LABEL_0", "score": 0.125}]', "LABEL_0", ("LABEL_0", 0.125)),
        ('[{"label": "hallucinated", "score": 0.75}]', "", ("consistent", 0.25)),
        ('[[{"label": "not_entailment", "score": 1.0}]]', "entailment", ("entailment", 0.0)),
        (
            '[{"label": "consistent", "score": 0.1}, {"label": "entailment", "score": 0.2}]',
            "entailment",
            ("entailment", 0.2),
        ),
    ],
)
def test_scores_are_read_as_servers_send_them(reply, label, read):
    assert read_scores(reply, label) == read


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "0.9",
        "consistent",
        "null",
        "{}",
        "[]",
        "[[]]",
        "[0.9]",
        '{"label": "consistent", "score": 0.9}',
        '[{"label": "consistent"}]',
        '[{"score": 0.9}]',
        '[{"label": "consistent", "score": "0.9"}]',
        '[{"label": "consistent", "score": true}]',
        '[{"label": "consistent", "score": null}]',
        '[{"label": "consistent", "score": NaN}]',
        '[{"label": 1, "score": 0.9}]',
        '[{"label": "contradiction", "score": 0.9}]',
        '[{"label": "LABEL_0", "score": 0.9}, {"label": "LABEL_1", "score": 0.1}]',
        '[{"label": "consistent", "score": 0.9}, {"label": "consistent", "score": 0.1}]',
        '[{"label": "consistent", "score": 0.9}, {"label": "entailment", "score": 0.1}]',
        '[[{"label": "consistent", "score": 0.9}], [{"label": "consistent", "score": 0.1}]]',
        '[{"label": "consistent", "score": 0.9}] and more',
    ],
)
def test_anything_else_is_malformed(reply):
    with pytest.raises(JudgeError) as caught:
        read_scores(reply)
    assert caught.value.reason is UnscoredReason.MALFORMED


@pytest.mark.parametrize("score", ["1.5", "-0.1", "Infinity", "-Infinity", "1e400", "3.2"])
def test_a_score_that_is_no_probability_is_out_of_range(score):
    with pytest.raises(JudgeError) as caught:
        read_scores(f'[{{"label": "consistent", "score": {score}}}]')
    assert caught.value.reason is UnscoredReason.OUT_OF_RANGE


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from(["consistent", "label", "score"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["label", "score"]), inner, max_size=2),
)


@given(json_values)
def test_whatever_comes_is_a_probability_or_a_reason(value):
    score, reason = -1.0, None
    try:
        _, score = read_scores(json.dumps(value))
    except JudgeError as error:
        reason = error.reason
    assert 0 <= score <= 1 or reason in (UnscoredReason.MALFORMED, UnscoredReason.OUT_OF_RANGE)


@pytest.mark.parametrize("reply", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, "[" * 900 + "]" * 900])
def test_no_reply_takes_long_to_read(reply):
    def read(part):
        with suppress(JudgeError):
            read_scores(part)

    with pytest.raises(JudgeError):
        read_scores(reply)
    assert_linear(read, reply)


async def test_context_and_question_are_the_premise_and_the_whole_response_the_hypothesis():
    judge = classifier()
    found = await Hhem().evaluate(case("first", "second"), judge)
    assert judge.questions[0].messages == (
        Message("premise", "first\n\nsecond\n\nHow many moons?"),
        Message("hypothesis", "Two moons."),
    )
    assert found == Score(0.75, "The classifier gives `consistent` a probability of 0.750.", "consistent")


@pytest.mark.parametrize(("query", "question"), [("", True), ("How many moons?", False)])
async def test_the_question_may_be_left_out(query, question):
    judge = classifier()
    await Hhem(question=question).evaluate(case("first", query=query), judge)
    assert judge.questions[0].messages[0] == Message("premise", "first")


@pytest.mark.parametrize("contexts", [(), (" ",)])
async def test_what_a_response_claims_about_nothing_is_unsupported_without_asking(contexts):
    judge = classifier()
    found = await Hhem().evaluate(case(*contexts), judge)
    assert isinstance(found, Score)
    assert (found.value, found.label, judge.questions) == (0.0, "inconsistent", [])


async def test_an_honest_i_do_not_know_is_a_refusal_whatever_was_retrieved():
    for found in (case(), case("Mars has two moons.")):
        unsure = replace(found, response="I do not know.")
        assert await Hhem().evaluate(unsure, classifier()) == Skipped(SkippedReason.REFUSAL)


async def test_a_greeting_about_nothing_claims_nothing():
    greeting = replace(case(), response="Hello! How can I help?")
    assert await Hhem().evaluate(greeting, classifier()) == Skipped(SkippedReason.NO_CLAIMS)


@pytest.mark.parametrize(
    ("evaluator", "model", "stated"),
    [
        ("hhem", "openai/gpt-4o-mini", "hhem needs `classifier/NAME`"),
        ("groundedness", "classifier/x", "groundedness needs a language model"),
        ("trustworthiness", "classifier/x", "trustworthiness needs a language model"),
    ],
)
def test_a_judge_of_the_wrong_kind_is_an_error_before_the_start(evaluator, model, stated):
    judges = f"judges:\n  other: {{model: {model}, api_base: 'http://127.0.0.1:9'}}\n"
    text = f"{judges}evaluators:\n  - {{type: {evaluator}, judge: other}}\nalerts: []\n"
    with pytest.raises(ConfigError, match=stated):
        config.parse_text(text)
    right = "classifier/x" if evaluator == "hhem" else "openai/gpt-4o-mini"
    assert config.parse_text(text.replace(model, right)).configured_evaluators
