"""Read lists of documents in every shape that retrievers leave in spans."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from monitor.extraction import values
from monitor.model.case import Document
from monitor.model.span import Value

LIST_KEYS: Final = (
    "documents",
    "docs",
    "source_documents",
    "retrieved_documents",
    "retrieved_context",
    "source_nodes",
    "nodes",
    "contexts",
    "context",
    "results",
    "matches",
    "hits",
    "chunks",
    "passages",
    "points",
    "pages",
    "articles",
    "snippets",
    "sources",
    "outputs",
    "output",
    "data",
)
"""Keys under which a mapping holds its documents, the most specific first."""

_TEXT_KEYS: Final = (
    "page_content",
    "pageContent",
    "content",
    "text",
    "chunk",
    "passage",
    "snippet",
    "excerpt",
    "body",
    "document",
)
_METADATA_TEXT_KEYS: Final = ("text", "page_content", "chunk_text")
"""Keys under which vector stores that hold only metadata keep the text."""

_ID_KEYS: Final = ("doc_id", "document_id", "id", "id_", "_id", "chunk_id", "node_id", "uuid")
_URI_KEYS: Final = (
    "doc_uri",
    "uri",
    "url",
    "source_url",
    "source_uri",
    "source",
    "link",
    "href",
    "file_path",
    "path",
    "file_name",
    "filename",
)
_SCORE_KEYS: Final = ("score", "relevance_score", "similarity", "similarity_score", "rerank_score", "_score")
_WRAPPERS: Final = ("document", "node", "kwargs", "payload", "properties", "_source", "doc", "item", "chunk")
_RESULT_KEYS: Final = ("raw_output", "data", "kwargs", "result", "output", "content", "blocks", "text")
_PLAIN_LISTS: Final = LIST_KEYS.index("sources")
_PARALLEL: Final = ("ids", "metadatas", "distances")
_TEXT_REPR: Final = "page_content|content|text"
_REPR_ID: Final = re.compile(r"\b(?:id_?|doc_id|node_id)='?([^',)\s]+)")
_REPR_SCORE: Final = re.compile(r"\bscore=(-?\d+(?:\.\d+)?(?:e-?\d+)?)")
_HITS: Final = (
    r"(?:results?|documents?|docs|matches|match|passages?|articles?|pages?|hits?|entries|entry|records?|information"
    r"|context)"
)
_NONE_FOUND: Final = re.compile(
    rf"(?:sorry,? )?(?:(?:there (?:are|were)|i|we) )?(?:found )?(?:no|0|zero) (?:[\w-]+ ){{0,3}}?{_HITS}"
    r"(?: (?:were |was |are |is |have been |could be )?(?:found|available|retrieved|returned|matched)\b.{0,80}"
    r"| (?:for|in|on|about|matching) .{1,80})?[.!]?"
    rf"|(?:i |we )?(?:could not|couldn't|did not|didn't) find any(?:thing| {_HITS})?.{{0,60}}"
    r"|nothing (?:was )?found[.!]?|none[.!]?|n/a|null|empty"
    r"|keine (?:ergebnisse|treffer|dokumente).{0,40}|没有找到.{0,20}",
    re.IGNORECASE,
)
_DEPTH: Final = 6
_STATE_KEYS: Final = ("context", "contexts", "documents", "docs", "source_documents", "retrieved_documents")


def read(value: Value) -> tuple[Document, ...] | None:
    """Return the documents in a value, in order; empty if it says that none were found, None if it has none.

    A document sent with only its id has an empty `content`. For plain text the result is None, unless the text is empty
    or says that nothing was found.
    """
    return _read(value, _DEPTH)


def read_result(value: Value) -> tuple[Document, ...] | None:
    """Read the result of a tool as `read` does, bare or in the message that carries it; a text is one document."""
    return _read_result(value, _DEPTH)


def says_none(text: str) -> bool:
    """Return whether a text is a tool's answer without hits: empty, or a short sentence such as `No results.`"""
    stripped = text.strip()
    return not stripped or (len(stripped) <= 120 and _NONE_FOUND.fullmatch(stripped) is not None)  # noqa: PLR2004


