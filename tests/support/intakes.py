"""A pipeline that takes batches from sources, settles them on demand, and records them."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.errors import Overloaded
from monitor.model.ack import Ack
from monitor.model.external import FeedbackBatch
from monitor.model.row import RowBatch
from monitor.model.span import SpanBatch
from monitor.stages import Accepted
from monitor.transport.otlp import wire


class RecordingIntake:
    """`busy`: it has no room. `hold`: batches are kept in `held`, unsettled. `reject`: how many spans are invalid."""

    def __init__(self, *, hold: bool = False) -> None:
        self.busy = False
        self.refused = 0
        self.hold = hold
        self.reject = 0
        self.fault: Exception | None = None
        self.batches: list[SpanBatch | RowBatch | FeedbackBatch] = []
        self.held: list[Ack] = []
        self.void: list[Ack] = []

    async def accept(self, batch: SpanBatch | RowBatch | FeedbackBatch) -> Accepted:
        self._take(batch)
        return Accepted(self.reject, "invalid" if self.reject else "")

    def drops(self, trace_id: bytes) -> bool:
        return False

    def hand_over(self, acks: Iterable[Ack]) -> None:
        for ack in acks:
            ack.make_void()
            self.void.append(ack)

    def settle(self, number: int | None = None) -> None:
        """Settle the first `number` of the held batches, by default all."""
        for _ in range(len(self.held) if number is None else number):
            self.held.pop(0).settle()

    @property
    def traces(self) -> list[int]:
        """Return the trace ids of the received spans, as numbers, in order."""
        return [one for batch in self.batches_of_traces for one in batch]

    @property
    def batches_of_traces(self) -> list[list[int]]:
        """Return the same, by batch."""
        return [
            [int.from_bytes(wire.trace_id_of(item)) for group in batch.groups for item in group.items]
            for batch in self.batches
            if isinstance(batch, SpanBatch) and batch.signal == "traces"
        ]

    def _take(self, batch: SpanBatch | RowBatch | FeedbackBatch) -> None:
        if self.busy:
            self.refused += 1
            raise Overloaded("no room")
        if self.fault is not None:
            raise self.fault
        self.batches.append(batch)
        if batch.ack is None:
            return
        if self.hold:
            self.held.append(batch.ack)
        else:
            batch.ack.settle()
