"""What the front matter of a rubric can say beyond a judged score: counted scores, and what it needs of a case."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import ConfigError, JudgeError
from monitor.evaluators._rubric_parts import COMPUTED, KINDS
from monitor.evaluators.rubric import from_file
from monitor.judge.codec import VerdictFault, read_verdict
from monitor.model.case import Case, ContextStatus, Document, Request
from monitor.model.outcome import Score, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.stages import Evaluator
from monitor.testing import ScriptedJudge
from tests.support.rubrics import shipped

pytestmark = pytest.mark.anyio

RUBRIC = """---
name: coverage
definition: ours
scale:
  lowest: 0
  highest: 10
  better: higher
  whole: false
  anchors:
    - {value: 0, level: low, means: few}
    - {value: 5, level: high, means: many}
needs: [context]
defect: {below: 5}
evidence: intents
score: answered_intents
---
Break {{query}} into `intents` and look them up in {{context}}. Beside it: {{response}}
"""
CASE = Case(
    request_id="1",
    request=Request("How many moons, and how far?"),
    retrieved_context=(Document("Mars has two moons."), Document("Venus."), Document("Far.", doc_id="c3")),
    response="Two. Far.",
    expected_response="Two",
)


def write(folder: Path, text: str) -> Path:
    path = folder / "own.md"
    path.write_text(text)
    return path


def intents(*documents: list[int]) -> dict[str, Any]:
    listed = [
        {"intent": f"intent {at}", "documents": [str(number) for number in found], "note": "n"}
        for at, found in enumerate(documents)
    ]
    return {"intents": listed, "explanation": "because"}


def claims(*verdicts: str) -> dict[str, Any]:
    return {"claims": [{"quote": "Two.", "verdict": one, "note": "n"} for one in verdicts], "explanation": "because"}


def documents(*relevant: bool) -> dict[str, Any]:
    listed = {str(number): {"note": "n", "relevant": one} for number, one in enumerate(relevant, 1)}
    return {"documents": listed, "explanation": "because"}


async def outcome(evaluator: Evaluator, answer: dict[str, Any], case: Case = CASE) -> Any:
    return await evaluator.evaluate(case, ScriptedJudge([answer]))


@pytest.mark.parametrize(
    ("name", "answer", "value", "says"),
    [
        ("faithfulness", claims("supported", "supported", "absent", "contradicted"), 0.5, "2 of 4 claims are"),
        ("faithfulness", claims("supported"), 1, "1 of 1 claim is"),
        ("faithfulness", claims("absent", "contradicted"), 0, "0 of 2 claims are"),
        ("faithfulness", claims("supported", "supported", "absent"), 2 / 3, "2 of 3 claims are"),
        ("chunk_relevance", documents(True, False, False), 1 / 3, "1 of 3 documents are"),
        ("chunk_relevance", documents(False, False, False), 0, "0 of 3 documents are"),
        ("chunk_relevance", documents(True, True, True), 1, "3 of 3 documents are"),
        ("retrieval", intents([1], [3]), 5, "2 of 2 intents are"),
        ("retrieval", intents([1, 3], []), 2, "1 of 2 intents are"),
        ("retrieval", intents([1], [], [2]), 1 + 4 * 4 / 9, "2 of 3 intents are"),
        ("retrieval", intents([1], [2], [2], []), 3.25, "3 of 4 intents are"),
        ("retrieval", intents([]), 1, "0 of 1 intent is"),
    ],
)
async def test_a_score_is_counted_from_the_evidence(name, answer, value, says):
    made = shipped(name)
    found = await outcome(made, answer)
    assert found.value == pytest.approx(value)
    assert found.label == made.scale.level(value)
    assert found.explanation.startswith(says)
    assert found.explanation.endswith("because")


@pytest.mark.parametrize(
    ("name", "answer", "reason"),
    [
        ("faithfulness", claims(), SkippedReason.NO_CLAIMS),
        ("retrieval", intents(), SkippedReason.NO_REQUEST),
    ],
)
async def test_a_share_of_nothing_is_no_score(name, answer, reason):
    """Nothing judged is never perfect, and never bad."""
    assert await outcome(shipped(name), answer) == Skipped(reason)


async def test_a_quoted_claim_that_is_not_in_the_response_counts_for_nothing():
    answer = claims("supported", "absent")
    answer["claims"] += [{"quote": "Mars is red", "verdict": "supported", "note": "n"}] * 2
    found = await outcome(shipped("faithfulness"), answer)
    assert (found.value, found.claims_not_found, len(found.evidence)) == (0.5, 2, 2)
    assert (
        found.explanation
        == "1 of 2 claims are supported. because 2 quoted claims are not in the response and left out."
    )


@pytest.mark.parametrize("name", ["faithfulness", "groundedness"])
async def test_a_verdict_on_claims_of_which_none_is_in_the_response_is_unscored(name):
    answer = {
        "claims": [{"quote": "Mars is red", "verdict": "supported", "note": "n"}],
        "explanation": "All stands there.",
        "score": 5,
    }
    detail = "1 quoted claim is not in the response, and there are no others"
    assert await outcome(shipped(name), answer) == Unscored(UnscoredReason.MALFORMED, detail, claims_not_found=1)


@given(st.lists(st.sampled_from(["supported", "contradicted", "absent"]), min_size=1, max_size=30), st.integers(0, 29))
async def test_more_support_never_makes_a_counted_score_worse(verdicts, number):
    made = shipped("faithfulness")
    at = number % len(verdicts)
    better = [*verdicts[:at], "supported", *verdicts[at + 1 :]]
    one, other = [await outcome(made, claims(*listed)) for listed in (verdicts, better)]
    assert 0 <= one.value <= other.value <= 1


@given(st.floats(0, 1), st.floats(0, 1))
def test_no_formula_falls_where_the_share_rises_and_all_reach_both_ends(one, other):
    for computed in COMPUTED.values():
        assert (computed.of_share(0), computed.of_share(1)) == (0, 1)
        assert computed.of_share(min(one, other)) <= computed.of_share(max(one, other))


async def test_a_counted_score_is_spread_over_the_scale_of_a_rubric_of_ones_own(tmp_path):
    made = from_file(write(tmp_path, RUBRIC))()
    found = await outcome(made, intents([1], []))
    assert (found.value, found.label) == (2.5, "low")


async def test_evidence_on_intents_and_documents_names_them():
    found = await outcome(shipped("retrieval"), intents([3, 1, 3], []))
    assert [(one.claim, one.verdict, one.note) for one in found.evidence] == [
        ("intent 0", "supported", "documents 1, 3: n"),
        ("intent 1", "absent", "no document: n"),
    ]
    found = await outcome(shipped("chunk_relevance"), documents(True, False, True))
    assert [(one.claim, one.verdict) for one in found.evidence] == [
        ("document 1", "supported"),
        ("document 2", "absent"),
        ("document 3 (c3)", "supported"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        '{"intents": [{"intent": "i", "documents": ["4"], "note": "n"}], "explanation": "e"}',
        '{"intents": [{"intent": "i", "documents": ["0"], "note": "n"}], "explanation": "e"}',
        '{"intents": [{"intent": "i", "documents": [1], "note": "n"}], "explanation": "e"}',
        '{"intents": [{"intent": "i", "documents": "1", "note": "n"}], "explanation": "e"}',
        '{"intents": [{"intent": "i", "note": "n"}], "explanation": "e"}',
    ],
)
def test_an_intent_with_a_document_that_does_not_exist_is_malformed(text):
    schema: Any = {"properties": {"intents": KINDS["intents"].schema(CASE)}, "required": ["intents"]}
    with pytest.raises(VerdictFault):
        read_verdict(text, schema)


@pytest.mark.parametrize(
    "given",
    [
        {"1": {"note": "", "relevant": True}, "2": {"note": "", "relevant": True}},
        {number: {"note": "", "relevant": True} for number in "1234"},
        {number: {"note": "", "relevant": 1} for number in "123"},
        {number: {"relevant": True} for number in "123"},
        {},
        [],
    ],
)
def test_every_document_is_told_exactly_once_or_the_verdict_is_malformed(given):
    """A document left out, one that does not exist, and a number for a truth value."""
    import json

    schema: Any = {"properties": {"documents": KINDS["documents"].schema(CASE)}, "required": ["documents"]}
    with pytest.raises(VerdictFault):
        read_verdict(json.dumps({"documents": given}), schema)


@pytest.mark.parametrize("name", ["faithfulness", "retrieval", "chunk_relevance"])
async def test_a_judge_is_not_asked_for_a_score_that_is_counted(name):
    judge = ScriptedJudge([])
    with pytest.raises(Exception, match="script has ended"):
        await shipped(name).evaluate(CASE, judge)
    assert list(judge.questions[0].schema["properties"])[1:] == ["explanation"]


async def test_many_documents_get_room_for_their_entries_up_to_a_limit():
    judge = ScriptedJudge(lambda _: documents(*[True] * number))
    for number, room in ((3, 1024 + 3 * 64), (500, 4096)):
        case = Case(request_id="1", request=CASE.request, retrieved_context=(Document("x"),) * number)
        assert isinstance(await shipped("chunk_relevance").evaluate(case, judge), Score)
        assert judge.questions[-1].max_tokens == room


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("score: answered_intents", "score: share", "score"),
        ("score: answered_intents", "score: supported_share", "`evidence: claims`"),
        ("evidence: intents\n", "", "`evidence: intents`"),
        ("evidence: intents", "evidence: points", "evidence"),
        ("better: higher", "better: lower", "defect.below"),
        ("better: higher\n  whole: false", "better: higher", "whole: false"),
        ("{{query}}", "the question", "{{query}}"),
        ("needs: [context]", "needs: []", ""),
        ("{{context}}", "the documents", "{{context}}"),
        ("Beside it", "{{scale}}", "must not be used"),
        ("needs: [context]", "needs: [context]\ntrivial_score: never", "trivial_score"),
        ("needs: [context]", "needs: [context]\ntrivial_score: 11", "trivial_score: 11"),
        ("needs: [context]", "needs: [context, response]\ntrivial_score: judge", "does not need the response"),
        (" Beside it: {{response}}", "", ""),
        (" Beside it: {{response}}\n", "\n", ""),
    ],
)
def test_a_fault_in_a_counted_rubric_names_the_file_and_the_key(tmp_path, old, new, says):
    assert old in RUBRIC
    path = write(tmp_path, RUBRIC.replace(old, new, 1))
    if not says:
        from_file(path)  # allowed
        return
    with pytest.raises(ConfigError) as caught:
        from_file(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_a_counted_score_never_stands_on_a_scale_where_lower_is_better(tmp_path):
    """A rate of what is good would be alerted on as if it were bad."""
    text = RUBRIC.replace("better: higher", "better: lower").replace("{below: 5}", "{at_least: high}")
    with pytest.raises(ConfigError, match=r"needs scale\.better `higher`"):
        from_file(write(tmp_path, text))


def test_a_rubric_that_shows_nothing_of_a_case_is_refused(tmp_path):
    text = RUBRIC.replace("evidence: intents\nscore: answered_intents\n", "").replace("needs: [context]", "needs: []")
    text = text.split("\n---\n")[0] + "\n---\nGive a score. {{scale}}\n"
    with pytest.raises(ConfigError, match="show nothing of a case"):
        from_file(write(tmp_path, text))


def test_a_rubric_without_a_response_takes_no_trivial_score(tmp_path):
    text = RUBRIC.replace(" Beside it: {{response}}", "").replace(
        "needs: [context]", "needs: [context]\ntrivial_score: 0"
    )
    with pytest.raises(ConfigError, match="show no response"):
        from_file(write(tmp_path, text))


@pytest.mark.parametrize(
    ("change", "needs"),
    [
        (("", ""), {"context", "response"}),
        (("needs: [context]", "needs: [context]\ntrivial_score: judge"), {"context"}),
        (("needs: [context]", "needs: [context]\ntrivial_score: skip"), {"context", "response"}),
        ((" Beside it: {{response}}", ""), {"context"}),
    ],
)
def test_a_rubric_that_shows_the_response_needs_it_unless_it_says_otherwise(tmp_path, change, needs):
    assert from_file(write(tmp_path, RUBRIC.replace(*change, 1) if change[0] else RUBRIC)).needs == needs


@pytest.mark.parametrize("name", ["retrieval", "chunk_relevance", "context_sufficiency"])
@pytest.mark.parametrize("query", ["", " \n"])
async def test_a_case_without_a_question_is_skipped_by_who_looks_at_nothing_else(name, query):
    case = Case(request_id="1", request=Request(query), retrieved_context=CASE.retrieved_context)
    assert isinstance(await shipped(name).evaluate(case, ScriptedJudge([])), Skipped)


EMPTY = replace(CASE, retrieved_context=(), context_status=ContextStatus.RETRIEVED_NOTHING)


@pytest.mark.parametrize(("name", "value"), [("retrieval", 1), ("context_sufficiency", 0), ("indirect_attack", 0)])
async def test_where_nothing_was_retrieved_a_rule_decides_without_the_judge(name, value):
    found = await shipped(name).evaluate(EMPTY, ScriptedJudge([]))
    assert isinstance(found, Score)
    assert (found.value, found.explanation) == (value, "By rule, without a judge: nothing was retrieved.")


async def test_intents_of_a_rubric_of_your_own_are_unanswered_where_nothing_was_retrieved(tmp_path):
    found = await from_file(write(tmp_path, RUBRIC))().evaluate(EMPTY, ScriptedJudge([]))
    assert isinstance(found, Score)
    assert (found.value, found.label) == (0, "low")


async def test_where_nothing_was_retrieved_there_are_no_documents_to_rate():
    assert await shipped("chunk_relevance").evaluate(EMPTY, ScriptedJudge([])) == Skipped(SkippedReason.NO_DOCUMENTS)


@pytest.mark.parametrize("name", ["groundedness", "faithfulness", "relevancy", "completeness"])
async def test_where_nothing_was_retrieved_the_judge_is_told_that_there_are_no_sources(name):
    judge = ScriptedJudge([JudgeError(UnscoredReason.TIMEOUT, "enough")])
    with pytest.raises(JudgeError):
        await shipped(name).evaluate(EMPTY, judge)
    (question,) = judge.questions
    assert question.material["context"] == "[]"
    assert "the list of documents in the data block `context` is empty" in question.instructions


async def test_a_claim_about_nothing_is_unsupported_and_none_is_no_defect():
    evaluator = shipped("faithfulness")
    invented = {"claims": [{"quote": "Two.", "verdict": "absent", "note": "n"}], "explanation": "Nothing says so."}
    found = await evaluator.evaluate(EMPTY, ScriptedJudge([invented]))
    assert isinstance(found, Score)
    assert (found.value, evaluator.default_defect.matches(found)) == (0.0, True)
    honest = replace(EMPTY, response="I could not find anything on that.")
    silent = ScriptedJudge([{"claims": [], "explanation": "It claims nothing."}])
    assert await evaluator.evaluate(honest, silent) == Skipped(SkippedReason.NO_CLAIMS)


@pytest.mark.parametrize(
    ("change", "stated"),
    [
        (("score: answered_intents", "score: answered_intents\nnothing_retrieved: 11"), "11 is not on the scale"),
        (("needs: [context]", "needs: []\nnothing_retrieved: 0"), r"needs: \[context\]"),
    ],
)
def test_a_rule_for_empty_retrievals_must_be_on_the_scale_of_a_rubric_that_needs_context(tmp_path, change, stated):
    with pytest.raises(ConfigError, match=stated):
        from_file(write(tmp_path, RUBRIC.replace(*change)))


@pytest.mark.parametrize("name", ["correctness", "similarity"])
@pytest.mark.parametrize("expected", [None, "", "  "])
async def test_a_case_with_expected_documents_only_has_no_reference_to_compare_with(name, expected):
    case = Case(
        request_id="1", response="Two.", expected_response=expected, expected_retrieved_context=(Document("Two."),)
    )
    assert await shipped(name).evaluate(case, ScriptedJudge([])) == Skipped(SkippedReason.NO_REFERENCE)


async def test_the_judge_is_told_the_kind_of_each_source_that_is_no_document():
    judge = ScriptedJudge([JudgeError(UnscoredReason.TIMEOUT, "enough")])
    mixed = (Document("One."), Document("21 degrees.", kind="tool_result"), Document("Terms.", kind="attachment"))
    with pytest.raises(JudgeError):
        await shipped("groundedness").evaluate(replace(CASE, retrieved_context=mixed), judge)
    (question,) = judge.questions
    assert json.loads(question.material["context"]) == [
        {"document": 1, "text": "One."},
        {"document": 2, "kind": "tool result", "text": "21 degrees."},
        {"document": 3, "kind": "attachment", "text": "Terms."},
    ]
    assert "They are sources like the documents." in question.instructions


async def test_plain_documents_need_no_words_on_their_kind():
    judge = ScriptedJudge([JudgeError(UnscoredReason.TIMEOUT, "enough")])
    with pytest.raises(JudgeError):
        await shipped("groundedness").evaluate(CASE, judge)
    assert "tool result" not in judge.questions[0].instructions
