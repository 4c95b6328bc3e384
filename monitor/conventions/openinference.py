"""Read OpenInference, the dialect of Arize's instrumentations (LangChain, LlamaIndex, DSPy, Haystack and others).

Keys: https://github.com/Arize-ai/openinference/blob/main/spec/semantic_conventions.md
DSPy writes prompts and answers as fields: `[[ ## question ## ]]` on its own line, then the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal

from monitor.extraction import documents, evidence, messages, prompt, values
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
_MODEL_KEYS: Final = ("llm.response.model_name", "llm.model_name", "llm.request.model_name")
_TELLING: Final = {
    "retrieval.documents.": "RETRIEVER",
    "reranker.output_documents.": "RERANKER",
    "llm.input_messages.": "LLM",
    "llm.output_messages.": "LLM",
}
_FIELD: Final = "[[ ## "
"""The start of a field; a text without it has no fields."""

_FIELD_MARK: Final = re.compile(r"^\[\[ ## (\w{1,80}) ## \]\][ \t]*\n?", re.MULTILINE)
_FIELD_REQUEST: Final = "\nRespond with the corresponding output fields, starting with "
_NO_ANSWER: Final = ("reasoning", "rationale", "completed")


class OpenInference(Convention):
    """Reads spans that carry `openinference.span.kind`."""

    name: ClassVar[str] = "openinference"
    precedence: ClassVar[int] = 20

    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:  # noqa: ARG002 - no logs here
        """Observe the span; None if it has no span kind of this dialect."""
        named = _named(span)
        if named is None:
            return None
        kind = _KINDS.get(named.upper(), "other")
        read = _READERS.get(kind)
        fields = read(span) if read is not None else {}
        return Observation(
            kind=fields.pop("kind", kind),
            convention=self.name,
            span=span,
            session_id=values.text(span.attributes.get("session.id")),
            user_id=values.text(span.attributes.get("user.id")),
            error=values.error_of(span),
            **fields,
        )


def _named(span: Span) -> str | None:
    """Return the kind of the span, or infer it from the keys if the SDK dropped that attribute."""
    named = span.attributes.get("openinference.span.kind")
    if isinstance(named, str):
        return named
    shown = (kind for prefix, kind in _TELLING.items() if any(key.startswith(prefix) for key in span.attributes))
    return next(shown, None) if span.dropped_attributes else None


def _request(span: Span) -> dict[str, Any]:
    given = values.unfold(span.attributes.get("input.value"))
    put_out = values.unfold(span.attributes.get("output.value"))
    filtered = _filtered(given, put_out) if isinstance(put_out, list) else None
    if filtered is not None:
        return {"kind": "rerank", "documents": filtered, "documents_without_text": documents.without_text(filtered)}
    asked = messages.read_request(given)
    state = documents.of_state(put_out)
    return {
        "query": asked.query if asked else None,
        "history": asked.history if asked else None,
        "response": messages.read_answer(put_out),
        "documents": state if state is not None else documents.of_state(given),
    }


def _filtered(given: Value, put_out: list[Value]) -> tuple[Document, ...] | None:
    """Read a step that takes documents and returns some of them: a postprocessor, a filter, a reorderer."""
    is_cut = isinstance(given, str) and values.broken(given)
    taken = values.unfold_cut(given) if is_cut else given
    if isinstance(taken, Mapping):
        taken = values.first(taken, ("nodes", "documents", "docs"))
    before = documents.read(taken) if isinstance(taken, list) else None
    after = documents.read(put_out) if before else None
    return after if before and after is not None and (is_cut or evidence.within(after, before)) else None


def _retrieval(span: Span) -> dict[str, Any]:
    found = _documents(span, "retrieval.documents")
    asked = messages.read_request(span.attributes.get("input.value"))
    return {"query": asked.query if asked else None, **found}


def _rerank(span: Span) -> dict[str, Any]:
    query = values.text(span.attributes.get("reranker.query"))
    return {"query": query or None, **_documents(span, "reranker.output_documents")}


def _documents(span: Span, prefix: str) -> dict[str, Any]:
    """Return the documents of a span, from its output if that is more complete.

    At its attribute limit an SDK drops the earliest attributes (Python) or the latest (JavaScript): missing documents
    leave a gap in the indexes, or only a count of dropped attributes.
    """
    listed = values.unflatten(span.attributes, prefix)
    put_out = span.attributes.get("output.value")
    output = documents.read(put_out) if put_out is not None else None
    found = documents.read(listed) if listed is not None else output
    lost = max(listed.count(None), int(span.dropped_attributes > 0)) if listed else 0
    if lost and found and output and not documents.without_text(output) and evidence.within(found, output):
        found, lost = output, 0
    elif found and output and len(output) == len(found):
        found = tuple(_completed(one, other) for one, other in zip(found, output, strict=True))
    return {"documents": found, "documents_without_text": documents.without_text(found or ()) + lost}


def _completed(document: Document, other: Document) -> Document:
    """Complete a document from the output: LangChain's retriever spans have the id only there."""
    if document.content != other.content:
        return document
    return replace(
        document,
        doc_id=other.doc_id or document.doc_id,
        doc_uri=document.doc_uri or other.doc_uri,
        score=document.score if document.score is not None else other.score,
    )


