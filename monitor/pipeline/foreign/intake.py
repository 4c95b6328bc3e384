"""The doors for verdicts of others: those that are posted, by the spool to the desk; and those that a trace carries."""

from __future__ import annotations

from dataclasses import asdict, replace

import orjson

from monitor.errors import InvalidData, Overloaded
from monitor.foreign import telemetry
from monitor.model.case import Reading, Status
from monitor.model.foreign import ForeignVerdict, VerdictBatch, Via
from monitor.model.receipt import Receipt
from monitor.model.trace import Trace
from monitor.pipeline.complete import ReadTrace
from monitor.pipeline.foreign.desk import Desk
from monitor.stages import Runtime
from monitor.storage.spool import Record, Spool


class VerdictIntake:
    """Takes deliveries of verdicts for `desk`."""

    def __init__(self, desk: Desk, spool: Spool, runtime: Runtime) -> None:
        self._desk = desk
        self._spool = spool
        self._runtime = runtime

    async def accept(self, batch: VerdictBatch) -> None:
        """See `stages.Intake.accept_verdicts`."""
        full = self._desk.backlog
        if full:
            raise Overloaded(full)
        if not batch.verdicts:
            return
        payload = b"\n".join(orjson.dumps(asdict(one)) for one in batch.verdicts)
        record = Record(batch.source, "verdicts", self._runtime.clock.now(), payload)
        receipt = await self._spool.append(record)
        self._desk.take(batch.verdicts, receipt)
        receipt.settle()  # the delivery's own share; each verdict holds another

    def take_up(self, record: Record, receipt: Receipt, *, expired: bool) -> None:
        """Take up a delivery that the previous process left. Raises `InvalidData` where it is not what was written."""
        try:
            found = [_read(line) for line in record.payload.split(b"\n")]
        except (TypeError, ValueError):
            raise InvalidData("the record does not hold verdicts") from None
        if not expired:
            self._desk.take(found, receipt)
        receipt.settle()


def reader(read: ReadTrace, desk: Desk | None) -> ReadTrace:
    """As `read`, with the verdicts that the trace carries, where there is a desk for them."""
    if desk is None:
        return read

    def reading(trace: Trace) -> Reading:
        found = read(trace)
        said = telemetry.of_trace(trace, answers=found.status is not Status.NOT_RAG)
        return replace(found, verdicts=said) if said else found

    return reading


def _read(line: bytes) -> ForeignVerdict:
    told = orjson.loads(line)
    return ForeignVerdict(**{**told, "via": Via(told["via"])})
