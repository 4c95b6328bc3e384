"""Each shape that people already have is known by its fields and read as it was meant."""

from __future__ import annotations

import json

import pytest

from monitor.errors import InvalidData
from monitor.extraction import rows
from monitor.extraction.rows.common import NAMES
from monitor.model.case import Document, Message, ReadingStatus, Usage
from tests.support import paths
from tests.support.rows import contents, reading, readings

ROWS = paths.DATA / "rows"
EXAMPLES = [json.loads(line) for line in (ROWS / "shapes.jsonl").read_text().splitlines()]

QUESTION, ANSWER = "How long is the warranty?", "Two years."
CONTEXT = ["The warranty is two years.", "Batteries have one year."]


@pytest.mark.parametrize("example", EXAMPLES, ids=[one["name"] for one in EXAMPLES])
def test_a_row_is_known_by_its_fields_and_read(example):
    found = reading(example["row"])
    assert found.case.convention == example["shape"]
    assert (found.status, found.error) == (ReadingStatus.READY, "")
    assert (found.case.request.query, found.case.response) == (QUESTION, ANSWER)
    assert contents(found) == CONTEXT
    assert found.case.context_source == "row"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"request": QUESTION, "response": ANSWER, "expected_response": "2 years"}, "2 years"),
        ({"request": QUESTION, "response": ANSWER, "expected_facts": ["two years", "no more"]}, "two years\nno more"),
        ({"query": QUESTION, "response": ANSWER, "ground_truth": "2 years"}, "2 years"),
        ({"user_input": QUESTION, "response": ANSWER, "reference": "2 years"}, "2 years"),
        ({"input": QUESTION, "actual_output": ANSWER, "expected_output": "2 years"}, "2 years"),
        ({"question": QUESTION, "answer": ANSWER, "contexts": CONTEXT, "ground_truths": ["2 years"]}, "2 years"),
    ],
)
def test_the_expected_answer_goes_with_the_case(row, expected):
    assert reading(row).case.expected_response == expected


@pytest.mark.parametrize(
    "row",
    [
        {"request": QUESTION, "response": ANSWER, "expected_retrieved_context": [{"content": CONTEXT[0]}]},
        {"user_input": QUESTION, "response": ANSWER, "reference_contexts": CONTEXT[:1]},
        {"input": QUESTION, "actual_output": ANSWER, "context": CONTEXT[:1]},
    ],
)
def test_the_reference_context_is_not_what_was_retrieved(row):
    found = reading(row).case
    assert [document.content for document in found.expected_retrieved_context] == CONTEXT[:1]
    assert found.retrieved_context == ()


BARE = [
    {"request": QUESTION, "response": ANSWER},
    {"userText": QUESTION, "responseContent": ANSWER, "dataList": [{"text": CONTEXT[0]}]},
    {"query": QUESTION, "response": ANSWER, "context": CONTEXT[0]},
    {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]},
    {"user_input": QUESTION, "response": ANSWER, "retrieved_contexts": CONTEXT},
    {"question": QUESTION, "answer": ANSWER, "contexts": CONTEXT},
    {"input": QUESTION, "actual_output": ANSWER, "retrieval_context": CONTEXT},
    {"inputs": {"question": QUESTION}, "outputs": ANSWER},
    {"input": QUESTION, "output": ANSWER, "contexts": CONTEXT},
]


def test_beside_input_and_output_alone_a_reference_is_what_phoenix_retrieved() -> None:
    row = {"input": QUESTION, "output": ANSWER, "reference": CONTEXT[0]}
    found = reading(row)
    assert (contents(found), found.case.expected_response, found.case.convention) == (CONTEXT[:1], None, "phoenix")


@pytest.mark.parametrize("more", [{"context": CONTEXT[1]}, {"expected_output": "2 years"}, {"ground_truth": "2 years"}])
def test_beside_a_context_or_another_reference_it_is_the_expected_answer(more: dict[str, str]) -> None:
    found = reading({"input": QUESTION, "output": ANSWER, "reference": CONTEXT[0], **more}).case
    assert CONTEXT[0] not in [one.content for one in found.retrieved_context]
    assert found.expected_response == (CONTEXT[0] if "context" in more else "2 years")


