"""Question, context, answer and reference of a row, in the forms in which people write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.extraction import prompt
from monitor.extraction.rows import fields
from monitor.extraction.rows.fields import UNREADABLE, Said
from monitor.model.case import Document, Message, Request

TURNS = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
HISTORY = (Message("user", "Hi."), Message("assistant", "Hello."))


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"q": "Why?"}, Request("Why?")),
        ({"q": '{"not": "unfolded"}'}, Request('{"not": "unfolded"}')),
        ({"q": "Why?", "history": TURNS}, Request("Why?", HISTORY)),
        ({"q": "Why?", "chat_history": json.dumps(TURNS)}, Request("Why?", HISTORY)),
        ({"q": {"query": "Why?", "history": TURNS}}, Request("Why?", HISTORY)),
        ({"q": {"query": "Why?", "history": TURNS}, "history": []}, Request("Why?", HISTORY)),
        ({"q": {"query": "Why?"}, "history": TURNS}, Request("Why?", HISTORY)),
        ({"q": {"messages": [*TURNS, {"role": "user", "content": "Why?"}]}}, Request("Why?", HISTORY)),
        ({"other": "Who?", "q": None}, Request("Who?")),
        ({"q": "Why?", "other": "Who?"}, Request("Why?")),
    ],
)
def test_a_question_comes_with_the_turns_that_it_carries_or_those_beside_it(row: Any, wanted: Request) -> None:
    assert fields.question(row, ("q", "other")) == wanted


@pytest.mark.parametrize("given", [None, "", "  ", [], {}, 5, {"query": " "}, {"query": "", "question": "Why?"}])
def test_what_asks_nothing_is_no_question(given: Any) -> None:
    assert fields.question({"q": given}, ("q",)) is None


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("So.", "So."),
        ('{"answer": "So."}', '{"answer": "So."}'),
        ({"answer": "So."}, "So."),
        ("", None),
        (" ", None),
        ("__REDACTED__", None),
        (None, None),
        ({}, None),
        (5, None),
    ],
)
def test_a_text_is_an_answer_as_it_stands(given: Any, text: str | None) -> None:
    assert fields.answer(given) == text


def test_what_a_model_put_out_is_looked_into() -> None:
    assert fields.put_out('{"answer": "So."}') == "So."
    assert fields.put_out('{"score": 1}') == '{"score": 1}'
    assert fields.put_out("So.") == "So."
    assert fields.put_out(None) is None
    assert fields.put_out("") is None


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, None),
        ({}, None),
        ("{}", None),
        ([], ()),
        ("", ()),
        ("No results.", ()),
        ("One.", (Document("One."),)),
        ("[1] One.\n[2] Two.", (Document("One."), Document("Two."))),
        (["One.", "Two."], (Document("One."), Document("Two."))),
        (json.dumps(["One."]), (Document("One."),)),
        (["One.", " ", "__REDACTED__"], (Document("One."),)),
        (["", " "], UNREADABLE),
        (['{"page_content": "One.", "id": "a"}'], (Document("One.", "", "a"),)),
        (['{"rows": 7}'], (Document('{"rows": 7}'),)),
        (['{"doc_uri": "s3://a", "more": 1}'], (Document("", "s3://a"),)),
        (["https://example.com/a"], (Document("", "https://example.com/a"),)),
        ("https://example.com/a", (Document("", "https://example.com/a"),)),
        ("see https://example.com/a", (Document("see https://example.com/a"),)),
        ([{"content": "One."}, {"doc_uri": "s3://b"}], (Document("One."), Document("", "s3://b"))),
        ([{"content": "One."}, {"more": 1}], (Document("One."), Document(""))),
        ([{"more": 1}], UNREADABLE),
        ({"citations": [{"content": "One."}]}, (Document("One."),)),
        ({"citations": "[]"}, ()),
        ({"doc_uri": "s3://a"}, (Document("", "s3://a"),)),
        (7, UNREADABLE),
        ([7], UNREADABLE),
        (["One.", 7], (Document("One."),)),
    ],
)
def test_a_context_is_known_to_be_empty_unreadable_or_not_stated(given: Any, found: Any) -> None:
    assert fields.context(given) == found


def test_a_text_too_long_to_be_split_is_one_document() -> None:
    text = "[1] One.\n[2] Two.\n"
    text += "x" * (prompt.MAX_PROMPT - len(text))
    assert len(fields.context(text) or ()) == 2
    assert fields.context(text + "x") == (Document(text + "x"),)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (None, None),
        ([], ()),
        ([{"doc_uri": "s3://a"}, {"more": 1}], (Document("", "s3://a"),)),
        ([{"id": "a"}], (Document("", "", "a"),)),
        ([{"more": 1}], None),
        (["One."], (Document("One."),)),
    ],
)
def test_of_an_expected_context_only_what_is_known_counts(given: Any, found: Any) -> None:
    assert fields.expected_context(given) == found


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("Two years.", "Two years."),
        (2, "2"),
        (2.5, "2.5"),
        ({"answer": "Two years."}, "Two years."),
        (["two years", 3, " ", {"answer": "no more"}, None, []], "two years\n3\nno more"),
        ([], None),
        (["", None], None),
        (" ", None),
        (None, None),
        (True, None),
    ],
)
def test_a_reference_is_a_text_a_number_or_facts_one_to_a_line(given: Any, text: str | None) -> None:
    assert fields.reference(given) == text


def test_a_name_is_short() -> None:
    assert fields.label(" shop ") == "shop"
    assert fields.label(7) == "7"
    assert fields.label("x" * 300) == "x" * 256
    assert fields.label(["shop"]) == fields.label(None) == ""


def test_turns_are_those_of_user_and_assistant() -> None:
    assert fields.turns([{"role": "system", "content": "Be kind."}, *TURNS]) == HISTORY
    assert fields.turns(None) == fields.turns("") == fields.turns(5) == ()


@pytest.mark.parametrize("stated", [{"request": Request("Why?")}, {"response": ""}, {"documents": ()}])
def test_a_row_leaves_all_to_its_trace_only_where_it_states_none_of_the_three(stated: Any) -> None:
    assert Said().states_nothing
    assert Said(expected_response="2 years").states_nothing
    assert not Said(**stated).states_nothing
