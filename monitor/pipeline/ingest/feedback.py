"""Take in what others say of answers: posted, from the spool, or on spans whose trace is closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import orjson

from monitor.errors import InvalidData, Overloaded
from monitor.extraction.feedback import telemetry
from monitor.model.ack import Ack
from monitor.model.external import ExternalScore, FeedbackBatch, ScoreSource
from monitor.model.span import Part
from monitor.pipeline.feedback.processor import FeedbackProcessor
from monitor.stages import Accepted, Runtime
from monitor.storage.spool import Spool, SpoolRecord
from monitor.transport.otlp import decode


class FeedbackIngest:
    """Takes deliveries of feedback for `desk`."""

    def __init__(self, desk: FeedbackProcessor, spool: Spool, runtime: Runtime) -> None:
        self._desk = desk
        self._spool = spool
        self._runtime = runtime

    async def accept(self, batch: FeedbackBatch) -> Accepted:
        """See `stages.Intake.accept`."""
        if full := self._desk.backlog:
            raise Overloaded(full)
        if batch.verdicts:
            payload = b"\n".join(orjson.dumps(asdict(one)) for one in batch.verdicts)
            record = SpoolRecord(batch.source, "verdicts", self._runtime.clock.now(), payload)
            ack = await self._spool.append(record)
            self._desk.take(batch.verdicts, ack)
            ack.settle()  # the delivery's own share; each verdict holds another
        return Accepted()

    def take_up(self, record: SpoolRecord, ack: Ack, *, expired: bool) -> None:
        """Take up a delivery that the previous process left. Raises `InvalidData` where it is not what was written."""
        try:
            found = [_read(line) for line in record.payload.split(b"\n")]
        except (TypeError, ValueError):
            raise InvalidData("the record contains no external scores") from None
        if not expired:
            self._desk.take(found, ack)
        ack.settle()


def late_verdicts(trace_id: bytes, parts: Sequence[Part], probability: float) -> list[ExternalScore]:
    """Read the verdicts on `parts` of a closed trace, kept with `probability`: they are true all the same."""
    found: list[ExternalScore] = []
    for part in parts:
        if part.signal != "traces" or not any(mark in part.encoded for mark in telemetry.MARKS):
            continue  # what holds no verdict is not decoded
        try:
            span = decode.span(trace_id, part)
        except InvalidData:
            continue  # it was checked on its way in; a verdict that cannot be read must not cost the delivery
        found += (replace(one, probability=probability) for one in telemetry.of_late(span))
    return found


def _read(line: bytes) -> ExternalScore:
    told = orjson.loads(line)
    return ExternalScore(**{**told, "score_source": ScoreSource(told["score_source"])})
