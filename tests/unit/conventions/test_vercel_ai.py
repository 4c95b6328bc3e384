"""The Vercel AI SDK: what one span says."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from monitor.conventions.vercel_ai import VercelAI
from monitor.model.case import Document, Message, Usage
from monitor.model.span import Span, Value
from monitor.stages import Observation


def see(operation: str, attributes: Mapping[str, Value] | None = None) -> Observation:
    span = Span("0" * 32, "1" * 16, attributes={"ai.operationId": operation, **(attributes or {})})
    found = VercelAI().observe(span, ())
    assert found is not None
    return found


def test_a_span_without_an_operation_of_the_sdk_is_not_this_dialects() -> None:
    for attributes in ({}, {"ai.prompt": "x"}, {"ai.operationId": 3}, {"ai.operationId": "other"}):
        span = Span("0" * 32, "1" * 16, attributes=attributes)
        assert VercelAI().observe(span, ()) is None


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("ai.generateText", "request"),
        ("ai.streamObject", "request"),
        ("ai.generateText.doGenerate", "generation"),
        ("ai.streamText.doStream", "generation"),
        ("ai.toolCall", "tool"),
        ("ai.embed.doEmbed", "embedding"),
        ("ai.rerank", "rerank"),
        ("ai.unheard", "other"),
    ],
)
def test_the_operation_is_the_role(operation: str, kind: str) -> None:
    assert see(operation).kind == kind


def test_the_outer_span_states_question_history_and_answer() -> None:
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    asked = {
        "system": "Be brief.",
        "messages": [*chat, {"role": "user", "content": [{"type": "text", "text": "Why?"}]}],
    }
    seen = see("ai.generateText", {"ai.prompt": json.dumps(asked), "ai.response.text": "So."})
    assert (seen.query, seen.response) == ("Why?", "So.")
    assert seen.history == (Message("user", "Hi"), Message("assistant", "Hello"))
    assert see("ai.streamText", {"ai.prompt": '{"system": "Be brief.", "prompt": "Why?"}'}).query == "Why?"


def test_a_call_says_messages_answer_model_and_tokens() -> None:
    result = {"type": "tool-result", "output": {"type": "text", "value": "Found."}}
    sent = [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}, {"role": "tool", "content": [result]}]
    seen = see(
        "ai.generateText.doGenerate",
        {
            "ai.prompt.messages": json.dumps(sent),
            "ai.model.id": "m",
            "ai.response.model": "m-1",
            "ai.response.text": "So.",
            "ai.usage.inputTokens": 3,
            "ai.usage.outputTokens": 2,
        },
    )
    assert seen.messages == (Message("user", "Why?"), Message("tool", "Found."))
    assert (seen.response, seen.model, seen.usage) == ("So.", "m-1", Usage(3, 2, None))


def test_a_call_that_asks_for_tools_has_no_answer() -> None:
    seen = see("ai.streamText.doStream", {"ai.response.text": "", "ai.response.finishReason": "tool-calls"})
    assert seen.response is None
    assert see("ai.streamText", {"ai.response.text": "", "ai.response.finishReason": "stop"}).response == ""


def test_a_tool_gives_what_it_found() -> None:
    told: dict[str, Value] = {
        "ai.toolCall.args": '{"query": "Why?"}',
        "ai.toolCall.result": '[{"id": "a", "text": "One"}]',
    }
    seen = see("ai.toolCall", told)
    assert (seen.query, seen.documents) == ("Why?", (Document("One", "", "a"),))
    assert see("ai.toolCall").documents is None


def test_a_ranking_orders_the_documents_that_it_was_given() -> None:
    ranking = ['{"index": 2, "relevanceScore": 0.9}', '{"index": 0, "relevanceScore": 0.1}', '{"index": 7}', "x"]
    seen = see("ai.rerank.doRerank", {"ai.documents": ['"One"', '"Two"', '{"text": "Three"}'], "ai.ranking": ranking})
    assert seen.documents == (Document("Three", score=0.9), Document("One", score=0.1))
    assert see("ai.rerank", {"ai.documents": ['"One"']}).documents is None


def test_a_ranking_is_known_without_an_operation_of_the_sdk() -> None:
    told: dict[str, Value] = {"ai.documents": ['"One"'], "ai.ranking": ['{"index": 0, "relevanceScore": 0.5}']}
    span = Span("0" * 32, "1" * 16, attributes={"gen_ai.operation.name": "rerank", **told})
    seen = VercelAI().observe(span, ())
    assert seen is not None
    assert (seen.kind, seen.documents) == ("rerank", (Document("One", score=0.5),))


def test_the_documents_that_a_tool_wrote_into_one_text_are_taken_apart() -> None:
    told: dict[str, Value] = {"ai.toolCall.result": '"[1] One\\n[2] Two"'}
    assert see("ai.toolCall", told).documents == (Document("One"), Document("Two"))


def test_sessions_and_users_stand_in_the_applications_metadata() -> None:
    told: dict[str, Value] = {"ai.telemetry.metadata.session_id": "s", "ai.telemetry.metadata.userId": "u"}
    seen = see("ai.generateText", {**told, "ai.telemetry.metadata.tenant": "acme"})
    assert (seen.session_id, seen.user_id, seen.attributes) == ("s", "u", {"metadata.tenant": "acme"})
    since_7: dict[str, Value] = {"ai.settings.context.sessionId": "s", "ai.settings.context.tier": "gold"}
    seen = see("ai.generateText", since_7)
    assert (seen.session_id, seen.attributes) == ("s", {"metadata.tier": "gold"})
