"""MLflow: what one span says."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from monitor.conventions.gen_ai import GenAI
from monitor.conventions.mlflow import MLflow
from monitor.model.case import Document, Message, Usage
from monitor.model.span import Span, SpanEvent, Value
from monitor.stages import Observation


def see(kind: str, attributes: dict[str, object] | None = None, *events: str) -> Observation:
    """The span as the SDK sends it: each value as JSON."""
    told: dict[str, Value] = {
        key: json.dumps(value) for key, value in {"mlflow.spanType": kind, **(attributes or {})}.items()
    }
    seen = MLflow().observe(Span("0" * 32, "1" * 16, attributes=told, events=tuple(SpanEvent(e) for e in events)), ())
    assert seen is not None
    return seen


def see_io(kind: str, given: object, put_out: object, *events: str) -> Observation:
    return see(kind, {"mlflow.spanInputs": given, "mlflow.spanOutputs": put_out}, *events)


def test_a_span_without_its_type_is_not_this_dialects() -> None:
    for attributes in ({}, {"mlflow.spanInputs": '"Why?"'}, {"mlflow.spanType": 3}, {"model": '"m"'}):
        assert MLflow().observe(Span("0" * 32, "1" * 16, attributes=attributes), ()) is None


@pytest.mark.parametrize(
    ("named", "kind"),
    [
        ("CHAIN", "request"),
        ("AGENT", "request"),
        ("UNKNOWN", "request"),
        ("RETRIEVER", "retrieval"),
        ("RERANKER", "rerank"),
        ("CHAT_MODEL", "generation"),
        ("LLM", "generation"),
        ("TOOL", "tool"),
        ("EMBEDDING", "embedding"),
        ("PARSER", "other"),
        ("of our own", "other"),
    ],
)
def test_the_type_of_the_span_is_its_role(named: str, kind: str) -> None:
    assert see(named).kind == kind


def test_a_function_states_question_history_and_answer() -> None:
    given = {"question": "Why?", "chat_history": [{"role": "user", "content": "Hi"}]}
    seen = see_io("CHAIN", given, "Because.")
    assert (seen.query, seen.history, seen.response) == ("Why?", (Message("user", "Hi"),), "Because.")


def test_an_agent_speaks_in_messages_and_choices() -> None:
    given = {"messages": [{"role": "user", "content": "Why?"}]}
    seen = see_io("AGENT", given, {"choices": [{"message": {"role": "assistant", "content": "Because."}}]})
    assert (seen.query, seen.response) == ("Why?", "Because.")


def test_an_answer_that_was_yielded_is_joined() -> None:
    assert see_io("CHAIN", "Why?", ["Be", "cause."], "mlflow.chunk.item.0").response == "Because."


def test_a_list_that_was_returned_at_once_is_no_answer() -> None:
    assert see_io("CHAIN", "Why?", ["one", "two"]).response is None


def test_the_state_of_a_chain_holds_documents() -> None:
    assert see_io("CHAIN", "Why?", {"docs": [{"page_content": "One", "id": "a"}]}).documents == (
        Document("One", "", "a"),
    )


def test_the_question_of_a_retriever_comes_bare_or_as_an_argument() -> None:
    assert [see_io("RETRIEVER", given, []).query for given in ("Why?", {"query": "Why?"})] == ["Why?", "Why?"]


def test_a_retriever_gives_documents_with_their_metadata() -> None:
    found = [{"page_content": "One", "metadata": {"doc_uri": "u1", "chunk_id": "c1", "score": 0.5}, "id": "a"}]
    assert see_io("RETRIEVER", "Why?", found).documents == (Document("One", "u1", "a", 0.5),)


def test_a_retriever_that_says_nothing_is_not_an_empty_one() -> None:
    assert see("RETRIEVER").documents is None
    assert see_io("RETRIEVER", "Why?", []).documents == ()


def test_documents_of_which_only_ids_came_are_counted() -> None:
    assert see_io("RERANKER", "Why?", [{"id": "a"}, {"id": "b", "page_content": "Two"}]).documents_without_text == 1


def test_the_result_of_a_tool_is_a_document() -> None:
    seen = see_io("TOOL", {"query": "Why?"}, {"content": "One", "type": "tool"})
    assert (seen.query, seen.documents) == ("Why?", (Document("One"),))


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"messages": [{"role": "user", "content": "Q"}]}, (Message("user", "Q"),)),
        ({"instructions": "S", "input": "Q"}, (Message("system", "S"), Message("user", "Q"))),
        (
            {"system": [{"text": "S"}], "messages": [{"role": "user", "content": [{"text": "Q"}]}]},
            (Message("system", "S"), Message("user", "Q")),
        ),
        ({"contents": [{"role": "user", "parts": [{"text": "Q"}]}]}, (Message("user", "Q"),)),
        (["Q"], (Message("user", "Q"),)),
        ("Q", (Message("user", "Q"),)),
        ({"temperature": 0}, None),
    ],
)
def test_what_a_model_was_sent_is_read_of_any_client(given: object, sent: tuple[Message, ...] | None) -> None:
    assert see_io("CHAT_MODEL", given, None).messages == sent


@pytest.mark.parametrize(
    "put_out",
    [
        {"choices": [{"message": {"role": "assistant", "content": "A"}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "A"}]},
        {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]}]},
        {"output": {"message": {"role": "assistant", "content": [{"text": "A"}]}}},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "A"}]}}]},
        "A",
    ],
)
def test_what_a_model_answered_is_read_of_any_client(put_out: object) -> None:
    assert see_io("CHAT_MODEL", "Q", put_out).response == "A"


def test_a_call_of_a_tool_is_no_answer() -> None:
    said = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "search", "arguments": "{}"}}]}
    assert see_io("CHAT_MODEL", "Q", {"choices": [{"message": said, "finish_reason": "tool_calls"}]}).response is None


def test_model_and_tokens_are_unquoted() -> None:
    counts = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    seen = see("CHAT_MODEL", {"mlflow.llm.model": "m-1", "model": "m", "mlflow.chat.tokenUsage": counts})
    assert (seen.model, seen.usage) == ("m-1", Usage(3, 2, 5))


@pytest.mark.parametrize(
    "put_out",
    [
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
        {"content": [], "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}},
        {"llm_output": {"token_usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}},
    ],
)
def test_tokens_of_which_no_attribute_was_made_stand_in_the_answer(put_out: object) -> None:
    assert see_io("CHAT_MODEL", "Why?", put_out).usage == Usage(3, 2, 5)


def test_the_session_is_a_thread_of_langchain() -> None:
    assert see("CHAIN", {"metadata": {"thread_id": "t"}}).session_id == "t"
    assert see("CHAIN", {"metadata": {"thread_id": "t"}, "mlflow.trace.session": "s"}).session_id == "s"


def test_the_user_is_named_by_the_metadata_of_langchain() -> None:
    assert see("CHAIN", {"metadata": {"user_id": "u"}}).user_id == "u"


@pytest.mark.parametrize("around", [lambda request: request, lambda request: {"request": request}])
def test_a_request_to_an_agent_says_who_asks(around: Callable[[object], object]) -> None:
    request = {"input": [], "context": {"conversation_id": "s", "user_id": "u"}}
    seen = see_io("AGENT", around(request), None)
    assert (seen.session_id, seen.user_id) == ("s", "u")
    stated = {"mlflow.spanInputs": around(request), "session.id": "own", "user.id": "me"}
    assert (see("AGENT", stated).session_id, see("AGENT", stated).user_id) == ("own", "me")


def test_documents_named_context_are_nobody_who_asks() -> None:
    assert see_io("CHAIN", {"question": "Why?", "context": [{"page_content": "One"}]}, None).session_id == ""


def test_facts_are_unquoted_and_hold_no_content() -> None:
    facts = see("CHAIN", {"mlflow.spanInputs": "Why?", "prompt.version": "7", "metadata": {"tenant": "a"}}).attributes
    assert facts == {"mlflow.spanType": "CHAIN", "prompt.version": "7", "metadata.tenant": "a"}


@pytest.mark.parametrize(("told", "session"), [('"s"', "s"), ("s", "s"), ("42", "42"), ('{"a": 1}', '{"a": 1}')])
def test_a_session_in_a_translated_span_loses_the_quotes_of_json(told: str, session: str) -> None:
    attributes: dict[str, Value] = {"gen_ai.operation.name": "invoke_agent", "session.id": told}
    seen = GenAI().observe(Span("0" * 32, "1" * 16, attributes=attributes), ())
    assert seen is not None
    assert seen.session_id == session
