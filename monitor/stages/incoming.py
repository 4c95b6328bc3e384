"""The way in: sources pass batches to the intake, conventions say what a span means."""

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
    """What became of a batch: all of it is safe, except `rejected` items that can never be read; `message` says why."""

    rejected: int = 0
    message: str = ""


class Intake(Protocol):
    """The way into the pipeline, which sources call."""

    async def accept(self, batch: SpanBatch | RowBatch | FeedbackBatch) -> Accepted:
        """Take a batch. Returns when its data is on disk, so that the sender can be acknowledged.

        A batch with an `ack` is safe at its sender: it is not written to disk, and the ack is settled when every result
        has been delivered. A row with an id that was seen recently is not taken again. May wait for the disk, and never
        blocks the event loop.

        Raises:
            Overloaded: there is no room now. Nothing of the batch was taken; the sender should try again.
            InvalidData: nothing of the batch can be read.
        """
        ...

    def drops(self, trace_id: bytes) -> bool:
        """Return whether head sampling drops spans of this trace (16 bytes) without tracestate: no need to decode them.

        They are still handed in, at least with their trace id, and counted. Safe to call from threads.
        """
        ...

    def hand_over(self, acks: Iterable[Ack]) -> None:
        """Give up data that another process will receive again from the start, and make these acks void.

        Requests that wait are dropped, and counted as handed over; should they come back here, they are taken again.
        Requests that are being scored are finished.
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
        """Return the most bytes that it asks for in one read, so that as much freed memory is kept; 0: few."""
        return 0

    def external_copies(self) -> str:
        """Name the places outside this program that keep what is received, for `rag-monitor forget`; empty: none."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one span says, in terms that all dialects share. None means "not said"; empty means "none".

    `kind` is the role of the span in the request: `request` (a whole request, chain or agent), `retrieval`, `rerank`
    (or any filter that replaces the candidates), `generation` (one call of a model), `tool`, `embedding` or
    `other`.

    `documents` is None if the span says nothing about documents, and empty if it says that none were found;
    `documents_without_text` counts documents of which only an id was sent. `messages` is the chat that was sent to the
    model, system prompt first; a role is empty if none was sent. `query` is the question, if the span states it.
    `error` says why the span failed; empty if it did not. `stated` names the fields that come from a mapping in the
    configuration: they take precedence over other spans.
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
    """The dialect's name, which a case carries in `convention`."""

    precedence: ClassVar[int] = 50
    """If two dialects recognise a span, the one with the lower number reads it."""

    record_marks: ClassVar[tuple[bytes, ...]] = ()
    """A log record is dropped on arrival unless it, or its scope, contains a mark of some dialect, as encoded bytes."""

    @abstractmethod
    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """Say what the span holds; None if it is not of this dialect. `records` are its log records, oldest first."""
