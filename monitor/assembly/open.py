"""One open trace: what came of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.assembly.values import ClosedTrace
from monitor.model.receipt import Receipt
from monitor.model.span import Part
from monitor.model.trace import Closed

TRACE = 1500
"""What a trace takes beside its parts, in bytes."""


@dataclass(slots=True)
class OpenTrace:
    """`first` and `last` part, and for when its closing is `scheduled`: monotonic. `size` in bytes, estimated.

    `roots` are those seen, `unended` those of them that have not ended.
    """

    trace_id: bytes
    app: str
    source: str
    probability: float
    received_at: float
    first: float
    last: float
    spans: dict[bytes, Part] = field(default_factory=dict)
    records: dict[bytes, Part] = field(default_factory=dict)
    receipts: dict[Receipt, None] = field(default_factory=dict)
    roots: int = 0
    unended: int = 0
    size: int = TRACE
    size_class: int = 0
    scheduled: float = float("inf")

    def close(self, reason: Closed) -> ClosedTrace:
        """The trace as it is handed out."""
        return ClosedTrace(
            self.trace_id,
            (*self.spans.values(), *self.records.values()),
            reason,
            self.app,
            self.source,
            self.probability,
            tuple(self.receipts),
            self.received_at,
        )
