"""Ingests rows: head sampling by the request id, then the spool. A row is complete on arrival."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from typing import Final

from monitor.errors import InvalidData
from monitor.extraction import rows
from monitor.model.ack import Ack
from monitor.model.row import SOURCE, Row, RowBatch
from monitor.pipeline.complete import WholeRow
from monitor.pipeline.in_flight import InFlight
from monitor.pipeline.ledger import Ledger, TraceOutcome
from monitor.stages import Accepted, Runtime
from monitor.statistics import consistent_sampling
from monitor.storage.spool import Spool, SpoolRecord
from monitor.storage.spool.memory import RecentIds
from monitor.telemetry.metrics import UNKNOWN_APP

_OUTCOMES = ("kept", "sampled_out", "duplicate", "invalid")
_OVERHEAD: Final = 1024
"""Bytes of a row in memory besides its content."""


class RowIngest:
    """Takes deliveries of rows. `rate` is the head sampling rate, 0 <= rate <= 1.

    `seen_at_most` bounds the memory, in bytes, for row ids, by which repeated rows are recognised.
    """

    def __init__(
        self,
        *,
        rate: float,
        spool: Spool,
        in_flight: InFlight,
        ledger: Ledger,
        runtime: Runtime,
        seen_at_most: int,
    ) -> None:
        self._rate = rate
        self._spool = spool
        self._ledger = ledger
        self._runtime = runtime
        self._in_flight = in_flight
        self._seen = RecentIds(seen_at_most)
        self.in_hand_bytes = 0
        """Memory of the rows whose acks are not settled, in bytes."""
        self._counters = {outcome: runtime.metrics.rows.labels(SOURCE, outcome) for outcome in _OUTCOMES}

    async def accept(self, batch: RowBatch) -> Accepted:
        """See `stages.Intake.accept`."""
        now = self._runtime.clock.now()
        new: list[Row] = []
        dropped: list[Row] = []
        for row in batch.rows:
            chosen, _ = consistent_sampling.keep(consistent_sampling.sampling_id(row.request_id), "", self._rate)
            if not chosen:
                dropped.append(row)
            elif _key(row) not in self._seen:
                new.append(row)
            elif batch.ack is not None:
                self._in_flight.repeated(row.request_id, batch.ack)
        ack = batch.ack
        with self._runtime.tracer.whole("receive", kind="server") as work:
            work.set({"rag_monitor.source": batch.source, "rag_monitor.signal": "cases"})
            work.set({"rag_monitor.kept_rows": len(new)})
            if new and ack is None:
                meta = json.dumps({"rate": self._rate, "app": batch.app}).encode()
                payload = b"\n".join(row.content for row in new)
                ack = await self._spool.append(SpoolRecord(batch.source, "cases", now, payload, meta))
            if ack is not None:
                self._admit(batch.source, new, ack, self._rate, now)
        self._pass(batch, dropped)
        self._counters["duplicate"].inc(len(batch.rows) - len(dropped) - len(new))
        return Accepted()

    def take_up(self, record: SpoolRecord, ack: Ack, *, expired: bool) -> None:
        """Resume a delivery that the previous process left. Raises `InvalidData` if it is not as it was written."""
        try:
            meta = json.loads(record.meta)
            rate, app = float(meta["rate"]), str(meta["app"])
        except (ValueError, KeyError, TypeError):
            raise InvalidData("the record has no sampling probability") from None
        found = rows.take(record.payload, app=app).rows
        if expired:
            for row in found:
                if self._seen.first(_key(row)):
                    self._ledger.passed(row.app, record.source, TraceOutcome.EXPIRED)
            ack.settle()
            return
        self._admit(record.source, found, ack, rate, record.received_at)

    def reopen(self, row: WholeRow) -> None:
        """Forget the id of `row`: the next row with this id is new."""
        self._seen.forget(_key(row.row))

    def _admit(self, source: str, found: Sequence[Row], ack: Ack, probability: float, received_at: float) -> None:
        """Count rows and pass them on, in one step on the event loop, so that the ledger balances at every scrape."""
        for row in found:
            if not self._seen.first(_key(row)):
                self._counters["duplicate"].inc()
                continue
            self._counters["kept"].inc()
            self._ledger.received(row.app, source)
            size = len(row.content) + _OVERHEAD
            self.in_hand_bytes += size
            share = Ack(partial(self._let_go, ack.share(), size), part_of=ack)
            named = row if row.app else row._replace(app=UNKNOWN_APP)
            self._in_flight.add(WholeRow(named.app, source, (share,), received_at, probability, named))
        ack.settle()  # the delivery's own share; each row holds another

    def _pass(self, batch: RowBatch, dropped: Sequence[Row]) -> None:
        """Count the rows that end on arrival."""
        for row in dropped:
            self._counters["sampled_out"].inc()
            if self._seen.first(_key(row)):
                self._ledger.passed(row.app, batch.source, TraceOutcome.SAMPLED_OUT)
        if batch.invalid:
            self._counters["invalid"].inc(batch.invalid)
            self._ledger.passed(batch.app, batch.source, TraceOutcome.INVALID, batch.invalid)

    def _let_go(self, ack: Ack, size: int) -> None:
        self.in_hand_bytes -= size
        ack.settle()


def _key(row: Row) -> bytes:
    return hashlib.blake2b(row.request_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
