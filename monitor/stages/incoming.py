"""The way in: sources hand batches to the intake, conventions say what a span means."""

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
    """What became of a batch: everything is safe, save `rejected` items that can never become valid, and why."""

    rejected: int = 0
    message: str = ""


class Intake(Protocol):
    """The way into the pipeline, held open to sources. Made by the pipeline."""

    async def accept(self, batch: SpanBatch | RowBatch | FeedbackBatch) -> Accepted:
        """Take a batch; returns once its data is safe at the promised level (on disk, unless the batch has a ack).

        A batch with a ack is safe where it comes from: then the ack says when it is done with. A row whose id
        was seen lately is not taken again.
        Raises `Overloaded` when there is no room now: nothing of the batch was taken, the sender should try again.
        Raises `InvalidData` when nothing of it can be read. Never blocks the event loop; may wait for a group commit.
        """
        ...

    def hand_over(self, acks: Iterable[Ack]) -> None:
        """What hangs on these acks belongs to another process now, which will receive it again from the start.

        Makes them void. What is not yet being judged is dropped, counted as handed over, and taken anew should it come
        back here; what is being judged is finished.
        """
        ...


class Source(Component, ABC):
    """Where traces come from. Run once by the pipeline, for the whole life of the process."""

    @abstractmethod
    async def run(self, intake: Intake, runtime: Runtime, listening: Callable[[str], None]) -> None:
        """Receive until cancelled.

        Call `listening(address)` once when ready, with the address in words (`127.0.0.1:4317`). When cancelled: accept
        nothing new, let calls in progress finish (a second at most), then return. Raises `ConfigError` before listening
        when it can never work (a port in use, a certificate that cannot be read).
        """

    def external_copies(self) -> str:
        """Name where what is received stays outside this program, to be deleted there; empty: nowhere.

        `rag-monitor forget` lists it.
        """
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one span says, in the words that all dialects share. None means "says nothing", empty means "says: none".

    `kind` is the role of the span in the request: `request` (a whole request, chain or agent), `retrieval`, `rerank`
    (or any filter whose output replaces the candidates), `generation` (one call of a model), `tool`, `embedding`,
    `other`.
    `documents` is None where the span says nothing of documents and empty where it says that none were found;
    `documents_without_text` counts those of which only ids came. `messages` is the chat as sent to the model, system
    prompt first, with an empty role where none was sent; `query` the question where the span states it plainly. `error`
    is not empty where the span failed.
    `stated` names the fields that the configuration has mapped: they outweigh what other spans say.
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
    """One dialect: how one family of instrumentation writes a span. Stateless; called for each span of a closed trace.

    Adding a dialect is adding one file to `conventions/` with one subclass. Reading is tolerant: a value of an
    unexpected shape is ignored, never an exception.
    """

    name: ClassVar[str]
    """The dialect's name, as it stands in `convention` of a case."""

    precedence: ClassVar[int] = 50
    """Of two dialects that both recognise a span the one with the lower number reads it."""

    record_marks: ClassVar[tuple[bytes, ...]] = ()
    """A log record ends at the door unless it, or its scope, holds a mark of some dialect: both as encoded."""

    @abstractmethod
    def observe(self, span: Span, records: tuple[LogRecord, ...]) -> Observation | None:
        """What the span says, with its own log records, oldest first; None where it is not this dialect's."""
