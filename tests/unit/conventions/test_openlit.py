"""OpenLIT: functions that carry no type, results in many shapes, and calls of models in OpenTelemetry's words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from monitor.conventions.openlit import OpenLIT
from monitor.model.case import Document, Message, ReadingStatus, Usage
from monitor.model.span import LogRecord, Origin, Span, SpanEvent, SpanStatus, Value
from monitor.stages import Observation
from tests.support.traces import Builder

TEXT = "Refunds are granted within 30 days."
FOUND: Value = [{"id": "a", "uri": "u", "text": TEXT, "score": 0.5}]
DOCUMENTS = (Document(TEXT, "u", "a", 0.5),)


def observe(
    attributes: dict[str, Value], scope: str = "openlit", parent: str = "", status: SpanStatus = "ok", **rest: Any
) -> Observation | None:
    origin = Origin("app", scope_name=scope)
    span = Span("0" * 32, "1" * 16, parent, attributes=attributes, status=status, origin=origin, **rest)
    return OpenLIT().observe(span, ())


def called(put_out: Value, *args: object, parent: str = "2" * 16, **kwargs: object) -> Observation:
    """What is said of a function that was called so and gave back `put_out`; None is what cannot be an attribute."""
    attributes: dict[str, Value] = {"function.args": str(args), "function.kwargs": str(kwargs)}
    seen = observe(attributes if put_out is None else {**attributes, "gen_ai.output.messages": put_out}, parent=parent)
    assert seen is not None
    return seen


@pytest.mark.parametrize("scope", ["", "app", "openlitter", "opentelemetry.instrumentation.genai.openai"])
def test_a_span_that_openlit_did_not_make_is_not_this_dialects(scope: str) -> None:
    assert observe({"gen_ai.operation.name": "chat", "gen_ai.output.messages": "x"}, scope) is None


def test_a_function_is_a_request_that_states_question_turns_and_answer() -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    seen = called("Because.", 'Why isn\'t it "free"?', turns, parent="")
    assert (seen.kind, seen.query, seen.response) == ("request", 'Why isn\'t it "free"?', "Because.")
    assert seen.history == (Message("user", "Hi"), Message("assistant", "Hello"))


@pytest.mark.parametrize("put_out", [FOUND, json.dumps(FOUND)])
def test_a_function_that_gives_documents_back_is_a_retrieval(put_out: Value) -> None:
    seen = called(put_out, "refunds")
    assert (seen.kind, seen.query, seen.documents) == ("retrieval", "refunds", DOCUMENTS)


def test_a_function_that_gives_back_a_part_of_its_documents_is_a_filter() -> None:
    other = {"id": "b", "uri": "v", "text": "Other.", "score": 0.1}
    assert called(FOUND, "refunds", [*FOUND, other]).kind == "rerank"  # type: ignore[misc]


@pytest.mark.parametrize("put_out", [[TEXT], "rewritten question", {"answer": "Because."}, [1, 2], None])
def test_other_results_are_no_documents(put_out: Value) -> None:
    seen = called(put_out, "refunds")
    assert (seen.kind, seen.documents) == ("request", None)


def test_the_answer_and_the_documents_of_a_mapping_are_found() -> None:
    seen = called({"answer": "Because.", "contexts": [TEXT]}, "Why?")
    assert (seen.response, seen.documents) == ("Because.", (Document(TEXT),))


def test_an_empty_list_and_nothing_are_written_alike_so_what_was_found_stays_open() -> None:
    seen = called("", "refunds")
    assert (seen.kind, seen.query, seen.documents) == ("retrieval", "refunds", None)
    assert called("", parent="2" * 16).kind == "request"


def test_an_outermost_function_that_gives_nothing_back_is_still_the_request() -> None:
    seen = called("", "Why?", parent="")
    assert (seen.kind, seen.query, seen.response) == ("request", "Why?", None)


class _Service:
    """Written by Python as `<... object at 0x...>`, as most objects are."""


def test_the_object_of_a_method_is_not_the_question() -> None:
    assert called("Because.", _Service(), "Why?").query == "Why?"
    assert called("Because.", _Service(), question="Why?").query == "Why?"


@pytest.mark.parametrize("args", ["(", "()", "('cut off", "", "(<x y z>,)", "((((" * 40, 7, ["a"]])
def test_arguments_that_cannot_be_read_are_no_question(args: Value) -> None:
    seen = observe({"function.args": args, "gen_ai.output.messages": "Because."})
    assert seen is not None
    assert (seen.query, seen.response) == (None, "Because.")


def test_a_function_that_failed_leaves_only_its_exceptions() -> None:
    event = SpanEvent("exception", 1, {"exception.message": "no such model"})
    seen = observe({}, status="error", events=(event, event))
    assert seen is not None
    assert (seen.kind, seen.error) == ("request", "no such model")


def test_the_session_is_what_the_application_has_set_as_metadata() -> None:
    seen = observe({"session.id": "s", "user.id": "u"})
    assert seen is not None
    assert (seen.session_id, seen.user_id) == ("s", "u")


def test_a_call_of_a_model_is_read_once_although_its_texts_come_twice() -> None:
    sent: Value = [{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]
    said: Value = [{"role": "assistant", "parts": [{"type": "text", "content": "Because."}], "finish_reason": "stop"}]
    texts: dict[str, Value] = {"gen_ai.input.messages": sent, "gen_ai.output.messages": said}
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 25,
        "gen_ai.client.token.usage": 115,
        **{key: json.dumps(value) for key, value in texts.items()},
    }
    origin = Origin("app", scope_name="openlit.instrumentation.openai")
    span = Span("0" * 32, "1" * 16, attributes=attributes, origin=origin)
    record = LogRecord("0" * 32, "1" * 16, "gen_ai.client.inference.operation.details", 1, None, texts)
    seen = OpenLIT().observe(span, (record,))
    assert seen is not None
    assert (seen.kind, seen.messages, seen.response) == ("generation", (Message("user", "Why?"),), "Because.")
    assert (seen.usage, seen.convention, seen.span) == (Usage(90, 25, 115), "openlit", span)


def retrieved(found: list[dict[str, str]], number: int) -> Observation:
    listed: dict[str, Value] = {"gen_ai.retrieval.documents": json.dumps(found)} if found else {}
    attributes = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.document_count": number, **listed}
    seen = observe(attributes, "openlit.instrumentation.langchain")
    assert seen is not None
    return seen


def test_a_number_of_documents_without_a_list_says_only_whether_there_were_any() -> None:
    assert [retrieved([], number).documents for number in (0, 4)] == [(), None]


def test_documents_beyond_the_three_that_are_sent_count_as_documents_without_text() -> None:
    three = [{"content": f"Text {at}.", "id": str(at)} for at in range(3)]
    assert [retrieved(three, number).documents_without_text for number in (3, 5)] == [0, 2]


def test_the_prompt_says_what_the_fourth_document_was() -> None:
    texts = [f"Rule {at} of the refunds." for at in range(4)]
    build, scopes = Builder(), {"ask": "openlit"}
    root = build.span("ask", {"function.args": "('Why?',)", "gen_ai.output.messages": "Because."})
    found = json.dumps([{"content": text} for text in texts[:3]])
    counted: dict[str, Value] = {"gen_ai.retrieval.documents": found, "gen_ai.retrieval.document_count": 4}
    build.span("retrieval", {"gen_ai.operation.name": "retrieval", **counted}, root)
    context = "\n".join(f"[{at}] {text}" for at, text in enumerate(texts, 1))
    sent = json.dumps([{"role": "user", "content": f"Context:\n{context}\n\nQuestion: Why?"}])
    said = json.dumps([{"role": "assistant", "content": "Because."}])
    texts_of_call = {"gen_ai.input.messages": sent, "gen_ai.output.messages": said}
    build.span("chat", {"gen_ai.operation.name": "chat", **texts_of_call}, root)
    for at, span in enumerate(build.spans):
        scope = scopes.get(span.name, "openlit.instrumentation.langchain")
        build.spans[at] = replace(span, origin=replace(span.origin, scope_name=scope))
    reading = build.read()
    assert (reading.status, reading.case.convention) == (ReadingStatus.READY, "openlit")
    assert [document.content for document in reading.case.retrieved_context] == texts