@pytest.mark.parametrize("name", [name for name in NAMES.reference if name != "reference"])
def test_every_other_name_beside_input_and_output_is_the_expected_answer(name: str) -> None:
    assert reading({"input": QUESTION, "output": ANSWER, name: "2 years"}).case.expected_response == "2 years"


@pytest.mark.parametrize("row", BARE, ids="+".join)
@pytest.mark.parametrize("name", NAMES.reference)
def test_a_reference_beside_any_shape_goes_with_the_case(row, name):
    found = reading({**row, name: "2 years"}).case
    assert (found.expected_response, found.request.query, found.response) == ("2 years", QUESTION, ANSWER)


@pytest.mark.parametrize("row", BARE, ids="+".join)
@pytest.mark.parametrize("name", NAMES.expected_context)
def test_an_expected_context_beside_any_shape_goes_with_the_case(row, name):
    without = reading(row).case
    found = reading({**row, name: [{"doc_uri": "u1"}, {"content": CONTEXT[1], "id": 7}]}).case
    assert found.expected_retrieved_context == (Document("", "u1"), Document(CONTEXT[1], "", "7"))
    assert found.retrieved_context == without.retrieved_context


@pytest.mark.parametrize("name", NAMES.context)
def test_a_context_beside_any_shape_is_what_was_retrieved(name):
    for row in ({"request": QUESTION, "response": ANSWER}, {"inputs": {"question": QUESTION}, "outputs": ANSWER}):
        assert contents(reading({**row, name: CONTEXT})) == CONTEXT


@pytest.mark.parametrize("name", [*NAMES.question, *NAMES.answer])
def test_a_question_and_an_answer_may_have_the_name_of_another_shape(name):
    row = {"retrieved_context": CONTEXT, "request": QUESTION, "response": ANSWER}
    stated = {name: row.pop("request")} if name in NAMES.question else {name: row.pop("response")}
    found = reading({**row, **stated}).case
    assert (found.request.query, found.response) == (QUESTION, ANSWER)


@pytest.mark.parametrize(
    ("references", "expected", "unused"),
    [
        ({"ground_truth": "2 years", "expected_response": "two"}, "2 years", ("expected_response",)),  # its own first
        ({"reference": "two", "expected_response": "2 years"}, "2 years", ("reference",)),
        ({"reference": "2 years", "expected_response": "2 years"}, "2 years", ()),
        ({"ground_truth": "", "reference": "2 years"}, "2 years", ()),
        ({"ground_truth": None, "reference": ["2 years", "no more"]}, "2 years\nno more", ()),
        ({"ground_truths": "['2 years', 'no more']"}, "2 years\nno more", ()),
        ({"ground_truth": 42}, "42", ()),
        ({"reference_outputs": {"answer": "2 years"}}, "2 years", ()),
        ({"expectations": {"expected_facts": ["2 years"], "guidelines": "be kind"}}, "2 years", ()),
        ({"ground_truth": [], "reference": {}}, None, ()),
    ],
)
def test_of_several_references_the_first_in_the_table_stands_and_the_others_are_named(references, expected, unused):
    row = {"query": QUESTION, "response": ANSWER, **references}
    assert reading(row).case.expected_response == expected
    assert rows.recognise(row).unused == unused


