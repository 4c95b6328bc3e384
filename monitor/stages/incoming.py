"""The contracts of the input side: sources pass batches to the intake, conventions interpret spans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from monitor.model.ack import Ack
from monitor.model.case import Document, Message, Usage
from monitor.model.external import FeedbackBatch
from monitor.model.row import RowBatch
from monitor.model.span import LogRecord, Span, SpanBatch
from monitor.stages.component import Component, Runtime


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of accepting a batch: all of it is safe except `rejected` items, which can never be read.

    `message` is the reason.
    """

    rejected: int = 0
    message: str = ""


class Intake(Protocol):
    """The way into the pipeline, which sources call."""

    async def accept(self, batch: SpanBatch | RowBatch | FeedbackBatch) -> Accepted:
        """Take a batch. Returns when its data is on disk, so that the sender can be acknowledged.

        The sender of a batch with an `ack` keeps it until the ack is settled, which happens when every result has been
        delivered. Such a batch is not written to disk. A row with an id that was seen recently is not taken again. May
        wait for the disk, but never blocks the event loop.

        Raises:
            Overloaded: there is no room now. Nothing of the batch was taken; the sender should try again.
            InvalidData: nothing of the batch can be read.
        """
        ...

    def drops(self, trace_id: bytes) -> bool:
        """Return whether head sampling drops spans of this trace (16 bytes) that have no tracestate.

        The source need not decode such spans. It still passes them in, with at least their trace id, to be counted.
        Safe to call from threads.
        """
        ...

    def hand_over(self, acks: Iterable[Ack]) -> None:
        """Give up data that another process will receive again from the start, and make these acks void.

        Waiting requests are dropped and counted as handed over; if they come back here, they are taken again. Requests
        that are being scored are finished.
        """
        ...


class Source(Component, ABC):
    """Receives traces or rows. The pipeline runs it once, for the whole life of the process."""

    @abstractmethod
    async def run(self, intake: Intake, runtime: Runtime, listening: Callable[[str], None]) -> None:
        """Receive until cancelled.

        Call `listening(address)` once when ready, with an address for people (`127.0.0.1:4317`). When cancelled, accept
        nothing new, finish calls in progress within a second, and return. Raises `ConfigError` before `listening` if it
        can never work: a port in use, a certificate that cannot be read.
        """

    def reads_at_once(self) -> int:
        """Return the largest number of bytes that it requests in one read; 0 if reads are small.

        The process keeps that much freed memory for reuse.
        """
        return 0

    def external_copies(self) -> str:
        """Name the places outside this program that keep received data, for `rag-monitor forget`; empty if none."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The content of one span, in terms that all dialects share. None means "not stated"; empty means "none".

    `kind` is the role of the span in the request: `request` (a whole request, chain or agent), `retrieval`, `rerank`
    (or any filter that replaces the candidates), `generation` (one call of a model), `tool`, `embedding` or
    `other`.

    `documents` is None if the span says nothing about documents, and empty if it says that none were found;
    `documents_without_text` counts documents of which only an id was sent. `messages` is the chat that was sent to the
    model, system prompt first; a role is empty if none was sent. `query` is the question, if the span states it.
    `error` says why the span failed; empty if it did not. `stated` names the fields that come from a mapping in the
    configuration: they take precedence over the same fields of other spans.
    """

    kind: Literal["request", "retrieval", "rerank", "generation", "tool", "embedding", "other"]
    convention: str
    span: Span
    query: str | None = None
    history: tuple[Message, ...] | None = None
    messages: tuple[Message, ...] | None = None
    documents: tuple[Document, ...] | None = None
    documents_without_text: int = 0
    response: str | None = None
    model: str = ""
    usage: Usage | None = None
    session_id: str = ""
    user_id: str = ""
    error: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    stated: frozenset[str] = frozenset()


class Convention(ABC):
    """Reads one dialect: the spans of one kind of instrumentation. Stateless; called for each span of a complete trace.

    Reading is tolerant: it ignores a value of an unexpected shape, and never raises.
    """

    name: ClassVar[str]
    """The dialect's name, stored in a case as `convention`."""

    precedence: ClassVar[int] = 50
    """If two dialects recognise a span, the one with the lower number reads it."""

    record_marks: ClassVar[tuple[bytes, ...]] = ()
    """Byte strings that mark log records of this dialect. A record is dropped on arrival unless its encoded form, or
    that of its scope, contains a mark of some dialect."""

    @abstractmethod
    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """Return what the span says; None if it is not of this dialect. `records` are its log records, oldest first."""
