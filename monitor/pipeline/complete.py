"""Complete requests, that is, closed traces and rows, which are read in this process or in a worker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from monitor.errors import TooLarge
from monitor.extraction import rows
from monitor.extraction.settings import ExtractionSettings
from monitor.model.ack import Ack
from monitor.model.case import TraceReading
from monitor.model.request_log import RequestRecord
from monitor.model.row import Row
from monitor.model.span import EncodedGroup, Signal
from monitor.model.trace import Closed, Trace
from monitor.pipeline.assembly import ClosedTrace
from monitor.transport.otlp import decode, wire

ReadTrace: TypeAlias = Callable[[Trace], TraceReading]


@dataclass(frozen=True, slots=True, eq=False)
class Complete(ABC):
    """A complete request. Its holder settles each of its acks once.

    `app` and `source` are the ones it was received under, `received_at` is the arrival of its first part in seconds
    since the epoch, and `probability` is the probability with which it was kept.
    """

    app: str
    source: str
    acks: tuple[Ack, ...]
    received_at: float
    probability: float

    @property
    def void(self) -> bool:
        """Whether another process will receive it again from the start."""
        return any(ack.void for ack in self.acks)

    @property
    @abstractmethod
    def request_id(self) -> str:
        """The id that its case will have."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of bytes to decode."""

    @abstractmethod
    def encoded(self) -> dict[str, bytes]:
        """Return it in a form that could be sent again, by the file suffix that `rag-monitor cases` reads."""

    @abstractmethod
    def read(self, read_trace: ReadTrace, settings: ExtractionSettings) -> TraceReading:
        """Read it, using `read_trace` for the trace that it is or contains.

        Raises `TooLarge` if not all of it was kept.
        """

    def record(self, closed_at: float) -> RequestRecord:
        """Begin its record in the request log; `closed_at` is a wall-clock second."""
        return self._opened(closed_at)

    def _opened(self, closed_at: float, *, closed: str = "", spans: int = 0, records: int = 0) -> RequestRecord:
        return RequestRecord(
            request_id=self.request_id,
            app=self.app,
            source=self.source,
            received_at=self.received_at,
            closed_at=closed_at,
            closed=closed,
            probability=self.probability,
            spans=spans,
            records=records,
        )


@dataclass(frozen=True, slots=True, eq=False)
class WholeTrace(Complete):
    """A closed trace."""

    trace: ClosedTrace

    @classmethod
    def of(cls, trace: ClosedTrace) -> WholeTrace:
        """Take the closed `trace`, with its acks."""
        return cls(trace.app, trace.source, trace.acks, trace.received_at, trace.probability, trace)

    @property
    def request_id(self) -> str:
        """See `Complete`."""
        return self.trace.trace_id.hex()

    @property
    def size(self) -> int:
        """See `Complete`."""
        return sum(len(part.encoded) for part in self.trace.parts)

    def encoded(self) -> dict[str, bytes]:
        """See `Complete`."""

        def of(signal: Signal) -> bytes:
            parts = (part for part in self.trace.parts if part.signal == signal)
            return wire.join(EncodedGroup(part.resource, part.scope, [part.encoded]) for part in parts)

        return {".pb": of("traces"), ".logs.pb": of("logs")}

    def read(self, read_trace: ReadTrace, settings: ExtractionSettings) -> TraceReading:  # noqa: ARG002 - for rows
        """See `Complete`."""
        trace = self.trace
        if trace.closed is Closed.TOO_LARGE:
            raise TooLarge(f"trace {self.request_id} exceeds the size limit")
        return read_trace(
            decode.decode(
                trace.trace_id,
                trace.parts,
                closed=trace.closed,
                app=trace.app,
                source=trace.source,
                probability=trace.probability,
                received_at=trace.received_at,
                refused=trace.refused,
            )
        )

    def record(self, closed_at: float) -> RequestRecord:
        """See `Complete`."""
        parts = self.trace.parts
        spans = [part.signal for part in parts].count("traces")
        return self._opened(closed_at, closed=self.trace.closed.value, spans=spans, records=len(parts) - spans)


@dataclass(frozen=True, slots=True, eq=False)
class WholeRow(Complete):
    """A row."""

    row: Row

    @property
    def request_id(self) -> str:
        """See `Complete`."""
        return self.row.request_id

    @property
    def size(self) -> int:
        """See `Complete`."""
        return len(self.row.content)

    def encoded(self) -> dict[str, bytes]:
        """See `Complete`."""
        return {".jsonl": self.row.content + b"\n"}

    def read(self, read_trace: ReadTrace, settings: ExtractionSettings) -> TraceReading:
        """See `Complete`."""
        found = rows.read(
            self.row,
            read_trace,
            source=self.source,
            turns=settings.turns,
            probability=self.probability,
            received_at=self.received_at,
        )
        return settings.with_prompt(found)
