"""OpenInference: what one span says."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from monitor.conventions.openinference import OpenInference
from monitor.model.case import ContextStatus, Document, Message, ReadingStatus, Usage
from monitor.model.span import Span, SpanEvent, SpanStatus, Value
from monitor.stages import Observation
from tests.support.traces import Builder, documents


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


@pytest.mark.parametrize(
    ("kind", "prefix"), [("RETRIEVER", "retrieval.documents"), ("RERANKER", "reranker.output_documents")]
)
def test_documents_may_be_missing_at_the_end_where_attributes_were_dropped(kind: str, prefix: str) -> None:
    attributes: dict[str, Value] = {f"{prefix}.{at}.document.content": text for at, text in enumerate(("One", "Two"))}
    assert see(kind, attributes).documents_without_text == 0
    assert see(kind, attributes, dropped_attributes=4).documents_without_text == 1
    whole = {**attributes, "output.value": json.dumps([{"page_content": text} for text in ("One", "Two", "Three")])}
    seen = see(kind, whole, dropped_attributes=4)
    assert (seen.documents, seen.documents_without_text) == ((Document("One"), Document("Two"), Document("Three")), 0)
    other = {**attributes, "output.value": '["doc-1", "doc-2", "doc-3"]'}
    assert see(kind, other, dropped_attributes=4).documents_without_text == 1


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("retrieval.documents.3.document.content", "retrieval"),
        ("reranker.output_documents.3.document.content", "rerank"),
        ("llm.output_messages.0.message.role", "generation"),
    ],
)
def test_a_span_whose_kind_was_dropped_is_known_by_its_keys(key: str, kind: str) -> None:
    span = Span("0" * 32, "1" * 16, attributes={key: "user"}, dropped_attributes=1)
    seen = OpenInference().observe(span, ())
    assert seen is not None
    assert seen.kind == kind
    assert OpenInference().observe(replace(span, dropped_attributes=0), ()) is None
    assert OpenInference().observe(replace(span, attributes={"llm.request.type": "chat"}), ()) is None


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


def test_the_model_is_the_one_that_answered_where_both_are_named() -> None:
    asked: dict[str, Value] = {"llm.request.model_name": "m"}
    assert see("LLM", asked).model == "m"
    assert see("LLM", {**asked, "llm.response.model_name": "m-2026", "llm.model_name": "n"}).model == "m-2026"


CHAT: dict[str, Value] = {
    "llm.model_name": "m",
    "llm.input_messages.1.message.role": "assistant",
    "llm.input_messages.1.message.content": "Hello.",
    "llm.input_messages.2.message.role": "user",
    "llm.input_messages.2.message.content": "Why?",
}
FIRST: dict[str, Value] = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Hi."}
ANSWER: dict[str, Value] = {
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "Because.",
}


def test_a_chat_of_which_a_part_was_dropped_is_none() -> None:
    earliest_dropped, latest_dropped = {**CHAT, **ANSWER}, {**FIRST, **CHAT}
    without_role = {**CHAT, **ANSWER, "llm.input_messages.0.message.content": "Hi."}
    for attributes in (earliest_dropped, latest_dropped, without_role):
        assert see("LLM", attributes, dropped_attributes=2).messages is None
        assert see("LLM", attributes).messages is not None
    assert see("LLM", {**FIRST, **CHAT, **ANSWER}, dropped_attributes=2).messages is not None


def test_a_chat_of_which_a_part_was_dropped_is_read_from_the_input_where_that_is_whole() -> None:
    sent = json.dumps({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}]})
    seen = see("LLM", {**CHAT, **ANSWER, "input.value": sent}, dropped_attributes=2)
    assert seen.messages == (Message("system", "Be kind."), Message("user", "Why?"))


def test_fields_of_dspy_are_read_as_bare_words() -> None:
    asked = "[[ ## question ## ]]\nWhy?\n\nRespond with the corresponding output fields, starting with `x`."
    said = "[[ ## reasoning ## ]]\nSo.\n\n[[ ## answer ## ]]\nBecause.\n\n[[ ## completed ## ]]"
    seen = see("LLM", {**FIRST, "llm.input_messages.0.message.content": asked, "output.value": json.dumps([said])})
    assert seen.messages == (Message("user", "Why?"),)
    chat: dict[str, Value] = {**ANSWER, "llm.output_messages.0.message.content": said}
    assert see("LLM", chat).response == "Because."


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
    chat = '{"messages": ["ChatMessage(role=\'assistant\', text=\'Earlier.\')"], "tools": []}'
    assert see("LLM", {"llm.model_name": "m", "output.value": chat}).kind == "other"
    assert see("LLM", {"llm.model_name": "m", "output.value": '{"text": "Because."}'}).response == "Because."


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


def genai_chat(build: Builder, parent: str, prompt: str, answer: str) -> str:
    told = {
        role: json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
        for role, text in (("user", prompt), ("assistant", answer))
    }
    return build.span(
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": told["user"],
            "gen_ai.output.messages": told["assistant"],
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 2,
        },
        parent,
        kind=3,
    )


def test_a_request_of_this_dialect_may_enclose_a_call_in_another() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "Why?", "output.value": "Because.", "session.id": "s"})
    build.oi("RETRIEVER", documents("retrieval.documents", ["One.", "Two."]), root)
    build.oi("RERANKER", documents("reranker.output_documents", ["Two."]), root)
    call = genai_chat(build, root, "Context:\nTwo.\n\nQuestion: Why?", "Because.")
    reading = build.read()
    case = reading.case
    assert (reading.status, case.convention, case.span_id) == (ReadingStatus.READY, "openinference", call)
    assert (case.request.query, case.response, case.session_id) == ("Why?", "Because.", "s")
    assert ([d.content for d in case.retrieved_context], case.model) == (["Two."], "m")
    assert case.usage == Usage(3, 2, 5)


def test_without_its_own_output_a_request_is_answered_by_the_call_in_another_dialect() -> None:
    build = Builder()
    root = build.oi("AGENT", {"input.value": "Why?"})
    build.oi("RETRIEVER", documents("retrieval.documents", ["One."]), root)
    genai_chat(build, root, "Context:\nOne.\n\nQuestion: Why?", "Because.")
    reading = build.read()
    assert (reading.status, reading.case.request.query, reading.case.response) == (
        ReadingStatus.READY,
        "Why?",
        "Because.",
    )


@pytest.mark.parametrize(
    ("prompt", "status", "texts"),
    [
        ("Context:\n[1] One.\n[2] Two.\n\nQuestion: Why?", ContextStatus.RETRIEVED, ["One.", "Two."]),
        ("One.\nTwo.\nWhy?", ContextStatus.NOT_RECORDED, ["One."]),
    ],
)
def test_a_retriever_that_lost_documents_is_made_up_for_by_the_prompt_or_not_recorded(
    prompt: str, status: ContextStatus, texts: list[str]
) -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "Why?", "output.value": "Because."})
    build.oi("RETRIEVER", documents("retrieval.documents", ["One."]), root)
    build.spans[-1] = replace(build.spans[-1], dropped_attributes=2)
    genai_chat(build, root, prompt, "Because.")
    reading = build.read()
    assert (reading.case.context_status, [d.content for d in reading.case.retrieved_context]) == (status, texts)


def test_a_request_whose_retriever_fails_has_failed_whatever_its_steps_have_put_out() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "And there?"}, status="error", message="no index")
    rewrite = build.oi("CHAIN", {"input.value": "And there?", "output.value": "Why is it so there?"}, root)
    build.oi("RETRIEVER", {"input.value": "Why is it so there?"}, root, status="error", message="no index")
    assert (build.read().status, build.read().error) == (ReadingStatus.FAILED_REQUEST, "no index")
    build.llm("Rewrite: And there?", "Why is it so there?", rewrite)
    assert build.read().status == ReadingStatus.FAILED_REQUEST


def test_a_request_that_answers_in_spite_of_a_failed_step_has_not_failed() -> None:
    build = Builder()
    root = build.oi("CHAIN", {"input.value": "Why?", "output.value": "Because."}, status="error", message="not saved")
    build.oi("RETRIEVER", documents("retrieval.documents", ["One."]), root)
    build.llm("Context:\nOne.\n\nQuestion: Why?", "Because.", root)
    assert build.read().status == ReadingStatus.READY


def test_a_call_that_dspy_made_says_all_where_only_the_client_library_is_instrumented() -> None:
    build = Builder()
    request = "Respond with the corresponding output fields, starting with the field `[[ ## answer ## ]]`."
    asked = f'[[ ## context ## ]]\n["One.", "Two."]\n\n[[ ## question ## ]]\nWhy?\n\n{request}'
    build.llm(asked, "[[ ## reasoning ## ]]\nSo.\n\n[[ ## answer ## ]]\nBecause.\n\n[[ ## completed ## ]]")
    reading = build.read()
    assert (reading.status, reading.case.request.query, reading.case.response) == (
        ReadingStatus.READY,
        "Why?",
        "Because.",
    )
    assert [d.content for d in reading.case.retrieved_context] == ["One.", "Two."]
