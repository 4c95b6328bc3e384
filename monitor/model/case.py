"""A case: everything that an evaluator may see of one request to the RAG service."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

from monitor.model.external import ExternalScore

T = TypeVar("T")

ContextSource: TypeAlias = Literal["spans", "prompt", "row", "none"]
DocumentKind: TypeAlias = Literal["document", "tool_result", "attachment"]
DOCUMENT_KINDS: Final[tuple[DocumentKind, ...]] = get_args(DocumentKind)

_LONGEST_APP: Final = 128
_APP_READ: Final = 8 * _LONGEST_APP
"""How many characters of a name are looked at: an untrusted sender may send a megabyte."""


def app_name(given: str) -> str:
    """Return the one name that a service has in cases, metrics, alerts, the configuration and commands.

    Each run of white space becomes a single space, and is removed at both ends; any other character that cannot be
    printed becomes `?`; the name is cut to 128 characters. A name that this function returned is returned unchanged.
    Empty if nothing is left.
    """
    spaced = " ".join(given[:_APP_READ].split())[:_LONGEST_APP].rstrip()
    return spaced if spaced.isprintable() else "".join(one if one.isprintable() else "?" for one in spaced)


class ReadingStatus(StrEnum):
    """How much of a trace or a row could be read. Evaluators run on `ready` requests only."""

    READY = "ready"  # a question and its answer, with or without context
    CONTENT_MISSING = "content_missing"  # a question was answered, but its texts were not sent
    FAILED_REQUEST = "failed_request"  # the service itself failed to answer
    NO_REQUEST = "no_request"  # no question was answered here: indexing, health checks, agent creation
    INCOMPLETE = "incomplete"  # a part of the trace never arrived, or was refused


class ContextStatus(StrEnum):
    """How the context of a case came about. An empty context is still judged: only the last two statuses prevent it."""

    RETRIEVED = "retrieved"  # documents or the results of tools
    RETRIEVED_NOTHING = "retrieved_nothing"  # a retrieval took place and found nothing
    NO_RETRIEVAL = "no_retrieval"  # the model answered without a retrieval
    NOT_RECORDED = "not_recorded"  # a retrieval took place, but not all of its texts were sent

    @property
    def words(self) -> str:
        """Return the status in words for people."""
        return "found nothing" if self is ContextStatus.RETRIEVED_NOTHING else self.value.replace("_", " ")


RESPONSE_ID: Final = "gen_ai.response.id"
"""The attribute with the provider's id of the answer, if the evaluated span has it."""


class Traffic(StrEnum):
    """The purpose of a request. Only production counts in rates and alerts."""

    PRODUCTION = "production"
    EXPERIMENT = "experiment"
    SYNTHETIC = "synthetic"
    INTERNAL = "internal"


def plain(one: Any) -> dict[str, Any]:
    """Return the fields of a dataclass without nested ones: ten times as fast as `asdict`, which copies deeply."""
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def changed(one: T, **given: Any) -> T:
    """Return a copy of a dataclass with slots in which the fields `given` have new values.

    Unlike `dataclasses.replace` it checks and corrects nothing, and takes 3 us for a case instead of 8. It is for
    values known to be valid, on the path of every request.
    """
    kind: Any = type(one)
    copy: T = object.__new__(kind)
    for name, slot in _slots(kind):
        slot.__set__(copy, given[name] if name in given else slot.__get__(one))
    return copy


