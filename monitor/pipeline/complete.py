"""What waits to be read: all that will ever come of one request, a closed trace or a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from monitor import rows
from monitor.assembly import ClosedTrace
from monitor.errors import TooLarge
from monitor.model.case import Reading
from monitor.model.receipt import Receipt
from monitor.model.row import Row
from monitor.model.trace import Closed, Trace
from monitor.otlp import decode

ReadTrace: TypeAlias = Callable[[Trace], Reading]


@dataclass(frozen=True, slots=True, eq=False)
class Complete(ABC):
    """One request on its way to its case. Its holder settles each of its receipts once.

    `app` and `source` are those it was received under, `received_at` the wall-clock second of its first part.
    """

    app: str
    source: str
    receipts: tuple[Receipt, ...]
    received_at: float

    @property
    def void(self) -> bool:
        """Whether another process receives it again, from the start."""
        return any(receipt.void for receipt in self.receipts)

    @property
    @abstractmethod
    def request_id(self) -> str:
        """The id that its case will have."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes to be decoded."""

    @abstractmethod
    def read(self, read_trace: ReadTrace) -> Reading:
        """Its reading, with `read_trace` for the trace that it is or has. Raises `TooLarge` where not all was kept."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeTrace(Complete):
    """A trace that nothing more is added to."""

    trace: ClosedTrace

    @classmethod
    def of(cls, trace: ClosedTrace) -> WholeTrace:
        """The closed `trace`, with its receipts."""
        return cls(trace.app, trace.source, trace.receipts, trace.received_at, trace)

    @property
    def request_id(self) -> str:
        """See `Complete`."""
        return self.trace.trace_id.hex()

    @property
    def size(self) -> int:
        """See `Complete`."""
        return sum(len(part.encoded) for part in self.trace.parts)

    def read(self, read_trace: ReadTrace) -> Reading:
        """See `Complete`."""
        trace = self.trace
        if trace.closed is Closed.TOO_LARGE:
            raise TooLarge(f"trace {self.request_id} is larger than a trace may be")
        return read_trace(
            decode.decode(
                trace.trace_id,
                trace.parts,
                closed=trace.closed,
                app=trace.app,
                source=trace.source,
                probability=trace.probability,
                received_at=trace.received_at,
            )
        )


@dataclass(frozen=True, slots=True, eq=False)
class WholeRow(Complete):
    """A row: it came whole. `probability` is that with which it was kept."""

    row: Row
    probability: float

    @property
    def request_id(self) -> str:
        """See `Complete`."""
        return self.row.request_id

    @property
    def size(self) -> int:
        """See `Complete`."""
        return len(self.row.content)

    def read(self, read_trace: ReadTrace) -> Reading:
        """See `Complete`."""
        return rows.read(
            self.row, read_trace, source=self.source, probability=self.probability, received_at=self.received_at
        )
