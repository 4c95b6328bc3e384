"""OpenTelemetry GenAI: what one span and its log records say, in every generation of the conventions."""

from __future__ import annotations

import json

import pytest

from monitor.conventions.gen_ai import GenAI
from monitor.model.case import ContextStatus, Document, Message, ReadingStatus, Usage
from monitor.model.span import LogRecord, Span, SpanEvent, Value
from monitor.stages import Observation
from tests.support.traces import Builder

SENT: Value = [
    {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]},
    {"role": "user", "parts": [{"type": "text", "content": "Why?"}], "name": None},
]
SAID: Value = [{"role": "assistant", "parts": [{"type": "text", "content": "Because."}], "finish_reason": "stop"}]
CHAT = (Message("system", "Be kind."), Message("user", "Why?"))


def see(attributes: dict[str, Value], *records: LogRecord, events: tuple[SpanEvent, ...] = ()) -> Observation:
    found = GenAI().observe(Span("0" * 32, "1" * 16, attributes=attributes, events=events), records)
    assert found is not None
    return found


def record(event: str, body: Value = None, attributes: dict[str, Value] | None = None) -> LogRecord:
    return LogRecord("0" * 32, "1" * 16, event, 1, body, attributes or {})


def told(seen: Observation) -> tuple[object, ...]:
    return seen.kind, seen.messages, seen.response


def test_messages_are_taken_from_span_attributes() -> None:
    attributes = {"gen_ai.input.messages": json.dumps(SENT), "gen_ai.output.messages": json.dumps(SAID)}
    seen = see({"gen_ai.operation.name": "chat", **attributes})
    assert told(seen) == ("generation", CHAT, "Because.")


def test_messages_in_one_event_and_not_twice_where_both_carry_them() -> None:
    carried: dict[str, Value] = {"gen_ai.input.messages": SENT, "gen_ai.output.messages": SAID}
    event = record("gen_ai.client.inference.operation.details", None, carried)
    assert told(see({"gen_ai.operation.name": "chat"}, event)) == ("generation", CHAT, "Because.")
    as_text = {key: json.dumps(value) for key, value in carried.items()}
    assert told(see({"gen_ai.operation.name": "chat", **as_text}, event)) == ("generation", CHAT, "Because.")


def test_messages_are_gathered_from_a_log_record_for_each() -> None:
    records = (
        record("gen_ai.system.message", {"content": "Be kind."}),
        record("gen_ai.user.message", {"content": "Why?"}),
        record(
            "gen_ai.choice",
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Because."}},
        ),
    )
    assert told(see({"gen_ai.operation.name": "chat", "gen_ai.system": "openai"}, *records)) == (
        "generation",
        CHAT,
        "Because.",
    )


def test_the_name_of_an_event_may_stand_in_an_attribute_and_its_body_be_json() -> None:
    old = record("", '{"content": "Why?"}', {"event.name": "gen_ai.user.message"})
    assert see({"gen_ai.operation.name": "chat"}, old).messages == (Message("user", "Why?"),)


def test_messages_as_events_of_the_span() -> None:
    events = (
        SpanEvent("gen_ai.user.message", 1, {"gen_ai.event.content": '{"content": "Why?"}'}),
        SpanEvent("gen_ai.choice", 2, {"gen_ai.event.content": '{"message": {"content": "Because."}}'}),
    )
    seen = see({"gen_ai.operation.name": "chat"}, events=events)
    assert told(seen) == ("generation", (Message("user", "Why?"),), "Because.")


def test_instructions_apart_from_the_messages_come_first() -> None:
    apart = {"gen_ai.system_instructions": '[{"type": "text", "content": "Be kind."}]'}
    user = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}])
    assert see({"gen_ai.operation.name": "chat", "gen_ai.input.messages": user, **apart}).messages == CHAT