def test_fields_without_a_meaning_are_named():
    row = {"query": QUESTION, "response": ANSWER, "latency": 3, "user_id": 1, "label": 1, "foo" * 20: "x", "no": None}
    assert rows.recognise(row).unused == ("latency", ("foo" * 20)[:40])
    assert rows.recognise({**row, "responseContent": "Other."}).unused[:1] == ("latency",)
    assert "responseContent" in rows.recognise({**row, "responseContent": "Other."}).unused


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ([{"doc_uri": "u1"}], [Document("", "u1")]),
        ([{"doc_uri": "u1"}, {"content": "Text.", "doc_uri": "u2"}], [Document("", "u1"), Document("Text.", "u2")]),
        (
            [{"doc_uri": "u1", "content": None}, {"doc_uri": "u2", "content": ""}],
            [Document("", "u1"), Document("", "u2")],
        ),
        ([{"metadata": {"source": "u1"}}], [Document("", "u1")]),
        (['{"doc_uri": "u1"}', "Text."], [Document("", "u1"), Document("Text.")]),
        ({"doc_uri": "u1"}, [Document("", "u1")]),
        (
            ["https://acme.test/a#b", "See https://acme.test"],
            [Document("", "https://acme.test/a#b"), Document("See https://acme.test")],
        ),
        ("s3://kb/a.md", [Document("", "s3://kb/a.md")]),
    ],
)
def test_a_document_may_be_known_by_its_address_alone(given, known):
    row = {"request": QUESTION, "response": ANSWER, "retrieved_context": given, "expected_retrieved_context": given}
    found = reading(row).case
    assert list(found.retrieved_context) == known
    assert list(found.expected_retrieved_context) == known


@pytest.mark.parametrize(
    ("stated", "usage"),
    [
        ({"usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}, Usage(3, 4, 7)),
        ({"usage": '{"prompt_tokens": 3, "completion_tokens": "4"}'}, Usage(3, 4)),
        ({"input_tokens": "3", "usage": None}, Usage(3)),
        ({"promptTokens": 3, "completionTokens": 4, "totalTokens": 7}, Usage(3, 4, 7)),
        ({"usage": {"input_tokens": -1, "output_tokens": 10**20, "total_tokens": True}}, Usage()),
    ],
)
def test_token_counts_go_with_every_shape(stated, usage):
    for row in BARE:
        assert reading({**row, **stated}).case.usage == usage


@pytest.mark.parametrize(
    ("given", "prompt"),
    [
        ("Answer.", (Message("user", "Answer."),)),
        ([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
         (Message("system", "Be brief."), Message("user", "Why?"))),
        ("", ()),
        (5, ()),
        ([], ()),
    ],
)  # fmt: skip
def test_a_row_may_hold_the_prompt_that_the_service_sent(given, prompt):
    assert reading({"request": QUESTION, "response": ANSWER, "prompt": given}).case.prompt == prompt


def test_of_two_shapes_that_fit_the_one_with_more_of_its_fields_stands():
    deepeval = reading({"input": "a", "actual_output": "b", "retrieval_context": ["c"], "query": "x", "context": ["y"]})
    assert (deepeval.case.convention, deepeval.case.request.query, contents(deepeval)) == ("deepeval", "a", ["c"])
    azure = reading({"query": "x", "response": "y", "context": "z", "trace": None})
    assert azure.case.convention == "azure_ai_evaluation"


def test_of_two_shapes_with_as_many_fields_the_one_stands_of_which_the_question_is_there():
    chat = {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]}
    for row in (chat, {"query": QUESTION, "response": ANSWER}):
        found = reading({**row, "retrieved_context": CONTEXT})
        assert found.case.convention.startswith("azure")
        assert (found.case.request.query, found.case.response, contents(found)) == (QUESTION, ANSWER, CONTEXT)


def test_of_two_shapes_with_as_many_fields_the_first_in_the_list_stands():
    assert reading({"question": "q", "answer": "a", "contexts": None}).case.convention == "ragas_0_1"


HISTORY = (Message("user", "Which bikes are there?"), Message("assistant", "Two."))
TURNS = [{"role": m.role, "content": m.content} for m in HISTORY]


@pytest.mark.parametrize(
    "row",
    [
        {"request": {"messages": [*TURNS, {"role": "user", "content": QUESTION}]}, "response": ANSWER},
        {"request": {"query": QUESTION, "history": TURNS}, "response": ANSWER},
        {"request": json.dumps({"messages": [*TURNS, {"role": "user", "content": QUESTION}]}), "response": ANSWER},
        {"query": QUESTION, "response": ANSWER, "chat_history": TURNS},
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                *TURNS,
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": ANSWER},
            ]
        },
        {
            "user_input": [
                {"type": "human", "content": HISTORY[0].content},
                {"type": "ai", "content": HISTORY[1].content},
                {"type": "human", "content": QUESTION},
                {"type": "ai", "content": "", "tool_calls": [{"name": "search", "args": {}}]},
                {"type": "tool", "content": "..."},
                {"type": "ai", "content": ANSWER},
            ]
        },
    ],
)
def test_the_last_user_turn_is_the_question_and_those_before_it_the_history(row):
    found = readings(row).last.case
    assert (found.request.query, found.request.history, found.response) == (QUESTION, HISTORY, ANSWER)
    (only,) = readings(row, turns="last").readings
    assert (only.case.request, only.case.response) == (found.request, found.response)