def address(item: Value) -> str:
    """Return the address of the document that a mapping describes, from it or its metadata; empty if it names none."""
    if not isinstance(item, Mapping):
        return ""
    metadata = values.unfold(values.first(item, ("metadata", "meta", "extra_info")))
    return _field((item, metadata) if isinstance(metadata, Mapping) else (item,), _URI_KEYS)


def without_text(documents: Sequence[Document]) -> int:
    """Return the number of documents that were sent without their text."""
    return sum(not document.content for document in documents)


def _read_result(value: Value, depth: int) -> tuple[Document, ...] | None:
    unfolded = values.unfold(value)
    if isinstance(unfolded, str):
        if says_none(unfolded):
            return ()
        return (Document(unfolded.strip()),) if values.usable(unfolded) and not values.is_repr(unfolded) else None
    if isinstance(unfolded, Mapping) and depth > 0 and not any(key in unfolded for key in LIST_KEYS[:_PLAIN_LISTS]):
        for key in _RESULT_KEYS:
            if unfolded.get(key) is not None:
                found = _read_result(unfolded[key], depth - 1)
                if found is not None:
                    return found
    return read(unfolded)


def _read(value: Value, depth: int) -> tuple[Document, ...] | None:
    value = values.unfold(value)
    if isinstance(value, str):
        one = _from_repr(value) if values.is_repr(value) else None
        return (one,) if one else () if says_none(value) else None
    if isinstance(value, Mapping):
        return _from_mapping(value, depth)
    listed = values.elements(value)
    return None if listed is None else _from_list(listed, depth)


def _from_mapping(value: Mapping[str, Value], depth: int) -> tuple[Document, ...] | None:
    if depth <= 0:
        return None
    if isinstance(value.get("documents"), (list, tuple)) and any(key in value for key in _PARALLEL):
        return _from_columns(value)
    single = _one(value, depth)
    if single is not None and single.content:
        return (single,)
    for key in LIST_KEYS:
        inner = values.unfold(value.get(key))
        if isinstance(inner, (list, tuple, Mapping)):
            found = _read(inner, depth - 1)
            if found is not None:
                return found
    return None


def _from_list(listed: Sequence[Value], depth: int) -> tuple[Document, ...] | None:
    if depth <= 0:
        return None
    found: list[Document] = []
    for item in listed:
        pair = values.elements(item)
        if pair is not None:  # (document, score), or the hits of one query among several
            found += _with_score(pair, depth)
            continue
        document = _one(item, depth)
        if document is not None:
            found.append(document)
    return None if listed and not found else tuple(found)


def _with_score(pair: Sequence[Value], depth: int) -> tuple[Document, ...]:
    score = values.number(pair[1]) if len(pair) == 2 and not isinstance(pair[1], str) else None  # noqa: PLR2004
    document = _one(pair[0], depth) if score is not None else None
    if document is not None:
        return (Document(document.content, document.doc_uri, document.doc_id, score),)
    return _from_list(pair, depth - 1) or ()


def _from_columns(value: Mapping[str, Value]) -> tuple[Document, ...]:
    """Read a vector store's parallel columns: `documents`, `ids`, `metadatas`, each with one inner list per query."""
    columns = {key: _flat(values.elements(value.get(key)) or ()) for key in ("documents", *_PARALLEL)}
    found = []
    for at, content in enumerate(columns["documents"]):
        rest = {key: column[at] for key, column in columns.items() if at < len(column)}
        metadata = rest.get("metadatas")
        merged: dict[str, Value] = {"text": content, "metadata": metadata if isinstance(metadata, Mapping) else None}
        document = _one(merged if isinstance(content, str) else content, 2)
        if document is not None:
            doc_id = values.text(rest.get("ids")) or document.doc_id
            found.append(Document(document.content, document.doc_uri, doc_id, document.score))
    return tuple(found)


