"""Read the rows that `rag-monitor cases` prints, word for word: the result is the case that was printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from monitor.extraction import slices, values
from monitor.model.case import (
    DOCUMENT_KINDS,
    Case,
    ContextSource,
    ContextStatus,
    Document,
    DocumentKind,
    Message,
    ReadingStatus,
    Request,
    Usage,
)
from monitor.model.span import Value

_SOURCES: Final[tuple[ContextSource, ...]] = ("spans", "prompt", "row", "none")
_COUNTS: Final = ("input_tokens", "output_tokens", "total_tokens")
FIELDS: Final = frozenset(
    {
        *("request_id", "status", "request", "retrieved_context", "context_source", "context_status", "response"),
        *("expected_response", "expected_retrieved_context", "prompt", "model", "usage", "session_id", "user_id"),
        *("app", "span_id", "attributes", "timestamp", "seconds", "convention", "error"),
    }
)
"""The keys of `Reading.as_row`."""

RESULT_FIELDS: Final = frozenset(
    {
        *("schema", "id", "evaluated_at", "answered_at", "trace_id", "source", "evaluator", "version", "outcome"),
        *("reason", "detail", "score", "label", "level", "defect", "explanation", "contradicts", "evidence", "weight"),
        *("second", "recheck", "sampling", "judge", "scope", "origin", "score_source", "traffic", "versions", "used"),
    }
)
"""The keys that a line of `rag-monitor evaluate --texts` adds for the result. They are not part of the case."""


class PrintedCase(NamedTuple):
    """A case as it was printed. `status` is None if the row states none; a stated `ready` is still checked."""

    case: Case
    status: ReadingStatus | None
    error: str


def read(row: Mapping[str, Value]) -> PrintedCase:
    """Return the case of a row. Its id, app and source are left to the caller. Never raises."""
    request, usage, expected = row.get("request"), row.get("usage"), row.get("expected_response")
    documents = _documents(row.get("retrieved_context"))
    stated = next((one for one in ContextStatus if one == row.get("context_status")), None)
    case = Case(
        request_id="",
        request=_request(request) if isinstance(request, Mapping) else Request(),
        retrieved_context=documents or (),
        context_source=next((one for one in _SOURCES if one == row.get("context_source")), "none"),
        context_status=stated or context_status(documents),
        prompt=_messages(row.get("prompt")),
        response=_text(row.get("response")),
        model=values.text(row.get("model")),
        usage=Usage(*(values.count(usage.get(key)) for key in _COUNTS)) if isinstance(usage, Mapping) else Usage(),
        session_id=values.text(row.get("session_id")),
        user_id=values.text(row.get("user_id")),
        span_id=values.text(row.get("span_id")),
        convention=values.text(row.get("convention")),
        attributes=_attributes(row.get("attributes")),
        expected_response=expected if isinstance(expected, str) else None,
        expected_retrieved_context=_documents(row.get("expected_retrieved_context")),
        answered_at=max(values.number(row.get("timestamp")) or 0.0, 0.0),
        seconds=values.number(row.get("seconds")),
    )
    status = next((one for one in ReadingStatus if one == row.get("status")), None)
    return PrintedCase(case, status, values.text(row.get("error")))


def context_status(stated: tuple[Document, ...] | None) -> ContextStatus:
    """Return how a context came about, judging by the documents that a row states; None means it says nothing."""
    if stated is None:
        return ContextStatus.NO_RETRIEVAL
    if all(document.content for document in stated):
        return ContextStatus.RETRIEVED if stated else ContextStatus.RETRIEVED_NOTHING
    return ContextStatus.NOT_RECORDED


def _request(given: Mapping[str, Value]) -> Request:
    return Request(_text(given.get("query")), _messages(given.get("history")))


def _messages(given: Value) -> tuple[Message, ...]:
    listed = [one for one in values.elements(given) or () if isinstance(one, Mapping)]
    return tuple(Message(_text(one.get("role")), _text(one.get("content"))) for one in listed)


def _documents(given: Value) -> tuple[Document, ...] | None:
    listed = values.elements(given)
    return None if listed is None else tuple(_document(one) for one in listed if isinstance(one, Mapping))


def _document(one: Mapping[str, Value]) -> Document:
    content, uri, doc_id = (values.text(one.get(key)) for key in ("content", "doc_uri", "doc_id"))
    kind: DocumentKind = next((known for known in DOCUMENT_KINDS if known == one.get("kind")), "document")
    return Document(content, uri, doc_id, values.number(one.get("score")), kind)


def _attributes(given: Value) -> dict[str, str]:
    found = slices.of_attributes(given) if isinstance(given, Mapping) else {}
    return dict(list(found.items())[: slices.MAX_SLICES])


def _text(given: Value) -> str:
    return given if isinstance(given, str) else ""
