"""OpenInference: what one span says."""

from __future__ import annotations

import json

import pytest

from monitor.conventions.openinference import OpenInference
from monitor.model.case import Document, Message, Usage
from monitor.model.span import Span, SpanEvent, SpanStatus, Value
from monitor.stages import Observation


def see(kind: str, attributes: dict[str, Value] | None = None, **fields: object) -> Observation:
    span = Span("0" * 32, "1" * 16, attributes={"openinference.span.kind": kind, **(attributes or {})}, **fields)  # type: ignore[arg-type]
    found = OpenInference().observe(span, ())
    assert found is not None
    return found


def test_a_span_without_its_kind_is_not_this_dialects() -> None:
    for attributes in ({}, {"input.value": "x"}, {"openinference.span.kind": 3}):
        assert OpenInference().observe(Span("0" * 32, "1" * 16, attributes=attributes), ()) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("CHAIN", "request"),
        ("AGENT", "request"),
        ("RETRIEVER", "retrieval"),
        ("RERANKER", "rerank"),
        ("TOOL", "tool"),
        ("EMBEDDING", "embedding"),
        ("PROMPT", "other"),
        ("GUARDRAIL", "other"),
        ("UNHEARD", "other"),
        ("chain", "request"),
    ],
)
def test_the_kind_of_the_span_is_its_role(named: str, kind: str) -> None:
    assert see(named).kind == kind


def test_a_chain_states_question_history_and_answer() -> None:
    state = {"input": "Why?", "chat_history": [{"type": "human", "data": {"content": "Hi"}}], "answer": "Because."}
    seen = see("CHAIN", {"input.value": json.dumps(state), "output.value": json.dumps(state)})
    assert (seen.query, seen.history, seen.response) == ("Why?", (Message("user", "Hi"),), "Because.")


def test_a_retriever_gives_documents_and_their_ids_from_the_output() -> None:
    seen = see(
        "RETRIEVER",
        {
            "retrieval.documents.1.document.content": "Two",
            "retrieval.documents.0.document.content": "One",
            "retrieval.documents.0.document.metadata": '{"source": "u1"}',
            "output.value": '{"documents": [{"id": "a", "page_content": "One"}, {"id": "b", "page_content": "Two"}]}',
        },
    )
    assert seen.documents == (Document("One", "u1", "a"), Document("Two", "", "b"))
    assert seen.documents_without_text == 0


def test_ids_in_reprs_are_documents_without_text() -> None:
    seen = see("RETRIEVER", {"output.value": '["<NodeWithScore(node=TextNode(id_=a), score=0.5)>"]'})
    assert (seen.documents, seen.documents_without_text) == ((Document("", "", "a", 0.5),), 1)


def test_documents_whose_attributes_were_dropped_are_counted() -> None:
    seen = see("RETRIEVER", {"retrieval.documents.3.document.content": "Four"})
    assert (seen.documents, seen.documents_without_text) == ((Document("Four"),), 3)


def test_a_retriever_that_says_nothing_is_not_an_empty_one() -> None:
    assert see("RETRIEVER").documents is None
    assert see("RETRIEVER", {"retrieval.documents": []}).documents == ()


def test_a_step_that_gives_back_some_of_its_documents_is_a_filter() -> None:
    nodes = [f"<NodeWithScore(node=TextNode(id_={name}), score=0.5)>" for name in "ab"]
    attributes: dict[str, Value] = {"input.value": json.dumps({"nodes": nodes}), "output.value": json.dumps(nodes[1:])}
    seen = see("CHAIN", attributes)
    assert (seen.kind, [document.doc_id for document in seen.documents or ()]) == ("rerank", ["b"])
    made: dict[str, Value] = {**attributes, "output.value": '[{"page_content": "new text"}]'}
    assert see("CHAIN", made).kind == "request"


def test_a_call_of_a_model_gives_chat_answer_model_and_tokens() -> None:
    seen = see(
        "LLM",
        {
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": "Why?",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "Be kind.",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.contents.0.message_content.type": "text",
            "llm.output_messages.0.message.contents.0.message_content.text": "Because.",
            "llm.model_name": "m",
            "llm.token_count.prompt": 3,
            "llm.token_count.completion": 2,
        },
    )
    assert seen.messages == (Message("system", "Be kind."), Message("user", "Why?"))
    assert (seen.response, seen.model, seen.usage) == ("Because.", "m", Usage(3, 2, None))


def test_a_call_that_only_calls_a_tool_has_no_answer() -> None:
    seen = see(
        "LLM",
        {
            "llm.model_name": "m",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
            "output.value": "assistant: None",
        },
    )
    assert (seen.kind, seen.response) == ("generation", None)


def test_a_helper_that_is_marked_as_llm_and_calls_no_model_is_none() -> None:
    assert see("LLM", {"input.value": "ChatMemoryBuffer(...)"}).kind == "other"


@pytest.mark.parametrize(
    ("status", "message", "events", "wanted"),
    [
        ("error", "429", (), "429"),
        ("error", "", (SpanEvent("exception", 0, {"exception.message": "boom"}),), "boom"),
        ("error", "", (), "error"),
        ("ok", "x", (), ""),
    ],
)
def test_an_error_is_told_in_the_spans_own_words(
    status: SpanStatus, message: str, events: tuple[SpanEvent, ...], wanted: str
) -> None:
    assert see("LLM", status=status, status_message=message, events=events).error == wanted


def test_session_and_user_are_read_from_any_span() -> None:
    seen = see("PROMPT", {"session.id": "s", "user.id": 7})
    assert (seen.session_id, seen.user_id) == ("s", "7")