@cache
def _slots(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((one.name, getattr(kind, one.name)) for one in fields(kind))


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation. `role` is `system`, `user`, `assistant` or `tool`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Document:
    """One source that the model was given. `score` is on the retriever's own scale.

    `kind` is `document` (retrieved), `tool_result` (returned by a tool) or `attachment` (a text file from the user).
    """

    content: str
    doc_uri: str = ""
    doc_id: str = ""
    score: float | None = None
    kind: DocumentKind = "document"


@dataclass(frozen=True, slots=True)
class Request:
    """The user's question (the last user turn, not a rewritten search query), and the turns before it, oldest first."""

    query: str = ""
    history: tuple[Message, ...] = ()

    def as_row(self) -> dict[str, Any]:
        """Return it in plain JSON types."""
        return {"query": self.query, "history": [plain(one) for one in self.history]}


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the service used for this request; nested spans are counted once. None: not sent."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request, the context that was retrieved for it, and the answer. `Case.from_texts` builds one from texts.

    `context_status` says how the context came about. Left out, it follows from the documents: `retrieved` with some,
    `no_retrieval` without any. A status that contradicts them is corrected.

    `request_id` is the trace id (hex) or the id of a row; where these hold several requests, it is followed by a slash
    and the id of the request's span, or the number of the turn. `span_id` is the generation that results are attached
    to.
    `probability` (0 < p <= 1): that the case was kept; its inverse is the weight of the case in all rates.
    `answered_at` is the wall-clock second at which the answer ended, 0 if unknown; `seconds` is how long it took.
    `prompt` is what the service sent to the model, if its traces say so. The pipeline decides `traffic`.
    """

    request_id: str
    request: Request = field(default_factory=Request)
    retrieved_context: tuple[Document, ...] = ()
    context_source: ContextSource = "none"
    context_status: ContextStatus = ContextStatus.NO_RETRIEVAL
    prompt: tuple[Message, ...] = ()
    response: str = ""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    session_id: str = ""
    user_id: str = ""
    app: str = ""
    source: str = ""
    span_id: str = ""
    convention: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    expected_response: str | None = None
    expected_retrieved_context: tuple[Document, ...] | None = None
    probability: float = 1.0
    answered_at: float = 0.0
    seconds: float | None = None
    traffic: Traffic = Traffic.PRODUCTION

    def __post_init__(self) -> None:
        """Make the status of the context agree with the documents."""
        if self.retrieved_context and self.context_status is not ContextStatus.NOT_RECORDED:
            object.__setattr__(self, "context_status", ContextStatus.RETRIEVED)
        elif not self.retrieved_context and self.context_status is ContextStatus.RETRIEVED:
            object.__setattr__(self, "context_status", ContextStatus.RETRIEVED_NOTHING)

    @classmethod
    def from_texts(
        cls,
        query: str,
        response: str,
        retrieved_context: Iterable[str | Document] | None = None,
        *,
        history: Iterable[Message] = (),
        expected_response: str | None = None,
        expected_retrieved_context: Iterable[str | Document] | None = None,
        request_id: str = "",
        app: str = "",
    ) -> Case:
        """Build a case from a question, its answer, and the documents that were retrieved.

        An empty list of documents means that a retrieval found nothing; None means that there was no retrieval.
        Without a `request_id` the id is a hash of all texts, so the same texts give the same id. Raises `TypeError` for
        anything that is not a text where a text is expected.
        """
        for name, text in (("query", query), ("response", response), ("request_id", request_id), ("app", app)):
            if not isinstance(text, str):
                raise TypeError(f"{name} must be a text, not {type(text).__name__}")
        if expected_response is not None and not isinstance(expected_response, str):
            raise TypeError(f"expected_response must be a text or None, not {type(expected_response).__name__}")
        found = _documents("retrieved_context", () if retrieved_context is None else retrieved_context)
        expected = None
        if expected_retrieved_context is not None:
            expected = _documents("expected_retrieved_context", expected_retrieved_context)
        turns = tuple(history)
        if not all(isinstance(one, Message) for one in turns):
            raise TypeError("history must be a list of `Message`")
        listed = [[astuple(one) for one in part] for part in (turns, found, expected or ())]
        texts = json.dumps([query, response, expected_response, *listed, expected is None, retrieved_context is None])
        return cls(
            request_id=request_id or hashlib.blake2b(texts.encode(), digest_size=16).hexdigest(),
            request=Request(query, turns),
            retrieved_context=found,
            context_source="row" if found else "none",
            context_status=ContextStatus.NO_RETRIEVAL if retrieved_context is None else ContextStatus.RETRIEVED,
            response=response,
            app=app_name(app),
            expected_response=expected_response,
            expected_retrieved_context=expected,
        )

    @property
    def trace_id(self) -> str:
        """The id of the trace that the request came in, or the row's id if it names no trace."""
        return trace_of(self.request_id)

    @property
    def turn(self) -> int:
        """The number of the question in its conversation, from 1: one more than the user's turns before it."""
        return 1 + sum(message.role == "user" for message in self.request.history)

    @property
    def text_length(self) -> int:
        """The number of characters of all texts, for limits on memory."""
        messages = (*self.request.history, *self.prompt)
        documents = (*self.retrieved_context, *(self.expected_retrieved_context or ()))
        texts = (self.request.query, self.response, self.expected_response or "", *self.attributes.values())
        contents = [*(one.content for one in messages), *(one.content for one in documents)]
        return sum(map(len, texts)) + sum(map(len, contents))

    def as_row(self) -> dict[str, Any]:
        """Return the row that `rag-monitor cases` prints, in plain JSON types.

        Reading the row gives the same case. It does not hold `source`, `probability` and `traffic`: its reader sets
        them.
        """
        expected = self.expected_retrieved_context
        return {
            "request_id": self.request_id,
            "request": self.request.as_row(),
            "retrieved_context": [plain(one) for one in self.retrieved_context],
            "context_source": self.context_source,
            "context_status": str(self.context_status),
            "response": self.response,
            "expected_response": self.expected_response,
            "expected_retrieved_context": None if expected is None else [plain(one) for one in expected],
            "prompt": [plain(one) for one in self.prompt],
            "model": self.model,
            "usage": plain(self.usage),
            "session_id": self.session_id,
            "user_id": self.user_id,
            "app": self.app,
            "span_id": self.span_id,
            "attributes": dict(self.attributes),
            "timestamp": self.answered_at or None,
            "seconds": self.seconds,
            "convention": self.convention,
        }


_ONE_OF_SEVERAL: Final = re.compile(r"([0-9a-f]{32})/(?:[0-9a-f]{16}|\d{1,6})")


def trace_of(request_id: str) -> str:
    """Return the id of the trace if a request is one of several in it, otherwise `request_id` itself."""
    found = _ONE_OF_SEVERAL.fullmatch(request_id)
    return found[1] if found is not None else request_id


def _documents(name: str, given: Iterable[str | Document]) -> tuple[Document, ...]:
    found = tuple(Document(one) if isinstance(one, str) else one for one in given)
    if isinstance(given, str) or not all(isinstance(one, Document) for one in found):
        raise TypeError(f"{name} must be a list of texts or of `Document`")
    return found


class Joined(NamedTuple):
    """A span that a case was read from.

    Its role and dialect are as in `stages.Observation`, and empty if no dialect recognised it.
    """

    name: str
    span_id: str
    role: str = ""
    dialect: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading one trace: a status, the case as far as it could be read, and why no more could be read.

    A `ready` case also has an `error` if the texts of its documents were not sent.

    `joined` are the first few dozen spans that were looked at, from the root downwards; `external_scores` are scores of
    the request that came in its own trace.
    """

    status: ReadingStatus
    case: Case
    error: str = ""
    joined: tuple[Joined, ...] = field(default=(), compare=False, repr=False)
    external_scores: tuple[ExternalScore, ...] = field(default=(), compare=False, repr=False)

    def as_row(self) -> dict[str, Any]:
        """Return the row of the case with its `status` and `error` (null if there is none)."""
        row = self.case.as_row()
        return {"request_id": row.pop("request_id"), "status": str(self.status), **row, "error": self.error or None}


@dataclass(frozen=True, slots=True)
class TraceReading:
    """The result of reading one trace or row: a reading for each request in it, oldest first, and at least one.

    A trace without a request has one reading that says so. `left_out` counts requests beyond the limit per trace.
    """

    readings: tuple[Reading, ...]
    left_out: int = 0

    @property
    def last(self) -> Reading:
        """The newest request."""
        return self.readings[-1]
