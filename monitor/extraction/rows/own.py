"""What `rag-monitor cases` has printed, read again: the same case, word for word."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.extraction import values
from monitor.extraction.rows import fields
from monitor.extraction.rows.fields import Fields, Said
from monitor.model.case import Document, Message, ReadingStatus, Request, Usage
from monitor.model.span import Value

_SOURCES = ("spans", "prompt", "row")
_COUNTS = ("input_tokens", "output_tokens", "total_tokens")


def say(row: Fields) -> Said:
    """Every field of `Case.as_row` and `Reading.as_row`, without looking for structure in the texts."""
    request, usage, response = row.get("request"), row.get("usage"), row.get("response")
    source = next((one for one in _SOURCES if one == row.get("context_source")), "none")
    counts = [values.count(usage.get(key)) for key in _COUNTS] if isinstance(usage, Mapping) else ()
    return Said(
        request=_request(request) if isinstance(request, Mapping) else None,
        response=response if isinstance(response, str) and response else None,
        documents=tuple(
            _document(one) for one in values.elements(row.get("retrieved_context")) or () if isinstance(one, Mapping)
        ),
        context_source=source,  # type: ignore[arg-type] # one of the literals: the line above says so
        expected_response=fields.reference(row.get("expected_response")),
        expected_documents=fields.context(row.get("expected_retrieved_context")),
        usage=Usage(*counts),
        verdict=_verdict(row),
        convention=fields.label(row.get("convention")),
    )


def _request(given: Mapping[str, Value]) -> Request | None:
    query = given.get("query")
    listed = values.elements(given.get("history")) or ()
    turns = [one for one in listed if isinstance(one, Mapping) and one.get("role") in ("user", "assistant")]
    history = (Message(values.text(one.get("role")), values.text(one.get("content"))) for one in turns)
    return Request(query if isinstance(query, str) else "", tuple(history))


def _document(one: Mapping[str, Value]) -> Document:
    content, uri, doc_id = (values.text(one.get(key)) for key in ("content", "doc_uri", "doc_id"))
    return Document(content, uri, doc_id, values.number(one.get("score")))


def _verdict(row: Fields) -> tuple[ReadingStatus, str] | None:
    """What the row says came of it, where that agrees with what it holds: a claim of `ready` is no proof."""
    stated = next((one for one in ReadingStatus if one == row.get("status")), None)
    return (stated, values.text(row.get("error"))) if stated is not None else None
