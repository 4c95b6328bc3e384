"""Read MLflow: spans of its tracing SDK and autologging, sent over OTLP; every attribute is a JSON text.

Keys: https://mlflow.org/docs/latest/genai/tracing/ (`SpanType`, `SpanAttributeKey` of the SDK).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from monitor.extraction import documents, messages, prompt, slices, values
from monitor.model.case import Message, Usage
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_Kind = Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]

_KINDS: Final[dict[str, _Kind]] = {
    "CHAIN": "request",
    "AGENT": "request",
    "WORKFLOW": "request",
    "TASK": "request",
    "UNKNOWN": "request",  # the decorator's default type
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "LLM": "generation",
    "CHAT_MODEL": "generation",
    "TOOL": "tool",
    "EMBEDDING": "embedding",
}
_INPUTS: Final = "mlflow.spanInputs"
_OUTPUTS: Final = "mlflow.spanOutputs"
_CONTENT: Final = (_INPUTS, _OUTPUTS, "mlflow.traceRequestId", "mlflow.chat.")
_CHUNK: Final = "mlflow.chunk.item."
_SENT_KEYS: Final = ("messages", "input", "contents", "prompt", "prompts")
_SYSTEM_KEYS: Final = ("system", "instructions", "system_instruction")
_SESSION_KEYS: Final = ("session_id", "conversation_id", "thread_id")
_USAGE_KEYS: Final = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"), ("total_tokens",))


class MLflow(Convention):
    """Reads spans that carry `mlflow.spanType`."""

    name: ClassVar[str] = "mlflow"
    precedence: ClassVar[int] = 30

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:  # noqa: ARG002 - no logs here
        """Observe the span; None if it has no span type of this dialect."""
        named = _decoded(span.attributes, "mlflow.spanType")
        if not isinstance(named, str):
            return None
        kind = _KINDS.get(named.upper(), "other")
        observation = Observation(
            kind=kind,
            convention=self.name,
            span=span,
            session_id=_session(span.attributes),
            user_id=_user(span.attributes),
            error=values.error_of(span),
            attributes=_facts(span.attributes),
        )
        read = _READERS.get(kind)
        return replace(observation, **read(span)) if read else observation


def _request(span: Span) -> dict[str, Any]:
    given, put_out = _decoded(span.attributes, _INPUTS), _decoded(span.attributes, _OUTPUTS)
    asked = messages.read_request(given)
    state = documents.of_state(put_out)
    asker = _asker(given)
    return {
        "session_id": _session(span.attributes) or values.text(asker.get("conversation_id")),
        "user_id": _user(span.attributes) or values.text(asker.get("user_id")),
        "query": asked.query if asked else None,
        "history": asked.history if asked else None,
        "response": _streamed(span, put_out) or messages.read_answer(put_out),
        "documents": state if state is not None else documents.of_state(given),
    }


def _asker(given: Value) -> Mapping[str, Value]:
    """Return the `context` (session and user) in requests to MLflow's `ResponsesAgent` and `ChatAgent`."""
    outer = given if isinstance(given, Mapping) else {}
    places = (outer.get("request"), outer)
    contexts = (place.get("context") for place in places if isinstance(place, Mapping))
    return next((context for context in contexts if isinstance(context, Mapping)), {})


def _streamed(span: Span, put_out: Value) -> str | None:
    """Join the text of a function that yielded it in pieces: the pieces are in a list, and each produced an event."""
    pieces = values.elements(put_out)
    if not pieces or not any(event.name.startswith(_CHUNK) for event in span.events):
        return None
    texts = [piece for piece in pieces if isinstance(piece, str)]
    return "".join(texts) if len(texts) == len(pieces) else None


def _retrieval(span: Span) -> dict[str, Any]:
    asked = messages.read_request(_decoded(span.attributes, _INPUTS))
    put_out = _decoded(span.attributes, _OUTPUTS)
    found = documents.read(put_out) if put_out is not None else None
    return {
        "query": asked.query if asked else None,
        "documents": found,
        "documents_without_text": documents.without_text(found or ()),
    }