def test_the_citations_of_an_answer_are_its_context():
    def turn(answer, *texts):
        citations = [{"id": f"{text}.md", "content": text} for text in texts]
        return {"role": "assistant", "content": answer, "context": {"citations": citations}}

    talk = [
        {"role": "user", "content": "first"},
        turn("one", "old"),
        {"role": "user", "content": "second"},
        turn("two", "a", "b"),
    ]
    first, found = readings({"conversation": {"messages": talk}}).readings
    assert contents(first) == ["old"]
    assert contents(found) == ["a", "b"]
    assert found.case.retrieved_context[0].doc_id == "a.md"


@pytest.mark.parametrize(
    "response",
    [
        {"role": "assistant", "content": ANSWER},
        {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]},
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": ANSWER}],
        json.dumps(ANSWER),
    ],
)
def test_a_response_may_be_a_message_or_the_output_of_a_model(response):
    assert reading({"request": QUESTION, "response": response}).case.response == ANSWER


@pytest.mark.parametrize("text", ['{"price": 5}', '["a", "b"]', '{"a": '])
def test_texts_that_look_like_json_stay_what_they_are(text):
    found = reading({"user_input": text, "response": text, "retrieved_contexts": [text, "more"]})
    assert (found.case.request.query, found.case.response) == (text, text)
    assert contents(found) == [text, "more"]


def test_a_context_in_one_text_is_one_document_unless_it_is_marked_as_several():
    row = {"query": QUESTION, "response": ANSWER}
    assert contents(reading({**row, "context": "One.\n\nStill the same."})) == ["One.\n\nStill the same."]
    assert contents(reading({**row, "context": "[1] One.\n[2] Two."})) == ["One.", "Two."]
    assert contents(reading({**row, "context": json.dumps([{"content": "One."}])})) == ["One."]


def test_an_unknown_row_is_refused_with_its_fields_and_those_that_are_known():
    row = {f"field_{number:02}": "x" for number in range(20)}
    with pytest.raises(InvalidData) as refused:
        rows.recognise(row)
    stated = str(refused.value)
    assert "'field_00'" in stated
    assert "'field_12'" not in stated
    assert "and 8 more" in stated
    for shape in rows.shapes.SHAPES:
        assert shape.name in stated
        assert all(name in stated for mark in shape.marks for name in mark)
    assert len(stated) < 1024


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        (("Question", "Answer"), " (did you mean 'question', 'answer'?); "),
        (("User Input", "x"), " (did you mean 'user_input'?); "),
        (("actual-output", "x"), " (did you mean 'actual_output'?); "),
        (("prompt", "completion"), "'prompt', 'completion'; "),
        (("question",), "'question'; "),
    ],
)
def test_a_field_that_is_written_otherwise_is_suggested(names, hint):
    with pytest.raises(InvalidData) as refused:
        rows.recognise(dict.fromkeys(names, "x"))
    assert f"{hint}expected one of" in str(refused.value)


@pytest.mark.parametrize(
    ("value", "stated"), [(3, "a number"), ("x", "a text"), (None, "null"), ([], "a list"), (True, "a boolean")]
)
def test_what_is_no_object_is_said_to_be_none(value, stated):
    with pytest.raises(InvalidData, match=stated):
        rows.recognise(value)
