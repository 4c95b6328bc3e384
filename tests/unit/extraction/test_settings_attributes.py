"""A home-grown instrumentation read by attributes that the configuration maps to fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from monitor import registry
from monitor.extraction import compose
from monitor.extraction.settings import AttributeMap, ExtractionSettings
from monitor.model.case import ContextStatus, Document, Message, Reading, ReadingStatus, Usage
from tests.support.traces import Builder, documents


def read(build: Builder, **mapped: Any) -> Reading:
    settings = ExtractionSettings(attributes=AttributeMap(**mapped))
    (found,) = compose.read(build.trace(), registry.conventions(), settings).readings
    return found


ACME = {"question": "acme.q", "documents": "acme.hits", "answer": "acme.reply", "session": "acme.conversation"}


def test_one_span_with_everything_is_a_case() -> None:
    build = Builder()
    hits = json.dumps([{"text": "One.", "id": "a", "score": 0.5}, {"text": "Two."}])
    build.span("ask", {"acme.q": "Why?", "acme.hits": hits, "acme.reply": "Because.", "acme.conversation": "s1"})
    reading = read(build, **ACME)
    assert reading.status is ReadingStatus.READY
    case = reading.case
    assert (case.request.query, case.response, case.session_id) == ("Why?", "Because.", "s1")
    assert case.retrieved_context == (Document("One.", doc_id="a", score=0.5), Document("Two."))
    assert case.convention == "configuration"


def test_without_the_mapping_the_same_span_says_nothing() -> None:
    build = Builder()
    build.span("ask", {"acme.q": "Why?", "acme.reply": "Because."})
    assert build.read().status is ReadingStatus.NO_REQUEST


def test_fields_may_stand_on_several_spans() -> None:
    build = Builder()
    root = build.span("ask", {"acme.q": "Why?"})
    build.span("search", {"acme.hits": ["One.", "Two."]}, root)
    build.span("answer", {"acme.reply": "Because."}, root)
    reading = read(build, **ACME)
    assert reading.status is ReadingStatus.READY
    assert [d.content for d in reading.case.retrieved_context] == ["One.", "Two."]
    assert (reading.case.request.query, reading.case.response) == ("Why?", "Because.")


def test_what_is_mapped_outweighs_what_a_dialect_says() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "wrong", "output.value": "wrong", "acme.q": "Why?", "acme.reply": "So."})
    build.oi("RETRIEVER", documents("retrieval.documents", ["wrong"]), root)
    build.span("filter", {"acme.hits": ["right"]}, root)
    build.llm("Context: wrong\nQuestion: wrong", "wrong", root)
    reading = read(build, **ACME)
    case = reading.case
    assert (case.request.query, case.response, case.retrieved_context) == ("Why?", "So.", (Document("right"),))


def test_what_is_not_mapped_is_still_read_by_the_dialects() -> None:
    build = Builder()
    root = build.span("ask", {"acme.q": "Why?"})
    build.oi("RETRIEVER", documents("retrieval.documents", ["One."]), root)
    build.llm("Context: One.\nQuestion: Why?", "Because.", root)
    reading = read(build, **ACME)
    assert (reading.status, reading.case.response, reading.case.model) == (ReadingStatus.READY, "Because.", "m")


@pytest.mark.parametrize("empty", ["[]", "", "No results.", ()])
def test_documents_mapped_to_nothing_are_an_empty_retrieval(empty: Any) -> None:
    build = Builder()
    build.span("ask", {"acme.q": "Why?", "acme.hits": empty, "acme.reply": "I do not know."})
    reading = read(build, **ACME)
    assert (reading.status, reading.case.context_status) == (ReadingStatus.READY, ContextStatus.RETRIEVED_NOTHING)


def test_a_mapped_question_and_answer_are_a_request_even_where_no_model_was_called() -> None:
    build = Builder()
    build.span("cached", {"acme.q": "Why?", "acme.reply": "Because."})
    reading = read(build, **ACME)
    assert (reading.status, reading.case.context_status) == (ReadingStatus.READY, ContextStatus.NO_RETRIEVAL)


def test_a_prompt_alone_is_taken_apart() -> None:
    build = Builder()
    build.span("call", {"acme.prompt": "Context:\nOne.\n\nQuestion: Why?", "acme.reply": "So."})
    reading = read(build, prompt="acme.prompt", answer="acme.reply")
    assert reading.status is ReadingStatus.READY
    assert (reading.case.request.query, reading.case.context_source) == ("Why?", "prompt")


def test_the_first_key_that_is_there_counts() -> None:
    build = Builder()
    build.span("ask", {"b": "Second?", "acme.hits": ["x"], "acme.reply": "Yes."})
    reading = read(build, **{**ACME, "question": ["a", "b"]})
    assert reading.case.request.query == "Second?"


def test_lists_may_be_written_with_an_index() -> None:
    build = Builder()
    hits = {"acme.hits.0.text": "One.", "acme.hits.0.id": "a", "acme.hits.1.text": "Two."}
    build.span("ask", {"acme.q": "Why?", "acme.reply": "So.", **hits})
    assert read(build, **ACME).case.retrieved_context == (Document("One.", doc_id="a"), Document("Two."))


def test_history_model_and_tokens_can_be_mapped() -> None:
    build = Builder()
    turns = [{"role": "user", "content": "Before?"}, {"role": "assistant", "content": "Yes."}]
    build.span("ask", {"q": "Why?", "h": json.dumps(turns), "d": ["x"], "a": "So.", "m": "m-1", "i": 7, "o": "3"})
    names = {"question": "q", "history": "h", "documents": "d", "answer": "a", "model": "m"}
    case = read(build, **names, input_tokens="i", output_tokens="o").case
    assert case.request.history == (Message("user", "Before?"), Message("assistant", "Yes."))
    assert (case.model, case.usage) == ("m-1", Usage(7, 3, 10))


@pytest.mark.parametrize("value", ["quota exceeded", True])
def test_a_mapped_error_without_an_answer_is_a_failed_request(value: Any) -> None:
    build = Builder()
    build.span("ask", {"acme.q": "Why?", "acme.hits": ["x"], "acme.error": value})
    assert read(build, **ACME, error="acme.error").status is ReadingStatus.FAILED_REQUEST


@pytest.mark.parametrize("value", [False, ""])
def test_a_mapped_error_that_says_there_was_none_is_none(value: Any) -> None:
    build = Builder()
    build.span("ask", {"acme.q": "Why?", "acme.hits": ["x"], "acme.reply": "So.", "acme.error": value})
    assert read(build, **ACME, error="acme.error").status is ReadingStatus.READY


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="docs"):
        AttributeMap(docs="acme.hits")  # type: ignore[call-arg]
