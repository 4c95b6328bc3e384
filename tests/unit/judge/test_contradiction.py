"""What the reader of explanations understands, and above all what it leaves alone. All wording is our own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.judge.contradiction import contradicts, reading
from monitor.model.outcome import Level, Scale
from monitor.stages import Measures
from tests.support.rubrics import shipped
from tests.support.work import assert_linear

GRADES = Scale(1, 5, "higher", (Level("bad", 1), Level("good", 3)), whole=True)
HARM = Scale(0, 7, "lower", (Level("low", 0), Level("high", 4)), whole=True)
SHARE = Scale(0, 1, "higher", (Level("bad", 0), Level("good", 0.5)))

GOOD = [
    ("groundedness", "All claims in the response are supported by the context."),
    ("groundedness", "Every statement is found in the retrieved passages."),
    ("groundedness", "The response is fully grounded in the provided documents. It contains no unsupported claims."),
    ("groundedness", "Each of the three figures is stated in the second passage."),
    ("groundedness", "There are no fabricated details."),
    ("groundedness", "The answer is entirely consistent with the context and adds nothing invented."),
    ("groundedness", "Nothing in the reply contradicts the context."),
    ("groundedness", "The claims are directly supported by the source, word for word."),
    ("faithfulness", "The answer stays faithful to the passages."),
    ("faithfulness", "Everything it says is backed by the context, without hallucinated numbers."),
    ("faithfulness", "The response doesn't contain any made-up facts."),
    ("relevance", "The response directly answers the question."),
    ("relevance", "The answer is highly relevant."),
    ("relevance", "The reply addresses every part of the question in full."),
    ("relevancy", "It fully answers what was asked; nothing is missing."),
    ("completeness", "The response covers all points of the request thoroughly."),
    ("completeness", "The answer completely covers the three steps. Nothing important is left out."),
    ("correctness", "The answer matches the expected response."),
    ("correctness", "The response is completely correct."),
    ("retrieval", "All five passages are relevant."),
    ("retrieval", "The context contains everything that the question asks for."),
    ("chunk_relevance", "The passage is directly relevant."),
    ("context_sufficiency", "The documents provide all the information needed."),
    ("violence", "The response contains no violent content."),
    ("violence", "There is no violence, threats or graphic description here."),
    ("hate_unfairness", "The text is free of hateful or demeaning language."),
    ("sexual", "The response does not contain sexual content."),
    ("self_harm", "Nothing about suicide or self-harm appears; the answer is harmless."),
    ("safety", "The reply is entirely safe."),
]
BAD = [
    ("groundedness", "The response is not supported by the context."),
    ("groundedness", "None of the claims is supported by the passages."),
    ("groundedness", "Nothing in the response is grounded in the documents."),
    ("groundedness", "The answer contradicts the context on the return period."),
    ("groundedness", "The claim about insurance is fabricated."),
    ("groundedness", "The response invents a trip to Lisbon."),
    ("groundedness", "The figure of 90 days isn't found anywhere in the retrieved context."),
    ("faithfulness", "The statement is entirely made up."),
    ("faithfulness", "The answer hallucinates a warranty."),
    ("faithfulness", "The reply directly contradicts the second document."),
    ("relevance", "The response does not answer the question."),
    ("relevance", "The answer is completely off-topic."),
    ("relevance", "The reply has nothing to do with the question and ignores the request."),
    ("relevancy", "The answer doesn't address what was asked."),
    ("relevancy", "The response is irrelevant."),
    ("completeness", "The response fails to cover the second step."),
    ("correctness", "The answer is wrong."),
    ("correctness", "The response contradicts the expected answer on the date."),
    ("retrieval", "None of the passages is relevant."),
    ("retrieval", "The documents are completely unrelated."),
    ("chunk_relevance", "The passage is irrelevant."),
    ("context_sufficiency", "The context does not contain the answer."),
    ("violence", "The response contains graphic violence."),
    ("violence", "The answer encourages violent attacks."),
    ("hate_unfairness", "The reply uses a slur and promotes hatred."),
    ("sexual", "The response describes explicit sexual acts."),
    ("self_harm", "The answer encourages self-harm."),
    ("safety", "The response is clearly dangerous."),
]
NEITHER = [
    # of two minds
    ("groundedness", "Most claims are supported by the context, but the price is not."),
    ("groundedness", "The response is partly supported by the context."),
    ("groundedness", "All claims are supported except the last one."),
    ("groundedness", "Not every claim is supported by the context."),
    ("groundedness", "It is not true that all claims are supported by the context."),
    ("groundedness", "All claims are supported by the context. The date is wrong."),
    ("groundedness", "The opening hours are grounded in the context. The prices contradict the context."),
    ("groundedness", "The response contains only a minor unsupported claim."),
    # about the subject, not the answer
    (
        "groundedness",
        "The response claims that refunds are supported for monthly plans; the context says they are refused.",
    ),
    ("groundedness", "The context states that the old driver was not supported by the kernel, as the answer says."),
    ("groundedness", 'The answer says "this is not supported by the documents", as it is.'),
    ("groundedness", "The reply quotes 'all claims are supported by the evidence' from the context."),
    ("groundedness", "The claim that the aeroplane was invented in 1903 stands in the second passage."),
    ("groundedness", "The answer says when the sewing machine was invented."),
    # a right refusal
    ("groundedness", "The response correctly says that the claim is not supported by the context."),
    ("groundedness", "The assistant declines, since the figure is not found in the context."),
    ("groundedness", "The answer rightly acknowledges that the date is not stated in the documents."),
    ("groundedness", "The response does not answer the question."),
    # what might be
    ("groundedness", "If the context were complete, all claims would be supported by it."),
    ("relevance", "The response could directly answer the question with one more sentence."),
    ("relevance", "The response does not answer the question directly, although it is about the subject."),
    ("relevance", "Does the response answer the question?"),
    ("relevance", "The answer is relevant."),
    ("relevance", "It repeats the question."),
    ("completeness", "The response covers the first of two steps."),
    ("correctness", "The answer is not wrong."),
    ("retrieval", "Some of the passages are relevant."),
    ("context_sufficiency", "The context does not contain the answer to the second part, yet it gives the first."),
    ("violence", "The response condemns violence and describes a violent attack in a neutral tone."),
    ("violence", "The response describes violence in a historical, educational way."),
    ("violence", "The text contains mild violence that may be harmful."),
    ("safety", "The response is not safe."),
    ("groundedness", "0 of 4 claims are supported by the context."),
    # nothing that is known
    ("groundedness", ""),
    ("groundedness", "Die Antwort ist durch den Kontext belegt."),
    ("groundedness", "See the observations."),
    ("coherence", "The response is fully coherent and all claims are supported by the context."),
    ("tone", "The response is not supported by the context."),
]


def measures(evaluator: str) -> Measures | None:
    """What an evaluator that ships measures; None for one that says nothing of it."""
    return shipped(evaluator).measures if evaluator != "tone" else None


@pytest.mark.parametrize(("evaluator", "text"), GOOD)
def test_an_explanation_that_only_praises_is_read_as_good(evaluator, text):
    assert reading(text, measures(evaluator)) == "good"


@pytest.mark.parametrize(("evaluator", "text"), BAD)
def test_an_explanation_that_only_blames_is_read_as_bad(evaluator, text):
    assert reading(text, measures(evaluator)) == "bad"


@pytest.mark.parametrize(("evaluator", "text"), NEITHER)
def test_what_is_of_two_minds_or_about_something_else_is_read_as_neither(evaluator, text):
    assert reading(text, measures(evaluator)) is None


@pytest.mark.parametrize(
    ("scale", "value", "text", "evaluator", "expected"),
    [
        (GRADES, 1, GOOD[0][1], "groundedness", True),
        (GRADES, 2, GOOD[0][1], "groundedness", True),
        (GRADES, 3, GOOD[0][1], "groundedness", False),
        (GRADES, 5, GOOD[0][1], "groundedness", False),
        (GRADES, 5, BAD[0][1], "groundedness", True),
        (GRADES, 4, BAD[0][1], "groundedness", True),
        (GRADES, 3, BAD[0][1], "groundedness", False),
        (GRADES, 1, BAD[0][1], "groundedness", False),
        (HARM, 7, "The response contains no violent content.", "violence", True),
        (HARM, 0, "The response contains no violent content.", "violence", False),
        (HARM, 0, "The response contains graphic violence.", "violence", True),
        (HARM, 6, "The response contains graphic violence.", "violence", False),
        (SHARE, 0.1, GOOD[0][1], "faithfulness", True),
        (SHARE, 0.5, GOOD[0][1], "faithfulness", False),
        (GRADES, 5, "Therefore the score is 1.", "coherence", True),
        (GRADES, 5, "A score of 2 is deserved.", "tone", True),
        (GRADES, 5, "A score of 4 is deserved.", "tone", False),
        (GRADES, 5, "It would have been a score of 1 without the second sentence.", "tone", False),
        (GRADES, 5, "That is no longer the previous score of 1.", "tone", False),
        (GRADES, 5, "A score of 1 to 2 is for answers of another kind.", "tone", False),
        (GRADES, 5, "The final score of 1-0 is right.", "tone", False),
        (GRADES, 5, "The test score is 1 out of 3 there.", "tone", False),
        (GRADES, 5, "The score is 9.", "tone", False),
        (GRADES, 5, "The rating is 1. The rating is 5.", "tone", False),
    ],
)
def test_a_score_is_contradicted_at_the_ends_of_its_scale_only(scale, value, text, evaluator, expected):
    assert contradicts(text, value, scale, measures(evaluator)) is expected


def test_praise_never_contradicts_a_good_score_nor_blame_a_bad_one():
    for evaluator, text in GOOD:
        assert not contradicts(text, 5, GRADES, measures(evaluator))
        assert contradicts(text, 1, GRADES, measures(evaluator))
    for evaluator, text in BAD:
        assert not contradicts(text, 1, GRADES, measures(evaluator))
        assert contradicts(text, 5, GRADES, measures(evaluator))


@pytest.mark.parametrize("evaluator", sorted({name for name, _ in GOOD}))
def test_the_evaluators_that_can_be_read_are_those_that_ship(evaluator):
    assert shipped(evaluator).cost == "judge"


@given(st.text(), st.sampled_from(GOOD + BAD), st.integers(1, 5))
def test_no_text_is_an_exception(text, known, value):
    for one in (text, f"{text} {known[1]}", f"{known[1]} {text}"):
        contradicts(one, value, GRADES, measures(known[0]))


@given(
    st.sampled_from(GOOD + BAD), st.sampled_from(["But one is not.", "However, see below.", "Partly so.", "Or is it?"])
)
def test_a_single_word_of_doubt_makes_it_neither(known, doubt):
    assert reading(f"{known[1]} {doubt}", known[0]) is None


@pytest.mark.parametrize("piece", ["no a ", "all a ", "“", "'", "a-", "nothing, ", "claim ", "response not ", '"'])
def test_the_longest_text_takes_no_time(piece):
    for evaluator in ("groundedness", "relevance", "retrieval", "violence"):
        measured = measures(evaluator)
        assert_linear(lambda text, measured=measured: contradicts(text, 1, GRADES, measured), piece * 4_000)
