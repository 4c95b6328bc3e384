"""The readers of content one by one: no value throws them, and what comes out is texts that can be written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import registry
from monitor.extraction import compose, documents, messages, prompt, slices, values
from monitor.extraction.settings import AttributeMap, ExtractionSettings
from monitor.model.span import Span, Value
from monitor.model.trace import Trace
from tests.support.examples import examples
from tests.support.hostile_traces import KEYS, VALUES, WORDS, assert_sound
from tests.support.traces import TRACE_ID

pytestmark = pytest.mark.timeout(1200)


@examples(400)
@given(VALUES)
def test_no_value_throws_a_reader(value: Value) -> None:
    several = (documents.read, documents.read_result, documents.of_state, prompt.of_tool)
    for document in [one for read in several for one in read(value) or ()]:
        f"{document.content}{document.doc_id}{document.doc_uri}".encode()
        assert document.score is None or abs(document.score) < float("inf")
    one, asked = messages.read_one(value), messages.read_request(value)
    said = [*(messages.read(value) or ()), *([one] if one else ()), *((asked.history or ()) if asked else ())]
    assert all(message.role in ("user", "assistant", "system", "tool") for message in said)
    texts = [messages.read_answer(value) or "", asked.query if asked else "", messages.text_of(value)]
    "".join((*texts, *(message.content for message in said))).encode()


@examples(300)
@given(VALUES)
def test_no_value_throws_what_unfolds_it(value: Value) -> None:
    unfolded = values.unfold(value)
    assert isinstance(unfolded, (str, dict, list)) or unfolded is value
    values.unfold_cut(value)
    values.text(unfolded).encode()
    number, count = values.number(value), values.count(value)
    assert number is None or abs(number) < float("inf")
    assert count is None or 0 <= count <= values.MAX_COUNT
    for held in unfolded.values() if isinstance(unfolded, Mapping) else values.elements(unfolded) or ():
        values.text(held).encode()
        values.count(held)
    if isinstance(value, str):
        values.is_repr(value)
        values.usable(value)
        values.broken(value)
        (values.repr_field(value, "text|content|page_content") or "").encode()


PATHS = st.lists(st.sampled_from(["0", "1", "10001", "9" * 30, "\u0661", "message", "content", "", "a"]), max_size=20)


@examples(150)
@given(st.dictionaries(PATHS.map(lambda path: ".".join(["p", *path])) | st.sampled_from(KEYS), VALUES, max_size=12))
def test_dotted_keys_of_any_shape_become_a_list_of_bounded_length(attributes: dict[str, Value]) -> None:
    listed = values.unflatten(attributes, "p")
    assert listed is None or len(listed) <= values.MAX_INDEX + 1
    documents.read(listed)
    messages.read(listed)


@examples(150)
@given(st.dictionaries(st.sampled_from([*KEYS, "metadata"]) | st.text(max_size=8), VALUES, max_size=8))
def test_slices_are_short_texts_and_few_and_a_limit_is_a_length_that_is_there(attributes: dict[str, Value]) -> None:
    for key, text in slices.of_attributes(attributes).items():
        assert len(text) <= slices.MAX_LENGTH
        (key + text).encode()
    limit = values.length_limit(Trace(TRACE_ID, (Span(TRACE_ID, "1" * 16, attributes=attributes),)))
    assert limit == 0 or limit >= values.LOWEST_LIMIT


MARKS = [
    "Context:\n",
    "\nQuestion: ",
    "\nAnswer:",
    "<context>",
    "</context>",
    "<document>",
    "</document>",
    "[1] ",
    "[2] ",
    "Document 1: ",
    "---\n",
    "\n\n",
    "Use the following context.\n",
    "## Context\n",
    "{context}",
    "Chat history:\n",
]


@examples(300)
@given(st.lists(st.sampled_from([*MARKS, *WORDS]) | st.text(max_size=6), max_size=12).map("".join), st.booleans())
def test_a_prompt_of_any_marks_is_taken_apart_into_parts_of_itself(text: str, asks: bool) -> None:
    parts = prompt.split(text, asks=asks)
    blocks = [*prompt.blocks(text), *(parts.blocks if parts else ())]
    assert all(block.strip() and block in text for block in blocks)
    if parts is not None and parts.marked:
        assert parts.question
        assert parts.question in text


@examples(100)
@given(st.dictionaries(st.sampled_from("abcdef"), VALUES, max_size=6), st.data())
def test_attributes_that_the_configuration_maps_may_hold_anything(held: dict[str, Value], data: st.DataObject) -> None:
    keys = st.lists(st.sampled_from("abcdef"), max_size=2).map(tuple)
    mapped = AttributeMap(**{name: data.draw(keys) for name in AttributeMap.model_fields})
    trace = Trace(TRACE_ID, (Span(TRACE_ID, "1" * 16, attributes=held, is_root=True),))
    assert_sound(compose.read(trace, registry.conventions(), ExtractionSettings(attributes=mapped)))
