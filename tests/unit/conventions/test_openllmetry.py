"""OpenLLMetry: what one span says, of 0.62 and of 0.40, and a whole trace of the older words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.conventions.openllmetry import OpenLLMetry
from monitor.model.case import ContextStatus, Document, Message, ReadingStatus, Usage
from monitor.model.span import LogRecord, Span, SpanStatus, Value
from monitor.stages import Observation
from tests.support.traces import Builder

TEXT = "Refunds are granted within 30 days."


def span(attributes: dict[str, Value], status: SpanStatus = "unset") -> Span:
    return Span("0" * 32, "1" * 16, attributes=attributes, status=status)


def see(attributes: dict[str, Value], status: SpanStatus = "unset") -> Observation:
    found = OpenLLMetry().observe(span(attributes, status), ())
    assert found is not None
    return found


def entity(kind: str, given: Any = None, put_out: Any = None, **more: Value) -> dict[str, Value]:
    told: dict[str, Value] = {"traceloop.span.kind": kind, **more}
    if given is not None:
        told["traceloop.entity.input"] = json.dumps(given)
    if put_out is not None:
        told["traceloop.entity.output"] = json.dumps(put_out)
    return told


def serialised(text: str, **fields: Any) -> dict[str, Any]:
    path = ["langchain", "schema", "document", "Document"]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"page_content": text, **fields}}


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"http.route": "/ask", "traceloop.workflow.name": "rag", "traceloop.association.properties.user_id": "u"},
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
        {"gen_ai.prompt": "plain", "gen_ai.completion": "plain"},
    ],
)
def test_a_span_that_no_library_of_traceloop_made_is_not_this_dialects(attributes: dict[str, Value]) -> None:
    assert OpenLLMetry().observe(span(attributes), ()) is None


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"traceloop.span.kind": "workflow"}, "request"),
        ({"traceloop.span.kind": "agent"}, "request"),
        ({"traceloop.span.kind": "task"}, "request"),
        ({"traceloop.span.kind": "tool"}, "tool"),
        ({"traceloop.span.kind": "unheard"}, "other"),
        ({"traceloop.span.kind": "task", "gen_ai.operation.name": "execute_task"}, "request"),
        ({"traceloop.span.kind": "task", "gen_ai.operation.name": "vector_db_retrieve"}, "retrieval"),
        ({"traceloop.entity.path": "", "gen_ai.operation.name": "chat"}, "generation"),
        ({"llm.request.type": "chat"}, "generation"),
        ({"llm.request.type": "completion"}, "generation"),
        ({"llm.request.type": "unknown"}, "generation"),
        ({"llm.request.type": "embedding"}, "embedding"),
        ({"llm.request.type": "rerank"}, "rerank"),
        ({"gen_ai.prompt.0.content": "Why?"}, "generation"),
    ],
)
def test_the_operation_is_the_role_else_the_kind_of_the_entity(attributes: dict[str, Value], kind: str) -> None:
    seen = see(attributes)
    assert (seen.kind, seen.convention) == (kind, "openllmetry")


def test_a_workflow_states_question_history_answer_and_state() -> None:
    said = {"lc": 1, "id": ["x", "HumanMessage"], "kwargs": {"content": "Hi", "type": "human"}}
    given = {"inputs": {"input": "Why?", "chat_history": [said]}, "tags": ["rag"], "metadata": {}, "kwargs": {}}
    put_out = {"outputs": {"input": "Why?", "docs": [serialised(TEXT, id="a")], "answer": "Because."}}
    seen = see(entity("workflow", given, put_out))
    assert (seen.query, seen.history, seen.response) == ("Why?", (Message("user", "Hi"),), "Because.")
    assert seen.documents == (Document(TEXT, "", "a"),)


def test_the_inputs_of_a_stream_stand_in_its_output() -> None:
    put_out = {"outputs": "Because.", "kwargs": {"inputs": {"input": "Why?"}}}
    seen = see(entity("workflow", {"inputs": {"input": ""}}, put_out))
    assert (seen.query, seen.response) == ("Why?", "Because.")


def test_a_decorated_function_states_its_first_argument_and_what_it_returned() -> None:
    seen = see(entity("workflow", {"args": ["Why?"], "kwargs": {"top_k": 3}}, "Because."))
    assert (seen.query, seen.response) == ("Why?", "Because.")


def test_a_retriever_gives_query_and_documents() -> None:
    documents = [{"page_content": TEXT, "metadata": {"source": "u", "doc_id": "a", "score": 0.5}}]
    operation: dict[str, Value] = {"gen_ai.operation.name": "vector_db_retrieve"}
    seen = see(entity("task", {"query": "why", "tags": []}, {"documents": documents, "count": 1}) | operation)
    assert (seen.kind, seen.query, seen.documents) == ("retrieval", "why", (Document(TEXT, "u", "a", 0.5),))
    assert see(entity("task", {"query": "why"}, {"documents": [], "count": 0}) | operation).documents == ()
    assert see(entity("task", {"query": "why"}) | operation).documents is None


@pytest.mark.parametrize(
    "put_out",
    [{"outputs": [serialised(TEXT)]}, [{"id": "a", "text": TEXT, "score": 0.5}], [{"page_content": TEXT}]],
)
def test_a_task_that_puts_out_nothing_but_documents_is_a_retrieval(put_out: Any) -> None:
    seen = see(entity("task", {"args": ["why"], "kwargs": {}}, put_out))
    assert (seen.kind, seen.query) == ("retrieval", "why")
    assert [document.content for document in seen.documents or ()] == [TEXT]


@pytest.mark.parametrize(
    "put_out",
    [["a sub-question", "another"], [{"role": "user", "content": "Hi", "id": "m"}], [{"text": "a step"}], [], [3]],
)
def test_a_list_of_anything_else_is_no_retrieval(put_out: Any) -> None:
    assert see(entity("task", {"args": ["why"]}, put_out)).kind == "request"


@pytest.mark.parametrize("given", [{"args": ["why", None], "kwargs": {}}, {"inputs": {"docs": None}}])
def test_a_task_that_puts_out_some_of_the_documents_it_was_given_is_a_rerank(given: dict[str, Any]) -> None:
    both = [{"id": "a", "text": "One"}, {"id": "b", "text": "Two"}]
    filled = json.loads(json.dumps(given).replace("null", json.dumps(both)))
    seen = see(entity("task", filled, both[1:]))
    assert (seen.kind, seen.documents) == ("rerank", (Document("Two", "", "b"),))


def test_a_tool_gives_its_result() -> None:
    message = {"lc": 1, "id": ["x", "ToolMessage"], "kwargs": {"content": TEXT, "type": "tool"}}
    seen = see(entity("tool", {"input_str": "x", "inputs": {"query": "why"}}, {"output": message}))
    assert (seen.query, seen.documents) == ("why", (Document(TEXT),))


def test_a_call_of_a_model_is_in_the_words_of_opentelemetry_and_its_answer_needs_no_role() -> None:
    said = [{"role": "unknown", "parts": [{"type": "text", "content": "Because."}], "finish_reason": "stop"}]
    sent = [{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]
    seen = see(
        {
            "traceloop.workflow.name": "rag",
            "gen_ai.operation.name": "chat",
            "gen_ai.response.model": "m-2024",
            "gen_ai.system_instructions": '[{"type": "text", "content": "Be kind."}]',
            "gen_ai.input.messages": json.dumps(sent),
            "gen_ai.output.messages": json.dumps(said),
            "gen_ai.usage.total_tokens": 9,
        }
    )
    assert seen.messages == (Message("system", "Be kind."), Message("user", "Why?"))
    assert (seen.response, seen.model, seen.usage) == ("Because.", "m-2024", Usage(None, None, 9))


def call(system: str, user: str, answer: str) -> dict[str, Value]:
    return {
        "llm.request.type": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": system,
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": user,
        "gen_ai.completion.0.content": answer,
        "gen_ai.completion.0.finish_reason": "stop",
        "gen_ai.usage.prompt_tokens": 5,
        "gen_ai.usage.completion_tokens": 2,
        "llm.usage.total_tokens": 7,
    }


def test_a_call_of_a_model_in_indexed_keys_says_the_same() -> None:
    seen = see(call("Be kind.", "Why?", "Because."))
    assert seen.messages == (Message("system", "Be kind."), Message("user", "Why?"))
    assert (seen.response, seen.model, seen.usage) == ("Because.", "m", Usage(5, 2, 7))


def test_a_call_of_a_tool_in_indexed_keys_is_no_answer() -> None:
    called: dict[str, Value] = {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.0.name": "kb"}
    assert see(called | {"gen_ai.completion.0.finish_reason": "tool_calls"}).response is None


def test_content_in_log_records_is_read_where_the_instrumentation_emits_events() -> None:
    record = LogRecord("0" * 32, "1" * 16, "gen_ai.user.message", 1, {"content": "Why?"})
    seen = OpenLLMetry().observe(span({"llm.request.type": "chat"}), (record,))
    assert seen is not None
    assert seen.messages == (Message("user", "Why?"),)


@pytest.mark.parametrize("key", ["session_id", "sessionId", "thread_id"])
def test_session_and_user_are_properties_of_the_association_else_metadata_of_the_run(key: str) -> None:
    stamped: dict[str, Value] = {f"traceloop.association.properties.{key}": "s"}
    user: dict[str, Value] = {"traceloop.association.properties.user_id": "u"}
    seen = see(entity("workflow", {"metadata": {key: "other"}}) | stamped | user)
    assert (seen.session_id, seen.user_id) == ("s", "u")
    told = see(entity("workflow", {"inputs": {}, "metadata": {key: "s", "user_id": "u"}}))
    assert (told.session_id, told.user_id) == ("s", "u")


def test_a_span_that_failed_says_why() -> None:
    for attributes in (entity("workflow"), {"llm.request.type": "chat"}):
        assert see(attributes | {"error.type": "RateLimit"}, "error").error == "RateLimit"


@pytest.mark.parametrize("documents", [[serialised(TEXT, id="a", metadata={"source": "u"})], []])
def test_a_trace_of_the_older_words_without_a_retriever_becomes_a_case(documents: list[Any]) -> None:
    build = Builder()
    state = {"input": "Why refunds?", "docs": documents}
    given = {"inputs": {"input": "Why refunds?"}, "metadata": {"session_id": "s"}}
    root = build.span("rag.workflow", entity("workflow", given, {"outputs": {**state, "answer": "Because."}}))
    build.span("find.task", entity("task", given, {"outputs": documents}), root)
    generate = build.span("generate.task", entity("task", {"inputs": state}, {"outputs": "Because."}), root)
    context = TEXT if documents else ""
    build.span("ChatOpenAI.chat", call(f"Answer.\n\nContext:\n{context}", "Why refunds?", "Because."), generate)
    reading = build.read()
    case = reading.case
    came = ContextStatus.RETRIEVED if documents else ContextStatus.RETRIEVED_NOTHING
    assert (reading.status, case.context_status) == (ReadingStatus.READY, came)
    assert (case.request.query, case.response, case.session_id) == ("Why refunds?", "Because.", "s")
    assert case.retrieved_context == ((Document(TEXT, "u", "a"),) if documents else ())
    assert (case.usage, case.convention) == (Usage(5, 2, 7), "openllmetry")


def search_task(limit: int | None, *texts: str) -> dict[str, Value]:
    found = [{"id": str(at), "text": text, "score": 0.5} for at, text in enumerate(texts)]
    cut = entity("task", {"args": ["Why?"], "kwargs": {}}, found)
    return {**cut, "traceloop.entity.output": json.dumps(found)[:limit]}


def test_of_a_list_that_was_cut_the_last_document_is_not_whole() -> None:
    both = search_task(None, TEXT, "Other.")["traceloop.entity.output"]
    for limit in range(110, len(str(both))):
        seen = see(search_task(limit, TEXT, "Other."))
        assert (seen.kind, seen.documents) == ("retrieval", (Document(TEXT, "", "0", 0.5),))
        assert seen.documents_without_text == 1
    seen = see(search_task(60, TEXT, "Other."))
    assert (seen.kind, seen.query, seen.documents) == ("retrieval", "Why?", None)


@pytest.mark.parametrize(
    "put_out",
    ['[{"role": "user", "content": "Why', '["rewritten", "quest', '{"a": [{"id": "x"', '[{"lc": 1, "ty', "[7, 8"],
)
def test_other_values_that_were_cut_are_no_retrieval(put_out: str) -> None:
    assert see(entity("task") | {"traceloop.entity.output": put_out}).kind == "request"


def test_what_one_search_found_is_not_the_context_where_another_was_cut() -> None:
    build = Builder()
    root = build.span("rag.workflow", entity("workflow", {"args": ["Why?"], "kwargs": {}}, "Because."))
    build.span("find.task", search_task(None, TEXT), root)
    build.span("find.task", search_task(60, "Helmets cost two euros a day, bikes ten."), root)
    build.span("openai.chat", call("Be brief.", "Why?", "Because."), root)
    assert build.read().case.context_status is ContextStatus.NOT_RECORDED


@pytest.mark.parametrize(
    ("args", "question"),
    [
        (["Desk", "Why refunds?"], "Why refunds?"),
        (["_HelpDesk", "Warum?", []], "Warum?"),
        (["Refunds", "user-7"], "Refunds"),
        (["Refunds", [{"role": "user", "content": "Hi"}]], "Refunds"),
        (["Refunds"], "Refunds"),
        (["Why refunds?", "Tell me."], "Why refunds?"),
    ],
)
def test_the_class_of_a_method_is_not_the_question(args: list[Any], question: str) -> None:
    assert see(entity("workflow", {"args": args, "kwargs": {}}, "Because.")).query == question
