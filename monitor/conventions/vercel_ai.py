"""Read the Vercel AI SDK's `ai.*` spans: the outer call, the single model calls and the tools.

Keys: https://ai-sdk.dev/docs/ai-sdk-core/telemetry
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from monitor.extraction import documents, messages, prompt, slices, values
from monitor.model.case import Document, Message, Usage
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_Kind = Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]

_REQUESTS: Final = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_METADATA: Final = ("ai.telemetry.metadata.", "ai.settings.context.")
_ANSWERS: Final = ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object")


class VercelAI(Convention):
    """Reads spans that carry `ai.operationId`, and rerankings of version 7, whose other spans `gen_ai` reads."""

    name: ClassVar[str] = "vercel_ai"
    precedence: ClassVar[int] = 45

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:  # noqa: ARG002 - no logs here
        """Observe the span; None if it is not an operation of the SDK."""
        attributes = span.attributes
        operation = values.text(attributes.get("ai.operationId")) or _unnamed(attributes)
        if not operation.startswith("ai."):
            return None
        kind = _kind(operation)
        observation = Observation(
            kind=kind,
            convention=self.name,
            span=span,
            session_id=_id_of(attributes, "session"),
            user_id=_id_of(attributes, "user"),
            error=values.error_of(span),
            attributes=slices.of_attributes({"metadata": _metadata(attributes)}),
        )
        return replace(observation, **_content(kind, attributes))


def _unnamed(attributes: Mapping[str, Value]) -> str:
    """Recognise a reranking of version 7, which uses OpenTelemetry's keys except for its input and output."""
    return "ai.rerank" if {"ai.documents", "ai.ranking"} & attributes.keys() else ""


def _kind(operation: str) -> _Kind:
    """Return the role of a span: a model call is a `do...` span in an outer span: `ai.generateText.doGenerate`."""
    if operation in _REQUESTS:
        return "request"
    if operation.startswith("ai.embed"):
        return "embedding"
    if operation.startswith("ai.rerank"):
        return "rerank"
    if operation == "ai.toolCall":
        return "tool"
    return "generation" if operation.startswith(_REQUESTS) else "other"


def _content(kind: _Kind, attributes: Mapping[str, Value]) -> dict[str, Any]:
    if kind == "request":
        asked = messages.read_request(attributes.get("ai.prompt"))
        return {
            "query": asked.query if asked else None,
            "history": asked.history if asked else None,
            "response": _answer(attributes),
            "usage": _usage(attributes),
        }
    if kind == "generation":
        return {
            "messages": _sent(attributes),
            "response": _answer(attributes),
            "model": values.text(
                values.first(attributes, ("ai.response.model", "gen_ai.response.model", "ai.model.id"))
            ),
            "usage": _usage(attributes),
        }
    if kind == "tool":
        asked = messages.read_request(attributes.get("ai.toolCall.args"))
        return {
            "query": asked.query if asked else None,
            "documents": prompt.of_tool(attributes.get("ai.toolCall.result")),
        }
    return {"documents": _ranked(attributes)} if kind == "rerank" else {}


def _ranked(attributes: Mapping[str, Value]) -> tuple[Document, ...] | None:
    """Return a reranker's documents in the order of its ranking, which refers to them by index."""
    given, ranking = (values.elements(attributes.get(key)) for key in ("ai.documents", "ai.ranking"))
    if given is None or ranking is None:
        return None
    found: list[Document] = []
    for unread in ranking:
        place = values.unfold(unread)
        if not isinstance(place, Mapping):
            continue
        at = values.count(values.first(place, ("index", "originalIndex")))
        score = values.number(values.first(place, ("relevanceScore", "score")))
        ranked = documents.read([given[at]]) if at is not None and at < len(given) else None
        found += [replace(one, score=score) for one in ranked or ()]
    return tuple(found) if found or not ranking else None


def _sent(attributes: Mapping[str, Value]) -> tuple[Message, ...] | None:
    listed = values.elements(values.unfold(attributes.get("ai.prompt.messages")))
    return messages.read(listed) if listed is not None else None


def _answer(attributes: Mapping[str, Value]) -> str | None:
    """Return the text of the answer, or the object as written; empty if the model stopped without text."""
    text = next((text for key in _ANSWERS if (text := values.text(attributes.get(key))).strip()), None)
    if (
        text is None
        and attributes.get("ai.response.finishReason") == "stop"
        and not attributes.get("ai.response.toolCalls")
    ):
        return "" if "ai.response.text" in attributes else None
    return text


def _usage(attributes: Mapping[str, Value]) -> Usage | None:
    given = values.count(values.first(attributes, ("ai.usage.inputTokens", "ai.usage.promptTokens")))
    put_out = values.count(values.first(attributes, ("ai.usage.outputTokens", "ai.usage.completionTokens")))
    total = values.count(attributes.get("ai.usage.totalTokens"))
    return Usage(given, put_out, total) if (given, put_out, total) != (None, None, None) else None


def _metadata(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return the application's metadata of a call, without user and session ids, which are not slices."""
    return {
        name: value
        for key, value in attributes.items()
        if (name := _name(key)) and _folded(name) not in ("sessionid", "userid")
    }


def _id_of(attributes: Mapping[str, Value], whom: str) -> str:
    """Return the id of a session or a user, also from metadata: the SDK has no key for it."""
    stated = values.text(attributes.get(f"{whom}.id"))
    for key, value in attributes.items():
        if not stated and _folded(_name(key)) == f"{whom}id":
            stated = values.text(value)
    return stated


def _name(key: str) -> str:
    """Return the application's name for an entry of metadata or (version 7) runtime context; empty for other keys."""
    return next((key.removeprefix(prefix) for prefix in _METADATA if key.startswith(prefix)), "")


def _folded(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
