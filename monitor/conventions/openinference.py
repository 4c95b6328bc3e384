"""OpenInference: the dialect of Arize's instrumentations (LangChain, LlamaIndex, DSPy, Haystack and others).

Keys: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from monitor.content import cut, documents, evidence, exchange, failures, messages, values
from monitor.model.case import Document, Message, Usage
from monitor.model.span import LogRecord, Span, Value
from monitor.stages import Convention, Observation

_Kind = Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]

_KINDS: Final[dict[str, _Kind]] = {
    "CHAIN": "request",
    "AGENT": "request",
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "LLM": "generation",
    "TOOL": "tool",
    "EMBEDDING": "embedding",
}


class OpenInference(Convention):
    """Reads spans that carry `openinference.span.kind`."""

    name: ClassVar[str] = "openinference"
    precedence: ClassVar[int] = 20

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:  # noqa: ARG002 - no logs here
        """What the span says; None where it has no span kind of this dialect."""
        named = span.attributes.get("openinference.span.kind")
        if not isinstance(named, str):
            return None
        kind = _KINDS.get(named.upper(), "other")
        observation = Observation(
            kind=kind,
            convention=self.name,
            span=span,
            session_id=values.text(span.attributes.get("session.id")),
            user_id=values.text(span.attributes.get("user.id")),
            error=failures.of_span(span),
        )
        read = _READERS.get(kind)
        return replace(observation, **read(span.attributes)) if read else observation


def _request(attributes: Mapping[str, Value]) -> dict[str, Any]:
    given, put_out = values.unfold(attributes.get("input.value")), values.unfold(attributes.get("output.value"))
    filtered = _filtered(given, put_out)
    if filtered is not None:
        return {"kind": "rerank", "documents": filtered, "documents_without_text": documents.without_text(filtered)}
    asked = exchange.read_request(given)
    state = documents.of_state(put_out)
    return {
        "query": asked.query if asked else None,
        "history": asked.history if asked else None,
        "response": exchange.read_answer(put_out),
        "documents": state if state is not None else documents.of_state(given),
    }


def _filtered(given: Value, put_out: Value) -> tuple[Document, ...] | None:
    """The output of a step that takes documents and gives some of them back: a postprocessor, a filter, a reorderer."""
    if not isinstance(put_out, list):
        return None
    is_cut = isinstance(given, str) and cut.broken(given)
    taken = values.unfold_cut(given) if is_cut else given
    if isinstance(taken, Mapping):
        taken = values.first(taken, ("nodes", "documents", "docs"))
    before = documents.read(taken) if isinstance(taken, list) else None
    after = documents.read(put_out) if before else None
    return after if before and after is not None and (is_cut or evidence.within(after, before)) else None


def _retrieval(attributes: Mapping[str, Value]) -> dict[str, Any]:
    asked = exchange.read_request(attributes.get("input.value"))
    listed = values.unflatten(attributes, "retrieval.documents")
    put_out = attributes.get("output.value")
    told = documents.read(put_out) if put_out is not None else None
    found = documents.read(listed) if listed is not None else told
    missing = listed.count(None) if listed else 0
    if found and told and len(told) == len(found):
        found = tuple(_completed(one, other) for one, other in zip(found, told, strict=True))
    return {
        "query": asked.query if asked else None,
        "documents": found,
        "documents_without_text": documents.without_text(found or ()) + missing,
    }


def _completed(document: Document, other: Document) -> Document:
    """LangChain's retriever spans carry the id of a document only in the output."""
    if document.content != other.content:
        return document
    return replace(
        document,
        doc_id=other.doc_id or document.doc_id,
        doc_uri=document.doc_uri or other.doc_uri,
        score=document.score if document.score is not None else other.score,
    )


def _rerank(attributes: Mapping[str, Value]) -> dict[str, Any]:
    listed = values.unflatten(attributes, "reranker.output_documents")
    put_out = attributes.get("output.value")
    found = documents.read(listed) if listed is not None else documents.read(put_out) if put_out is not None else None
    return {
        "query": values.text(attributes.get("reranker.query")) or None,
        "documents": found,
        "documents_without_text": documents.without_text(found or ()) + (listed.count(None) if listed else 0),
    }


def _generation(attributes: Mapping[str, Value]) -> dict[str, Any]:
    sent = _messages(attributes, "llm.input_messages")
    answered = _messages(attributes, "llm.output_messages")
    model = values.text(attributes.get("llm.model_name"))
    usage = _usage(attributes)
    if sent is None and answered is None and not model and usage is None:
        # A framework's own helper around the answer, marked as LLM although it calls no model.
        return {"kind": "other"}
    response = None
    if answered is not None:
        said = [m.content for m in answered if m.role == "assistant"]
        response = next((text for text in reversed(said) if text.strip()), None)
    if response is None and answered is None:
        response = exchange.read_answer(attributes.get("output.value"))
    return {"messages": sent, "response": response, "model": model, "usage": usage}


def _messages(attributes: Mapping[str, Value], prefix: str) -> tuple[Message, ...] | None:
    listed = values.unflatten(attributes, prefix)
    return messages.read(listed) if listed else None


def _usage(attributes: Mapping[str, Value]) -> Usage | None:
    counts = [values.count(attributes.get(f"llm.token_count.{part}")) for part in ("prompt", "completion", "total")]
    return Usage(*counts) if any(count is not None for count in counts) else None


def _tool(attributes: Mapping[str, Value]) -> dict[str, Any]:
    asked = exchange.read_request(attributes.get("input.value"))
    put_out = attributes.get("output.value")
    return {
        "query": asked.query if asked else None,
        "documents": documents.read_result(put_out) if put_out is not None else None,
    }


_READERS: Final = {
    "request": _request,
    "retrieval": _retrieval,
    "rerank": _rerank,
    "generation": _generation,
    "tool": _tool,
}
