"""Read OpenTelemetry's own GenAI conventions, all versions: span attributes, one event, a log for each message.

Keys: https://opentelemetry.io/docs/specs/semconv/gen-ai/ (messages in attributes since 1.37, logs as of 1.30).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

from monitor.extraction import documents, messages, prompt, values
from monitor.model.case import Message, Usage
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_Kind = Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]

_KINDS: Final[dict[str, _Kind]] = {
    "chat": "generation",
    "text_completion": "generation",
    "completion": "generation",
    "generate_content": "generation",
    "retrieval": "retrieval",
    "retrieve": "retrieval",
    "retriever": "retrieval",
    "vector_db_retrieve": "retrieval",
    "rerank": "rerank",
    "reranker": "rerank",
    "embeddings": "embedding",
    "embedding": "embedding",
    "execute_tool": "tool",
    "tool": "tool",
    "invoke_agent": "request",
    "invoke_workflow": "request",
    "chain": "request",
}
_Event: TypeAlias = tuple[str, Value, Mapping[str, Value]]

_DETAILS: Final = "gen_ai.client.inference.operation.details"
_MESSAGE_EVENTS: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


class GenAI(Convention):
    """Reads spans with `gen_ai.*` attributes, and the log records that carry their content.

    Many dialects borrow these keys, so they take precedence.
    """

    name: ClassVar[str] = "gen_ai"
    precedence: ClassVar[int] = 90
    record_marks: ClassVar[tuple[bytes, ...]] = (b"gen_ai",)

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """Observe the span and its log records; None if neither has a key of this dialect."""
        logged: list[_Event] = [
            (_event_name(r), r.body if r.body is not None else r.attributes, r.attributes) for r in records
        ]
        logged += [(event.name, event.attributes, event.attributes) for event in span.events]
        logged = [one for one in logged if one[0].startswith("gen_ai.")]
        if not logged and not any(key.startswith("gen_ai.") for key in span.attributes):
            return None
        attributes: dict[str, Value] = {}
        for name, _, of_record in logged:
            if name == _DETAILS:
                attributes |= of_record
        # A length limit breaks the JSON in a span, but only shortens the texts in a structured log record.
        attributes |= {k: v for k, v in span.attributes.items() if k not in attributes or not _is_broken(v)}
        operation = values.text(attributes.get("gen_ai.operation.name")).lower()
        kind = _KINDS.get(operation, "other")
        if kind == "other" and not operation and (logged or "gen_ai.request.model" in attributes):
            kind = "generation"
        observation = Observation(
            kind=kind,
            convention=self.name,
            span=span,
            model=_model(attributes),
            usage=_usage(attributes),
            session_id=_unquoted(values.first(attributes, ("gen_ai.conversation.id", "session.id"))),
            user_id=_unquoted(values.first(attributes, ("user.id", "enduser.id"))),
            error=values.error_of(span),
        )
        return replace(observation, **_content(kind, attributes, logged))


def _is_broken(value: Value) -> bool:
    return isinstance(value, str) and values.broken(value)


def _unquoted(value: Value) -> str:
    """Return an id without quotes: when MLflow writes this dialect, it leaves the application's attributes as JSON."""
    bare = values.unfold(value, 1)
    return bare if isinstance(bare, str) else values.text(value)


def _content(kind: _Kind, attributes: Mapping[str, Value], logged: Sequence[_Event]) -> dict[str, Any]:
    if kind == "generation":
        return _generation(attributes, logged)
    if kind == "request":
        sent = _sent(attributes)
        at = messages.last_user(sent) if sent else -1
        return {
            "query": messages.own_words(sent[at]) if sent and at >= 0 else None,
            "history": messages.turns(sent[:at]) if sent and at >= 0 else None,
            "response": _said(attributes),
        }
    if kind in ("retrieval", "rerank"):
        listed = attributes.get("gen_ai.retrieval.documents")
        found = documents.read(listed) if listed is not None else None
        return {
            "query": values.text(attributes.get("gen_ai.retrieval.query.text")) or None,
            "documents": found,
            "documents_without_text": documents.without_text(found or ()),
        }
    if kind == "tool":
        return {"documents": prompt.of_tool(attributes.get("gen_ai.tool.call.result"))}
    return {}


def _generation(attributes: Mapping[str, Value], logged: Sequence[_Event]) -> dict[str, Any]:
    sent, response = _sent(attributes), _said(attributes)
    if sent is None:
        by_event = tuple(_message(name, body) for name, body, _ in logged if name in _MESSAGE_EVENTS)
        sent = by_event or None
    if response is None:
        choices = [_choice(body) for name, body, _ in logged if name == "gen_ai.choice"]
        response = next((text for text in choices if text is not None), None)
    return {"messages": sent, "response": response}


def _event_name(record: LogRecord) -> str:
    return record.event_name or values.text(record.attributes.get("event.name"))


def _sent(attributes: Mapping[str, Value]) -> tuple[Message, ...] | None:
    sent = messages.read(attributes.get("gen_ai.input.messages"))
    given = attributes.get("gen_ai.system_instructions")
    instructions = messages.text_of(values.unfold(given)) if given is not None else ""
    if instructions and not any(m.role == "system" and m.content == instructions for m in sent or ()):
        return (Message("system", instructions), *(sent or ()))
    return sent


def _said(attributes: Mapping[str, Value]) -> str | None:
    """Return the answer; empty if the model ended without text, None if it called a tool or nothing was sent."""
    put_out = values.unfold(attributes.get("gen_ai.output.messages"))
    said = messages.read(put_out)
    if not said:
        return None
    text = next((m.content for m in reversed(said) if m.content.strip()), "")
    return text if text or _finished(put_out) else None


def _finished(put_out: Value) -> bool:
    listed = values.elements(put_out)
    return bool(listed) and all(isinstance(m, Mapping) and m.get("finish_reason") == "stop" for m in listed or ())


def _message(name: str, body: Value) -> Message:
    return Message(_MESSAGE_EVENTS[name], _body_text(body))


def _choice(body: Value) -> str | None:
    body = _unpacked(body)
    if not isinstance(body, Mapping):
        return None
    text = _body_text(values.first(body, ("message", "gen_ai.event.content")) or body)
    return text if text or body.get("finish_reason") == "stop" else None


def _body_text(body: Value) -> str:
    body = _unpacked(body)
    if isinstance(body, Mapping):
        return messages.text_of(values.first(body, ("content", "gen_ai.prompt", "gen_ai.completion")))
    return messages.text_of(body)


def _unpacked(body: Value) -> Value:
    """Return the body of a span event, which is JSON in one attribute."""
    body = values.unfold(body)
    if isinstance(body, Mapping) and "gen_ai.event.content" in body:
        return values.unfold(body["gen_ai.event.content"])
    return body


def _model(attributes: Mapping[str, Value]) -> str:
    return values.text(values.first(attributes, ("gen_ai.response.model", "gen_ai.request.model")))


def _usage(attributes: Mapping[str, Value]) -> Usage | None:
    given = values.count(values.first(attributes, ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")))
    put_out = values.count(values.first(attributes, ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")))
    total = values.count(attributes.get("gen_ai.usage.total_tokens"))
    return Usage(given, put_out, total) if (given, put_out, total) != (None, None, None) else None
