"""The values of a row's fields: question, answer, context, reference, in whatever JSON they were written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from monitor.extraction import documents, messages, prompt, values
from monitor.extraction.rows.mlflow_trace import TraceRow
from monitor.model.case import ContextSource, Document, Message, ReadingStatus, Request, Usage
from monitor.model.span import Value

Fields = Mapping[str, Value]

UNREADABLE: Final = (Document(""),)
"""A context that was given and of which no text can be read: not the same as none."""

_HISTORY: Final = ("history", "chat_history")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a row states. None means "says nothing", empty means "says: none".

    Of a document without content the text did not come. `traced` fills in what the row does not state. `verdict` is set
    where the row was read before and says what came of it.
    """

    request: Request | None = None
    response: str | None = None
    documents: tuple[Document, ...] | None = None
    context_source: ContextSource = "row"
    expected_response: str | None = None
    expected_documents: tuple[Document, ...] | None = None
    usage: Usage = field(default_factory=Usage)
    traced: TraceRow | None = None
    verdict: tuple[ReadingStatus, str] | None = None
    convention: str | None = None


def question(row: Fields, names: Sequence[str]) -> Request | None:
    """The question in the first of `names`; the turns before it are its own, else those of a field beside it."""
    given = values.first(row, names)
    asked = Request(given) if isinstance(given, str) and given.strip() else request(given)
    if asked is None or asked.history:
        return asked
    return Request(asked.query, turns(values.first(row, _HISTORY)))


def request(given: Value) -> Request | None:
    """The question in a request: a text, perhaps of JSON, `{messages}` or `{query, history}`."""
    if isinstance(given, Mapping) and isinstance(given.get("query"), str):
        query = values.text(given["query"])
        return Request(query, turns(given.get("history"))) if query.strip() else None
    asked = messages.read_request(given) if given else None
    return Request(asked.query, asked.history or ()) if asked is not None else None


def turns(given: Value) -> tuple[Message, ...]:
    """The turns of a conversation that people and the assistant have said."""
    return messages.turns(messages.read(given) or ()) if given else ()


def answer(given: Value) -> str | None:
    """The text of an answer: a text is taken as it is."""
    if isinstance(given, str):
        return given if given.strip() and values.usable(given) else None
    return messages.read_answer(given) if given else None


def put_out(given: Value) -> str | None:
    """As `answer`; of a text that holds JSON, such as the output of a model, the answer in it."""
    found = messages.read_answer(given) if given else None
    return found if found is not None else answer(given)


def context(given: Value) -> tuple[Document, ...] | None:
    """The retrieved documents: None where nothing is given, empty where it is stated that none were found.

    A context that is one text is one document, unless it consists of marked pieces.
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
    if found is None:
        return (Document(given),) if isinstance(given, str) else UNREADABLE
    if listed and len(found) < len(listed) and all(isinstance(item, Mapping) for item in listed):
        return (*found, *UNREADABLE)
    return found


def reference(given: Value) -> str | None:
    """The expected answer: a text, or several facts, one to a line."""
    listed = values.elements(given)
    if listed is not None:
        return "\n".join(text for one in listed if (text := values.text(one))) or None
    return answer(given)


def label(given: Value, longest: int = 256) -> str:
    """A name or an id as a short text; empty for anything else."""
    return values.text(given).strip()[:longest]


def _pieces(text: str) -> tuple[Document, ...]:
    if len(text) > prompt.MAX_PROMPT:
        return (Document(text),)
    return tuple(Document(piece) for piece in prompt.blocks(text))


def _texts(text: str) -> tuple[Document, ...]:
    """A text among several: a document as JSON where it is one, else the text itself, even where it is other JSON."""
    if not text.strip() or not values.usable(text):
        return ()
    return documents.read([text]) or (Document(text),)