def _flat(column: Sequence[Value]) -> Sequence[Value]:
    if column and all(isinstance(inner, (list, tuple)) for inner in column):
        return [item for inner in column for item in (values.elements(inner) or ())]
    return column


def _one(item: Value, depth: int) -> Document | None:
    """Read one document from a value, its metadata and the objects that it wraps; None if it is not a document."""
    item = values.unfold(item)
    if isinstance(item, str):
        if values.is_repr(item):
            return _from_repr(item)
        return Document(item) if item.strip() and values.usable(item) else None
    if not isinstance(item, Mapping) or depth <= 0:
        return None
    content = _content(item)
    inner = None if content else _wrapped(item, depth)
    if inner is not None and len(item) == 1:
        return inner  # the wrapper holds nothing else
    metadata = values.unfold(values.first(item, ("metadata", "meta", "extra_info")))
    places = (item, metadata) if isinstance(metadata, Mapping) else (item,)
    doc_id, uri, score = _field(places, _ID_KEYS), _field(places, _URI_KEYS), _score(places)
    if inner is not None:
        content, doc_id, uri = inner.content, doc_id or inner.doc_id, uri or inner.doc_uri
        score = inner.score if score is None else score
    elif not content and isinstance(metadata, Mapping):
        content = _content(metadata, _METADATA_TEXT_KEYS)
    if not content and not doc_id and not (uri and score is not None):
        return None
    return Document(content, uri, doc_id, score)


def _wrapped(item: Mapping[str, Value], depth: int) -> Document | None:
    for key in _WRAPPERS:
        wrapped = values.unfold(item.get(key))
        inner = _one(wrapped, depth - 1) if isinstance(wrapped, Mapping) else None
        if inner is not None:
            return inner
    return None


def _content(item: Mapping[str, Value], keys: Sequence[str] = _TEXT_KEYS) -> str:
    for key in keys:
        raw = item.get(key)
        if raw is None:
            continue
        parts = values.elements(values.unfold(raw))
        if parts:
            texts = [p if isinstance(p, str) else _content(p) for p in parts if isinstance(p, (str, Mapping))]
            if any(texts):
                return "\n".join(filter(None, texts))
        if isinstance(raw, str) and raw.strip() and values.usable(raw):
            return raw
    return ""


def _field(places: Sequence[Mapping[str, Value]], keys: Sequence[str]) -> str:
    for place in places:
        for key in () if place.keys().isdisjoint(keys) else keys:
            found = values.text(place.get(key))
            if found:
                return found
    return ""


def _score(places: Sequence[Mapping[str, Value]]) -> float | None:
    for place in places:
        for key in () if place.keys().isdisjoint(_SCORE_KEYS) else _SCORE_KEYS:
            found = values.number(place.get(key))
            if found is not None:
                return found
    return None


def _from_repr(text: str) -> Document | None:
    """Read a Python repr such as `NodeWithScore(node=TextNode(id_='a', text='...'), score=0.3)`."""
    content = values.repr_field(text, _TEXT_REPR) or ""
    text = values.without_field(text, _TEXT_REPR)
    doc_id = _REPR_ID.search(text[: values.MAX_REPR])
    score = _REPR_SCORE.search(text[-200:])
    if not content and doc_id is None:
        return None
    uri = values.repr_field(text.replace("': '", "='"), "|".join(_URI_KEYS)) or ""
    return Document(content, uri, doc_id[1] if doc_id else "", values.number(score[1]) if score else None)


def of_state(state: Value) -> tuple[Document, ...] | None:
    """Return the documents in the state of a chain or function; None if it has none under a usual name."""
    if not isinstance(state, Mapping):
        return None
    for place in (state, state.get("kwargs"), state.get("inputs")):
        for key in _STATE_KEYS if isinstance(place, Mapping) else ():
            held = values.unfold(place.get(key))  # type: ignore[union-attr] # a mapping: the line above says so
            if isinstance(held, (list, tuple)):
                return read(held)
    return None
