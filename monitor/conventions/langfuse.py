"""Read Langfuse, the dialect of its SDK (v3 to v5), used as a decorator, by hand or through framework handlers.

Keys: https://langfuse.com/integrations/native/opentelemetry (property mapping), `langfuse.observation.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from monitor.conventions import _function as function
from monitor.extraction import documents, messages, prompt, slices, values
from monitor.model.case import Message, Usage
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_Kind = Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]

_KINDS: Final[dict[str, _Kind]] = {
    "span": "request",
    "chain": "request",
    "agent": "request",
    "retriever": "retrieval",
    "generation": "generation",
    "tool": "tool",
    "embedding": "embedding",
}
_TYPE: Final = "langfuse.observation.type"
_INPUT: Final = "langfuse.observation.input"
_OUTPUT: Final = "langfuse.observation.output"
_TRACE_METADATA: Final = "langfuse.trace.metadata."
_USAGE_KEYS: Final = (
    ("input", "prompt_tokens", "input_tokens"),
    ("output", "completion_tokens", "output_tokens"),
    ("total", "total_tokens"),
)


class LangfuseConvention(Convention):
    """Reads spans that carry `langfuse.observation.type`.

    The SDK also sets it on another library's span if that is current when the application updates its observation. So
    dialects with more detail take precedence, and a span of type `span` with `gen_ai.*` keys is left to them.
    """

    name: ClassVar[str] = "langfuse"
    precedence: ClassVar[int] = 70

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:  # noqa: ARG002 - no logs here
        """Observe the span; None if it has no type of this dialect."""
        named = span.attributes.get(_TYPE)
        if not isinstance(named, str):
            return None
        if named.lower() == "span" and any(key.startswith("gen_ai.") for key in span.attributes):
            return None
        kind = _KINDS.get(named.lower(), "other")
        observation = Observation(
            kind=kind,
            convention=self.name,
            span=span,
            session_id=values.text(values.first(span.attributes, ("session.id", "langfuse.session.id"))),
            user_id=values.text(values.first(span.attributes, ("user.id", "langfuse.user.id"))),
            error=_error(span),
            attributes=_metadata(span.attributes),
        )
        read = _READERS.get(kind)
        return replace(observation, **read(span.attributes)) if read else observation


def _error(span: Span) -> str:
    """Return the error, also from the level: applications set it by hand for failures that they have caught."""
    if values.text(span.attributes.get("langfuse.observation.level")).upper() != "ERROR":
        return values.error_of(span)
    message = values.text(span.attributes.get("langfuse.observation.status_message"))
    return message or values.error_of(span) or "error"


def _metadata(attributes: Mapping[str, Value]) -> dict[str, str]:
    """Return the application's metadata of the trace; from v5 on all values are JSON, including texts."""
    found = {
        f"metadata.{key[len(_TRACE_METADATA) :]}": values.text(values.unfold(value, 1))
        for key, value in attributes.items()
        if key.startswith(_TRACE_METADATA)
    }
    return {key: text for key, text in found.items() if text and len(text) <= slices.MAX_LENGTH}


def _request(attributes: Mapping[str, Value]) -> dict[str, Any]:
    given, put_out = values.unfold(attributes.get(_INPUT)), values.unfold(attributes.get(_OUTPUT))
    step = function.documents_step(given, put_out)
    if step is not None:
        return step
    # If an application sets input and output of the trace, those of the span are less useful.
    asked = messages.read_request(attributes.get("langfuse.trace.input")) or function.asked(given)
    answer = messages.read_answer(attributes.get("langfuse.trace.output"))
    state = documents.of_state(put_out)
    return {
        "query": asked.query if asked else None,
        "history": asked.history if asked else None,
        "response": answer if answer is not None else messages.read_answer(put_out),
        "documents": state if state is not None else documents.of_state(given),
    }


def _retrieval(attributes: Mapping[str, Value]) -> dict[str, Any]:
    given, put_out = values.unfold(attributes.get(_INPUT)), attributes.get(_OUTPUT)
    found = documents.read(put_out) if put_out is not None else None
    if found is None and put_out is not None:
        found = documents.read_result(put_out)
    return {
        # There is no type for rerankers: applications often mark them as retrievers.
        "kind": "rerank" if found and function.is_part(found, given) else "retrieval",
        "query": function.query(given),
        "documents": found,
        "documents_without_text": documents.without_text(found or ()),
    }


def _generation(attributes: Mapping[str, Value]) -> dict[str, Any]:
    return {
        "messages": _sent(values.unfold(attributes.get(_INPUT))),
        "response": messages.read_answer(attributes.get(_OUTPUT)),
        "model": values.text(attributes.get("langfuse.observation.model.name")),
        "usage": _usage(attributes),
    }


def _sent(given: Value) -> tuple[Message, ...] | None:
    """Return the chat as sent: a list, a request's `messages`, an argument of a traced function, or a bare prompt."""
    if isinstance(given, list):
        given = [one for one in given if not _defines_tool(one)]
    arguments = function.arguments(given)
    sent = messages.read(arguments)
    if sent is None and isinstance(arguments, Mapping):
        sent = messages.read(arguments.get("query"))
    if sent is not None:
        return sent
    asked = function.asked(given)
    return (*(asked.history or ()), Message("user", asked.query)) if asked else None


def _defines_tool(one: Value) -> bool:
    """Return whether a message defines a tool: LangChain's handler appends these as tool messages without a call id."""
    return (
        isinstance(one, Mapping)
        and one.get("role") == "tool"
        and isinstance(one.get("content"), Mapping)
        and not one.get("tool_call_id")
    )


def _usage(attributes: Mapping[str, Value]) -> Usage | None:
    details = values.unfold(attributes.get("langfuse.observation.usage_details"))
    if not isinstance(details, Mapping):
        return None
    counts = [values.count(values.first(details, keys)) for keys in _USAGE_KEYS]
    return Usage(*counts) if any(count is not None for count in counts) else None


def _tool(attributes: Mapping[str, Value]) -> dict[str, Any]:
    put_out = attributes.get(_OUTPUT)
    return {"query": function.query(values.unfold(attributes.get(_INPUT))), "documents": prompt.of_tool(put_out)}


_READERS: Final = {"request": _request, "retrieval": _retrieval, "generation": _generation, "tool": _tool}