def _generation(span: Span) -> dict[str, Any]:
    put_out = _decoded(span.attributes, _OUTPUTS)
    return {
        "messages": _sent(_decoded(span.attributes, _INPUTS)),
        "response": _streamed(span, put_out) or _said(put_out),
        "model": values.text(_first(span.attributes, ("mlflow.llm.model", "model"))),
        "usage": _usage(_decoded(span.attributes, "mlflow.chat.tokenUsage")) or _usage(_raw_usage(put_out)),
    }


def _sent(given: Value) -> tuple[Message, ...] | None:
    """Return the chat in the arguments of a provider's client; the system prompt may be beside the messages."""
    if not isinstance(given, Mapping):
        return _chat(given)
    sent = next((chat for key in _SENT_KEYS if (chat := _chat(values.unfold(given.get(key))))), None)
    instructions = messages.text_of(values.first(given, _SYSTEM_KEYS))
    return (Message("system", instructions), *(sent or ())) if instructions else sent


def _chat(given: Value) -> tuple[Message, ...] | None:
    if isinstance(given, str):
        return (Message("user", given),) if given.strip() else None
    chat = messages.read(given)
    if chat is None:
        prompts = [text for text in values.elements(given) or () if isinstance(text, str) and text.strip()]
        chat = tuple(Message("user", text) for text in prompts) or None
    return chat


def _said(put_out: Value) -> str | None:
    if isinstance(put_out, Mapping) and values.elements(put_out.get("candidates")):
        put_out = put_out["candidates"]
    return messages.read_answer(put_out)


def _usage(counted: Value) -> Usage | None:
    counts = [values.count(values.first(counted, keys)) for keys in _USAGE_KEYS] if isinstance(counted, Mapping) else []
    return Usage(*counts) if any(count is not None for count in counts) else None


def _raw_usage(put_out: Value) -> Value:
    """Return the token counts in the raw answer of a provider or LangChain: MLflow 2 sets no attribute for them."""
    if not isinstance(put_out, Mapping):
        return None
    of_langchain = put_out.get("llm_output")
    return put_out.get("usage") or (of_langchain.get("token_usage") if isinstance(of_langchain, Mapping) else None)


def _tool(span: Span) -> dict[str, Any]:
    asked = messages.read_request(_decoded(span.attributes, _INPUTS))
    put_out = _decoded(span.attributes, _OUTPUTS)
    return {"query": asked.query if asked else None, "documents": prompt.of_tool(put_out)}


def _session(attributes: Mapping[str, Value]) -> str:
    """Return the session, also from LangChain's metadata: MLflow keeps it with the trace, which OTLP does not carry."""
    return _stated(attributes, ("mlflow.trace.session", "session.id"), _SESSION_KEYS)


def _user(attributes: Mapping[str, Value]) -> str:
    return _stated(attributes, ("mlflow.trace.user", "mlflow.user", "user.id"), ("user_id",))


def _stated(attributes: Mapping[str, Value], keys: tuple[str, ...], of_metadata: tuple[str, ...]) -> str:
    stated = values.text(_first(attributes, keys))
    if stated:
        return stated
    metadata = _decoded(attributes, "metadata")
    return values.text(values.first(metadata, of_metadata)) if isinstance(metadata, Mapping) else ""


def _facts(attributes: Mapping[str, Value]) -> dict[str, str]:
    """Return the short attributes without their JSON quotes."""
    return slices.of_attributes({key: _decoded(attributes, key) for key in attributes if not key.startswith(_CONTENT)})


def _first(attributes: Mapping[str, Value], keys: tuple[str, ...]) -> Value:
    return next((value for key in keys if (value := _decoded(attributes, key)) is not None), None)


def _decoded(attributes: Mapping[str, Value], key: str) -> Value:
    """Decode a value once, as the SDK encoded it: a text that itself looks like JSON stays a text."""
    return values.unfold(attributes.get(key), 1)


_READERS: Final = {
    "request": _request,
    "retrieval": _retrieval,
    "rerank": _retrieval,
    "generation": _generation,
    "tool": _tool,
}
