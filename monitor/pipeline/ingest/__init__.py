"""The entrance of the pipeline: head sampling, the spool, and then the acknowledgement to the sender.

spans, log records -> spans.py (with head.py) -> assembly
rows               -> rows.py                 -> in flight (rows are complete on arrival)
feedback           -> FeedbackIngest          -> the feedback processor
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import partial
from typing import Final

import anyio
import orjson

from monitor.errors import InvalidData, Overloaded
from monitor.model.ack import Ack
from monitor.model.external import ExternalScore, FeedbackBatch, ScoreSource
from monitor.model.row import RowBatch
from monitor.model.span import SpanBatch
from monitor.pipeline.complete import Complete, WholeRow, WholeTrace
from monitor.pipeline.feedback.processor import FeedbackProcessor
from monitor.pipeline.in_flight import InFlight
from monitor.pipeline.ingest.rows import RowIngest
from monitor.pipeline.ingest.spans import SpanIngest
from monitor.stages import Accepted, Runtime
from monitor.storage.spool import Spool, SpoolRecord

_AGAIN: Final = 0.1
"""Seconds between two checks for room while deliveries of the previous process wait."""


class Ingest:
    """The `Intake` of a running pipeline. `processor` handles feedback; None refuses it.

    `in_hand_limit` bounds the memory, in bytes, of complete requests that have not ended. It is larger than the limit
    on cases that wait for the judge, so a slow judge costs evaluations, not deliveries.

    `when_sent` is called when everything in a batch with its own ack was published. Its argument settles that ack.
    """

    def __init__(
        self,
        spans: SpanIngest,
        rows: RowIngest,
        *,
        processor: FeedbackProcessor | None,
        in_flight: InFlight,
        spool: Spool,
        in_hand_limit: int,
        runtime: Runtime,
        when_sent: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._in_hand_limit = in_hand_limit
        self._when_sent = when_sent
        self._spans = spans
        self._rows = rows
        self._processor = processor
        self._feedback = FeedbackIngest(processor, spool, runtime) if processor is not None else None
        self._in_flight = in_flight
        in_flight.reopen = self._reopen
        self._spool = spool
        self._runtime = runtime

    async def accept(self, batch: SpanBatch | RowBatch | FeedbackBatch) -> Accepted:
        """See `stages.Intake.accept`."""
        if isinstance(batch, FeedbackBatch):
            if self._feedback is None:
                raise InvalidData("feedback is not accepted here")
            return await self._feedback.accept(batch)
        if full := self.refusing():  # this includes the feedback backlog: spans carry feedback, too
            raise Overloaded(full)
        if batch.ack is not None and self._when_sent is not None:
            ack = Ack(partial(self._when_sent, batch.ack.settle), part_of=batch.ack)
            if isinstance(batch, SpanBatch):  # most are of spans, and `replace` is slow
                batch = SpanBatch(batch.source, batch.signal, batch.groups, ack, batch.refused)
            else:
                batch = replace(batch, ack=ack)
        return await (self._rows.accept(batch) if isinstance(batch, RowBatch) else self._spans.accept(batch))

    def refusing(self) -> str:
        """Return why spans and rows cannot be taken now; empty if they can. Quick, because every request calls it."""
        self._runtime.health.arrives()
        in_hand = self._spans.in_hand_bytes + self._rows.in_hand_bytes
        if in_hand > self._in_hand_limit:
            return f"evaluation is behind: {in_hand} bytes of complete requests wait"
        return (
            self._runtime.health.short_of_memory
            or self._in_flight.backlog
            or self._spans.full
            or (self._processor.backlog if self._processor is not None else "")
        )

    def drops(self, trace_id: bytes) -> bool:
        """See `stages.Intake.drops`."""
        return self._spans.drops(trace_id)

    def hand_over(self, acks: Iterable[Ack]) -> None:
        """See `stages.Intake.hand_over`."""
        for ack in acks:
            ack.make_void()
        for complete in self._in_flight.hand_over():
            self._reopen(complete)

    def _reopen(self, complete: Complete) -> None:
        if isinstance(complete, WholeTrace):
            self._spans.reopen(complete)
        elif isinstance(complete, WholeRow):
            self._rows.reopen(complete)

    async def recover(self) -> int:
        """Resume deliveries that the previous process left in the spool. Returns their number."""
        recovered = 0
        async for record, ack, expired in self._spool.replay():
            while self.refusing():  # noqa: ASYNC110 - room is made in many places
                await anyio.sleep(_AGAIN)
            try:
                if record.signal == "feedback" and self._feedback is not None:
                    self._feedback.take_up(record, ack, expired=expired)
                elif record.signal == "cases":
                    self._rows.take_up(record, ack, expired=expired)
                else:
                    self._spans.take_up(record, ack, expired=expired)
            except InvalidData:
                self._runtime.metrics.spool_damaged.inc()
                ack.settle()
                continue
            recovered += 1
        return recovered


class FeedbackIngest:
    """Takes deliveries of feedback for `processor`."""

    def __init__(self, processor: FeedbackProcessor, spool: Spool, runtime: Runtime) -> None:
        self._processor = processor
        self._spool = spool
        self._runtime = runtime

    async def accept(self, batch: FeedbackBatch) -> Accepted:
        """See `stages.Intake.accept`."""
        if full := self._processor.backlog:
            raise Overloaded(full)
        if batch.external_scores:
            payload = b"\n".join(orjson.dumps(asdict(one)) for one in batch.external_scores)
            record = SpoolRecord(batch.source, "feedback", self._runtime.clock.now(), payload)
            ack = await self._spool.append(record)
            self._processor.take(batch.external_scores, ack)
            ack.settle()  # the delivery's own share; each score holds another
        return Accepted()

    def take_up(self, record: SpoolRecord, ack: Ack, *, expired: bool) -> None:
        """Resume a delivery that the previous process left. Raises `InvalidData` if it is not as it was written."""
        try:
            found = [_read(line) for line in record.payload.split(b"\n")]
        except (KeyError, TypeError, ValueError):
            raise InvalidData("the record contains no external scores") from None
        if not expired:
            self._processor.take(found, ack)
        ack.settle()


def _read(line: bytes) -> ExternalScore:
    fields = orjson.loads(line)
    return ExternalScore(**{**fields, "score_source": ScoreSource(fields["score_source"])})