def test_a_tool_call_is_no_answer_and_an_answer_without_a_word_is_an_empty_one() -> None:
    calls = [{"role": "assistant", "parts": [{"type": "tool_call", "name": "x"}], "finish_reason": "tool_call"}]
    silent = [{"role": "assistant", "parts": [], "finish_reason": "stop"}]
    for said, wanted in ((calls, None), (silent, "")):
        assert see({"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(said)}).response == wanted


@pytest.mark.parametrize(
    ("listed", "documents", "without_text"),
    [
        ('[{"id": "a", "score": 0.5}]', (Document("", "", "a", 0.5),), 1),
        (
            '[{"id": "a", "score": 0.5, "content": "One", "metadata": {"source": "u"}}]',
            (Document("One", "u", "a", 0.5),),
            0,
        ),
        ([{"id": "a", "content": "One"}], (Document("One", "", "a"),), 0),
        ("[]", (), 0),
        (None, None, 0),
    ],
)
def test_a_retrieval_gives_documents_with_or_without_text(
    listed: Value, documents: tuple[Document, ...] | None, without_text: int
) -> None:
    found: dict[str, Value] = {} if listed is None else {"gen_ai.retrieval.documents": listed}
    seen = see({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "why", **found})
    assert (seen.kind, seen.query) == ("retrieval", "why")
    assert (seen.documents, seen.documents_without_text) == (documents, without_text)


def test_a_workflow_states_the_clean_question_and_answer() -> None:
    attributes = {"gen_ai.input.messages": json.dumps(SENT), "gen_ai.output.messages": json.dumps(SAID)}
    seen = see({"gen_ai.operation.name": "invoke_workflow", "gen_ai.conversation.id": "c", **attributes})
    assert (seen.kind, seen.query, seen.response, seen.session_id) == ("request", "Why?", "Because.", "c")


def test_the_model_that_answered_goes_before_the_one_that_was_asked_for() -> None:
    seen = see(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.response.model": "m-2024",
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.output_tokens": 2,
        }
    )
    assert (seen.model, seen.usage) == ("m-2024", Usage(3, 2, None))


def test_a_span_without_any_key_of_the_convention_is_not_its() -> None:
    span = Span("0" * 32, "1" * 16, attributes={"http.route": "/ask"})
    assert GenAI().observe(span, (record("app.log", "hello"),)) is None


def test_a_span_that_only_carries_the_conversation_is_other() -> None:
    seen = see({"gen_ai.conversation.id": "c", "user.id": "u"})
    assert (seen.kind, seen.session_id, seen.user_id) == ("other", "c", "u")


def test_where_a_limit_has_broken_the_json_of_a_span_its_event_says_what_was_sent() -> None:
    event = record("gen_ai.client.inference.operation.details", None, {"gen_ai.input.messages": SENT})
    broken = json.dumps(SENT)[:60]
    assert see({"gen_ai.operation.name": "chat", "gen_ai.input.messages": broken}, event).messages == CHAT


@pytest.mark.parametrize("mark", ["Context:\n[1] ", ""])
def test_documents_of_a_prompt_that_was_cut_are_never_taken_for_whole(mark: str) -> None:
    build, text = Builder(), "Refunds are granted within 30 days. " * 10
    asked = json.dumps([{"role": "user", "content": "Why?"}])
    root = build.span("ask", {"gen_ai.operation.name": "invoke_workflow", "gen_ai.input.messages": asked})
    found = json.dumps([{"id": "a", "content": text}])[:200]
    build.span("find", {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": found}, root)
    chat = build.span("chat", {"gen_ai.operation.name": "chat"}, root)
    sent: Value = [{"role": "user", "parts": [{"type": "text", "content": (mark + text)[:200]}]}]
    texts: dict[str, Value] = {"gen_ai.input.messages": sent, "gen_ai.output.messages": SAID}
    build.log("gen_ai.client.inference.operation.details", chat, attributes=texts)
    reading = build.read()
    assert (reading.status, reading.case.context_status) == (ReadingStatus.READY, ContextStatus.NOT_RECORDED)
    assert "cuts attribute values at 200 characters" in reading.error


@pytest.mark.parametrize(("failed", "status"), [(True, ContextStatus.RETRIEVED), (False, ContextStatus.NOT_RECORDED)])
def test_what_one_retrieval_found_is_the_context_only_where_the_others_are_known(
    failed: bool, status: ContextStatus
) -> None:
    build, texts = Builder(), {"gen_ai.input.messages": json.dumps(SENT), "gen_ai.output.messages": json.dumps(SAID)}
    root = build.span("ask", {"gen_ai.operation.name": "invoke_workflow"})
    found = json.dumps([{"id": "a", "content": "Refunds take 30 days."}])
    build.span("search", {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": found}, root)
    build.span("web", {"gen_ai.operation.name": "retrieval"}, root, status="error" if failed else "unset")
    build.span("chat", {"gen_ai.operation.name": "chat", **texts}, root)
    assert build.read().case.context_status is status


@pytest.mark.parametrize(("length", "status"), [(200, ReadingStatus.CONTENT_MISSING), (None, ReadingStatus.READY)])
def test_whether_a_prompt_that_was_cut_away_held_documents_stays_open(
    length: int | None, status: ReadingStatus
) -> None:
    build = Builder()
    asked = {"gen_ai.input.messages": json.dumps([{"role": "user", "content": "Why?"}])}
    root = build.span("ask", {"gen_ai.operation.name": "invoke_workflow", **asked})
    sent = json.dumps([{"role": "user", "content": "Tell me why. " * 30}])[:length]
    texts = {"gen_ai.input.messages": sent, "gen_ai.output.messages": json.dumps(SAID)}
    build.span("chat", {"gen_ai.operation.name": "chat", **texts}, root)
    assert build.read().status is status
