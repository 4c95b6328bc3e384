"""Read the fields of a row (question, answer, context, reference) from any JSON form they come in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.extraction import documents, messages, prompt, values
from monitor.extraction.rows.mlflow_trace import TraceRow
from monitor.extraction.rows.printed import PrintedCase
from monitor.model.case import Document, Message, Request, Usage
from monitor.model.span import Value

Fields = Mapping[str, Value]

UNREADABLE: Final = (Document(""),)
"""A context that was given but has no readable text, which differs from an empty context."""

HISTORY: Final = ("history", "chat_history")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]{1,20}://\S{1,2000}", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The statements of a row. None means that the row does not say; empty means that it says there is none.

    The text of a document without content was not sent. `traced` supplies what the row does not state. `printed` is the
    whole case of a row that `rag-monitor cases` printed.
    """

    request: Request | None = None
    response: str | None = None
    documents: tuple[Document, ...] | None = None
    expected_response: str | None = None
    expected_documents: tuple[Document, ...] | None = None
    usage: Usage = field(default_factory=Usage)
    prompt: tuple[Message, ...] = ()
    traced: TraceRow | None = None
    printed: PrintedCase | None = None
    earlier: tuple[Said, ...] = ()
    """The earlier turns of a conversation that were answered, oldest first."""
    turn: int = 1
    """The number of the question in its conversation, from 1. If turns were cut, `earlier` has fewer entries."""

    @property
    def states_nothing(self) -> bool:
        """Whether the row leaves question, answer and context to its trace."""
        return self.request is None and self.response is None and self.documents is None


def question(row: Fields, names: Sequence[str]) -> Request | None:
    """Read the question in the first of `names`, with the earlier turns in it or in a history field."""
    given = values.first(row, names)
    asked = Request(given) if isinstance(given, str) and given.strip() else request(given)
    if asked is None or asked.history:
        return asked
    return Request(asked.query, turns(values.first(row, HISTORY)))


def request(given: Value) -> Request | None:
    """Read the question of a request: plain text, JSON in a text, `{messages}` or `{query, history}`."""
    if isinstance(given, Mapping) and isinstance(given.get("query"), str):
        query = values.text(given["query"])
        return Request(query, turns(given.get("history"))) if query.strip() else None
    asked = messages.read_request(given) if given else None
    return Request(asked.query, asked.history or ()) if asked is not None else None


def turns(given: Value) -> tuple[Message, ...]:
    """Return the turns of the user and the assistant in a conversation."""
    return messages.turns(messages.read(given) or ()) if given else ()


def answer(given: Value) -> str | None:
    """Read the text of an answer; a plain text is returned unchanged."""
    if isinstance(given, str):
        return given if given.strip() and values.usable(given) else None
    return messages.read_answer(given) if given else None


def put_out(given: Value) -> str | None:
    """Read an answer as `answer` does, but look inside a text that holds JSON, such as the output of a model."""
    found = messages.read_answer(given) if given else None
    return found if found is not None else answer(given)


def context(given: Value) -> tuple[Document, ...] | None:
    """Read the retrieved documents: None if the field is missing, empty if it says that none were found.

    A context in a single text is one document, unless it consists of marked pieces. A document with only its address,
    as in `{"doc_uri": ...}`, has an empty `content`.
    """
    unfolded = values.unfold(given)
    if isinstance(unfolded, Mapping) and "citations" in unfolded:
        unfolded = values.unfold(unfolded["citations"])
    if unfolded is None or unfolded == {}:
        return None
    if isinstance(unfolded, str):
        return _pieces(unfolded)
    listed = values.elements(unfolded)
    if listed and all(isinstance(item, str) for item in listed):
        return tuple(document for text in listed for document in _texts(values.text(text))) or UNREADABLE
    found = documents.read(unfolded)
    if listed and len(found or ()) < len(listed) and all(isinstance(item, Mapping) for item in listed):
        return tuple(one for item in listed for one in documents.read([item]) or (_without_text(item),))
    if found is None:
        return (Document(given),) if isinstance(given, str) else (_without_text(unfolded),)
    return found


def expected_context(given: Value) -> tuple[Document, ...] | None:
    """Read the documents that should have been retrieved, as `context` does, without entries that name no document."""
    found = context(given)
    known = tuple(one for one in found or () if one.content or one.doc_uri or one.doc_id)
    return None if found is None or (found and not known) else known


def reference(given: Value) -> str | None:
    """Read the expected answer: a text or a number, or several facts, joined one per line."""
    listed = values.elements(given)
    if listed is not None:
        return "\n".join(text for one in listed if (text := values.text(one) or answer(one) or "").strip()) or None
    return answer(given if isinstance(given, str | Mapping) else values.text(given))


def label(given: Value, longest: int = 256) -> str:
    """Return a name or an id as a short text; empty for anything else."""
    return values.text(given).strip()[:longest]


def _pieces(text: str) -> tuple[Document, ...]:
    if len(text) > prompt.MAX_PROMPT:
        return (Document(text),)
    return tuple(map(_document, prompt.blocks(text)))


def _texts(text: str) -> tuple[Document, ...]:
    """Read one text of several: a document written as JSON, else the text itself, even if it is some other JSON."""
    if not text.strip() or not values.usable(text):
        return ()
    found = documents.read([text])
    if found and found != (Document(text),):
        return found
    address = documents.address(values.unfold(text))
    return (Document("", address),) if address else (_document(text),)


def _document(text: str) -> Document:
    """Return the document with this text; a bare address becomes a document without text."""
    return Document("", text.strip()) if _ADDRESS.fullmatch(text.strip()) else Document(text)


def _without_text(item: Value) -> Document:
    """Return the document that a value without text names by its address, or an unreadable document."""
    address = documents.address(item)
    return Document("", address) if address else UNREADABLE[0]
