"""Read the arguments and results of traced functions: positional arguments, and documents in both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from monitor.extraction import documents, evidence, messages, values
from monitor.model.case import Document
from monitor.model.span import Value

_ID: Final = re.compile(r"(?=[^\s]*[0-9_@:/.-])[A-Za-z0-9_@:/.+-]{1,200}")


def arguments(given: Value) -> Value:
    """Name positional arguments, which are sent as `{"args": [], "kwargs": {}}` or as a bare list.

    The first is read as the question and the second as the conversation, unless named arguments override them. Ids and
    objects before a question in words are skipped.
    """
    named: Value = None
    if isinstance(given, Mapping) and given and given.keys() <= {"args", "kwargs"}:
        placed, named = values.elements(given.get("args")) or (), given.get("kwargs")
    elif isinstance(given, list) and given and isinstance(given[0], str):
        placed = values.elements(given) or ()
    else:
        return given
    placed = _from_question(placed)
    keys = ("query", "history", *(str(at) for at in range(2, len(placed))))
    by_name = named if isinstance(named, Mapping) else {}
    return {**dict(zip(keys, placed, strict=False)), **by_name}


def _from_question(placed: Sequence[Value]) -> Sequence[Value]:
    at = next((at for at, one in enumerate(placed) if not _is_handle(one)), 0)
    return placed[at:] if at and isinstance(placed[at], (str, Mapping)) else placed


def _is_handle(one: Value) -> bool:
    """Return whether an argument is an id, an address, a number or an object, not text in words."""
    if isinstance(one, str):
        return _ID.fullmatch(one) is not None or values.is_repr(one) or not values.usable(one)
    return one is None or isinstance(one, (bool, int, float))


def asked(given: Value) -> messages.StatedQuestion | None:
    """Return the question among the arguments, and the conversation before it."""
    return messages.read_request(arguments(given))


def query(given: Value) -> str | None:
    """Return the question only."""
    found = asked(given)
    return found.query if found else None


def documents_step(given: Value, put_out: Value) -> dict[str, Any] | None:
    """Read a function that returns documents: decorated functions are plain spans unless their author sets a type."""
    after = _documents_alone(put_out)
    if after is None:
        return None
    if is_part(after, given) if after else any(_documents_alone(listed) for listed in _lists(given)):
        return {"kind": "rerank", "documents": after}
    return {"kind": "retrieval", "query": query(given), "documents": after} if after else None


def is_part(after: tuple[Document, ...], given: Value) -> bool:
    """Return whether all the documents were passed to the step: then it filters or reorders them."""
    several = (documents.read(listed) for listed in _lists(given) if not messages.read(listed))
    return any(before and evidence.within(after, before) for before in several)


def _documents_alone(listed: Value) -> tuple[Document, ...] | None:
    """Return the documents of a list in which each element is marked as a document: a bare text may be anything."""
    if not isinstance(listed, list) or messages.read(listed):
        return None
    found = documents.read(listed) or ()
    if len(found) != len(listed):
        return None
    for raw, read in zip(listed, found, strict=True):
        known = read.doc_id or read.doc_uri or read.score is not None
        if not (isinstance(raw, Mapping) and read.content and (known or "metadata" in raw)):
            return None
    return found


def _lists(given: Value) -> Iterator[list[Value]]:
    """Yield the lists in the input of a step: the input itself, its fields, the arguments of a call."""
    named = arguments(given)
    for one in (given, *(named.values() if isinstance(named, Mapping) else ())):
        if isinstance(one, list):
            yield one