def _generation(span: Span) -> dict[str, Any]:
    attributes = span.attributes
    usage = _usage(attributes)
    answered = messages.read(values.unflatten(attributes, "llm.output_messages") or ())
    sent = _sent(span, answered is not None)
    model = values.text(values.first(attributes, _MODEL_KEYS))
    put_out = values.unfold(attributes.get("output.value"))
    makes_a_prompt = isinstance(put_out, Mapping) and "messages" in put_out
    if sent is None and answered is None and usage is None and (not model or makes_a_prompt):
        # A framework's helper around the call, marked as LLM although it calls no model.
        return {"kind": "other"}
    response = None
    if answered is not None:
        said = [m.content for m in answered if m.role == "assistant"]
        response = next((text for text in reversed(said) if text.strip()), None)
    else:
        response = messages.read_answer(put_out) or None
    if response and _FIELD in response:
        response = dspy_answer(response)
    if sent and any(_FIELD in message.content for message in sent):
        sent = dspy_plain(sent)
    return {"messages": sent or None, "response": response, "model": model, "usage": usage}


def _sent(span: Span, answered: bool) -> tuple[Message, ...] | None:
    """Return the chat as sent; if an SDK dropped a part of it, take it from the input, or return None.

    The answer is set last: an answer without the end of the chat means that the earliest attributes were dropped.
    """
    listed = values.unflatten(span.attributes, "llm.input_messages")
    chat = messages.read(listed) if listed else None
    if span.dropped_attributes and (listed is None or len(chat or ()) < len(listed) or not answered):
        return messages.read(span.attributes.get("input.value"))
    return chat


def _usage(attributes: Mapping[str, Value]) -> Usage | None:
    counts = [values.count(attributes.get(f"llm.token_count.{part}")) for part in ("prompt", "completion", "total")]
    return Usage(*counts) if counts != [None, None, None] else None


def _tool(span: Span) -> dict[str, Any]:
    asked = messages.read_request(span.attributes.get("input.value"))
    put_out = span.attributes.get("output.value")
    return {"query": asked.query if asked else None, "documents": prompt.of_tool(put_out)}


_READERS: Final = {
    "request": _request,
    "retrieval": _retrieval,
    "rerank": _rerank,
    "generation": _generation,
    "tool": _tool,
}


def dspy_fields(text: str) -> dict[str, str]:
    """Return the fields of a text, in order; empty if it has none. Text before the first field is left out."""
    marks = list(_FIELD_MARK.finditer(text)) if _FIELD in text else []
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return {mark[1]: text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=False)}


def dspy_answer(text: str) -> str:
    """Return the answer in a model's reply: the field with that name, else the only field, else the whole reply."""
    found = {name: said for name, said in dspy_fields(text).items() if name not in _NO_ANSWER}
    return found.get("answer") or (next(iter(found.values())) if len(found) == 1 else text)


def dspy_plain(chat: Sequence[Message]) -> tuple[Message, ...]:
    """Replace the fields in a chat with their text. If the last question has several, they stay: one is the context."""
    asking = messages.last_user(chat)
    return tuple(_dspy_plain(message, last=at == asking) for at, message in enumerate(chat))


def _dspy_plain(message: Message, *, last: bool) -> Message:
    if message.role not in ("user", "assistant") or not dspy_fields(message.content):
        return message
    if message.role == "assistant":
        return replace(message, content=dspy_answer(message.content))
    before, request, after = message.content.rpartition(_FIELD_REQUEST)
    content = before.rstrip() if request and "\n" not in after.strip() else message.content
    found = dspy_fields(content)
    if len(found) == 1:
        return replace(message, content=next(iter(found.values())))
    return replace(message, content=content if last else found.get("question", content))
