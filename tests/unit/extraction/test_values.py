"""Structures in texts, and nothing that raises."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extraction import documents, messages, prompt, values
from monitor.model.span import Span, Value
from monitor.model.trace import Trace

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
KEYS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "messages",
        "message",
        "data",
        "kwargs",
        "documents",
        "page_content",
        "metadata",
        "id",
        "input",
        "output",
        "text",
        "parts",
        "score",
        "context",
        "nodes",
        "question",
        "answer",
        "chat_history",
        "node",
    ]
)
TELLING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=4) | st.text(max_size=12) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.parametrize(
    ("given_text", "wanted"),
    [
        ('{"a": 1}', {"a": 1}),
        ('"{\\"a\\": [1]}"', {"a": [1]}),
        (json.dumps(json.dumps(json.dumps({"a": 1}))), {"a": 1}),
        (json.dumps(json.dumps(json.dumps(json.dumps({"a": 1})))), '{"a": 1}'),
        ("{'a': None, 'b': (1, 2)}", {"a": None, "b": [1, 2]}),
        ('{"a": NaN, "b": Infinity}', {"a": None, "b": None}),
        ('"just text"', "just text"),
        ("42", "42"),
        ("true", "true"),
        ("{not json}", "{not json}"),
        ("[1] a numbered source", "[1] a numbered source"),
        ("", ""),
    ],
)
def test_a_text_is_unfolded_up_to_three_levels_and_plain_text_stays(given_text: str, wanted: object) -> None:
    assert values.unfold(given_text) == wanted


def test_what_is_too_deep_or_too_long_stays_text() -> None:
    for deep in ("[" * 100_000 + "]" * 100_000, "[" * 200 + "'x'" + "]" * 200, "['" + "x" * 100_000 + "']"):
        assert values.unfold(deep) == deep


@given(JSON, st.integers(min_value=1))
def test_a_cut_json_object_reads_as_a_part_of_the_whole(inner: object, at: int) -> None:
    """Every complete element before the cut is there; the cut one is not."""
    whole = {"question": "why?", "rest": inner}
    text = json.dumps(whole)
    found = values.unfold_cut(text[: 1 + at % len(text)])
    if isinstance(found, dict) and "question" in found:
        assert found["question"] == "why?"
    assert not isinstance(found, dict) or set(found) <= set(whole)


def test_dotted_keys_become_a_list_in_the_order_of_their_index() -> None:
    attributes = {
        "m.10.message.content": "k",
        "m.2.message.contents.1.text": "b",
        "m.2.message.contents.0.text": "a",
        "mm.0.x": 1,
        "m.x.y": 1,
        "m.99999999999.z": 1,
    }
    found = values.unflatten(attributes, "m")
    assert found is not None
    assert len(found) == 11
    assert found[2] == {"message": {"contents": [{"text": "a"}, {"text": "b"}]}}
    assert found[10] == {"message": {"content": "k"}}
    assert found[0] is None


def test_an_empty_list_without_index_is_not_the_same_as_no_key() -> None:
    assert values.unflatten({"d": []}, "d") == []
    assert values.unflatten({}, "d") is None


@pytest.mark.parametrize(
    "text",
    [
        "<generator object>",
        "<generator object f at 0x7f>",
        "<async_generator object x at 0x1>",
        "__REDACTED__",
        "<my.module.Thing object at 0x7f15c854a290>",
    ],
)
def test_a_repr_or_a_redaction_mark_is_no_content(text: str) -> None:
    assert not values.usable(text)


def test_a_text_about_code_is_content() -> None:
    text = "Client(timeout=3) opens a connection. Use it in a with statement."
    assert values.usable(text)
    assert not values.is_repr(text)


@given(TELLING)
def test_no_reader_raises_whatever_the_value_holds(value: object) -> None:
    for given_value in (value, json.dumps(value, default=str), str(value)):
        documents.read(given_value)  # type: ignore[arg-type]
        documents.read_result(given_value)  # type: ignore[arg-type]
        messages.read(given_value)  # type: ignore[arg-type]
        messages.read_request(given_value)  # type: ignore[arg-type]
        messages.read_answer(given_value)  # type: ignore[arg-type]


@given(st.text(max_size=200))
def test_splitting_a_prompt_never_raises(text: str) -> None:
    prompt.split(text)
    prompt.split(f"Context:\n{text}\nQuestion: {text}")


@pytest.mark.parametrize("evil", ["<context>" * 50_000, "[1]" * 100_000, "Context:\n" * 50_000, " " * 300_000 + "x"])
def test_splitting_a_prompt_takes_time_linear_in_its_length(evil: str) -> None:
    """The suite would hang here otherwise: users can write such texts."""
    prompt.split(evil)
    documents.read(evil)


def _trace(*texts: str) -> Trace:
    span = Span("0" * 32, "1" * 16, attributes={f"k{at}": text for at, text in enumerate(texts)})
    return Trace("0" * 32, (span,))


def test_an_attribute_limit_shows_in_json_that_breaks_off_at_the_longest_value() -> None:
    assert values.length_limit(_trace('{"a": "' + "x" * 193, "short")) == 200
    assert values.length_limit(_trace("a" * 200, "b" * 200)) == 200


def test_without_a_sign_of_a_limit_there_is_none() -> None:
    assert values.length_limit(_trace("a" * 200, "b" * 150)) == 0
    assert values.length_limit(_trace("a" * 203, "b" * 203)) == 0
    assert values.length_limit(_trace('{"a": "b"}', "")) == 0


def test_a_text_counts_once_for_the_limit_however_many_spans_repeat_it() -> None:
    repeated = ["a" * 200] * 20
    assert values.length_limit(_trace(*repeated)) == 0
    assert values.length_limit(_trace(*repeated, "b" * 200)) == 200


@pytest.mark.parametrize("levels", [1, 2])
def test_half_a_character_in_an_escape_does_not_spoil_the_rest(levels: int) -> None:
    stated = '{"text": "cut \\ud83d", "whole": "\\ud83d\\ude42", "more": [null, true]}'
    text = stated if levels == 1 else json.dumps(stated)
    assert values.unfold(text) == {"text": "cut \ufffd", "whole": "\U0001f642", "more": [None, True]}
    assert values.unfold("{'text': '\\udc00 x', '\\ud83d': 1}") == {"text": "\ufffd x", "\ufffd": 1}
    assert values.repr_field("Document(page_content='\\ud83d\\ude42')", "page_content") == "\U0001f642"


def test_half_a_character_or_a_missing_number_does_not_spoil_what_a_length_limit_has_left() -> None:
    stated = '[{"text": "cut \\ud83d", "score": NaN}, {"text": "whole", "sco'
    assert values.unfold_cut(stated) == [{"text": "cut \ufffd", "score": None}, {"text": "whole"}]
    assert values.unfold_cut('["whole", "cut \\ud83') == ["whole"], "cut within the escape"
    assert values.unfold_cut("[{'text': NaN}, {'te") == "[{'text': NaN}, {'te"


def test_a_number_too_long_to_be_written_is_none() -> None:
    assert values.unfold("[0x" + "f" * 5_000 + ", 7]") == [None, 7]
    assert values.unfold("{0x" + "f" * 5_000 + ": 7}") == {"None": 7}
    assert values.unfold(f"{{'id': {2**127}}}") == {"id": 2**127}


@pytest.mark.parametrize("value", [1e300, "1e13", 2**63, -1, "-1", float("nan")])
def test_what_no_model_could_have_counted_is_no_count(value: Value) -> None:
    assert values.count(value) is None
    assert values.count(10**12) == 10**12


def test_an_index_beyond_the_highest_makes_no_list_of_that_length() -> None:
    assert values.unflatten({"d.10001.text": "a", "d.1.text": "b"}, "d") == [None, {"text": "b"}]
    assert values.unflatten({"d.99999.text": "a"}, "d") is None


def test_a_repr_without_one_of_its_texts_keeps_its_other_fields() -> None:
    assert values.without_field("A(text='it\\'s id=9, x=1', id='a')", "text") == "A(, id='a')"
