"""The `Intake` that sources see: traces in parts by one side, rows by the other, and the spool behind both."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from monitor.errors import InvalidData
from monitor.model.foreign import VerdictBatch
from monitor.model.receipt import Receipt
from monitor.model.row import RowBatch
from monitor.model.span import SpanBatch
from monitor.pipeline.complete import Complete, WholeRow, WholeTrace
from monitor.pipeline.foreign.intake import VerdictIntake
from monitor.pipeline.intake import TraceIntake
from monitor.pipeline.row_intake import RowIntake
from monitor.stages import Accepted, Runtime
from monitor.storage.spool import Spool


class Door:
    """Made by the pipeline, held open to sources. `handed_over` is called after receipts were made void."""

    def __init__(
        self,
        traces: TraceIntake,
        rows: RowIntake,
        spool: Spool,
        runtime: Runtime,
        handed_over: Callable[[], None],
        *,
        verdicts: VerdictIntake | None = None,
    ) -> None:
        self._verdicts = verdicts
        self._handed_over = handed_over
        self._traces = traces
        self._rows = rows
        self._spool = spool
        self._runtime = runtime

    async def accept(self, batch: SpanBatch) -> Accepted:
        """See `stages.Intake.accept`."""
        return await self._traces.accept(batch)

    async def accept_rows(self, batch: RowBatch) -> None:
        """See `stages.Intake.accept_rows`."""
        await self._rows.accept(batch)

    async def accept_verdicts(self, batch: VerdictBatch) -> None:
        """See `stages.Intake.accept_verdicts`."""
        if self._verdicts is None:
            raise InvalidData("verdicts of others are not taken here")
        await self._verdicts.accept(batch)

    def hand_over(self, receipts: Iterable[Receipt]) -> None:
        """See `stages.Intake.hand_over`."""
        for receipt in receipts:
            receipt.make_void()
        self._handed_over()

    def reopen(self, complete: Complete) -> None:
        """Should this request come again, it is a new one."""
        if isinstance(complete, WholeTrace):
            self._traces.reopen(complete)
        elif isinstance(complete, WholeRow):
            self._rows.reopen(complete)

    async def recover(self) -> int:
        """Take up what the previous process left in the spool; returns the number of deliveries."""
        recovered = 0
        async for record, receipt, expired in self._spool.replay():
            try:
                if record.signal == "verdicts" and self._verdicts is not None:
                    self._verdicts.take_up(record, receipt, expired=expired)
                elif record.signal == "cases":
                    await self._rows.take_up(record, receipt, expired=expired)
                else:
                    self._traces.take_up(record, receipt, expired=expired)
            except InvalidData:
                self._runtime.metrics.spool_damaged.inc()
                receipt.settle()
                continue
            recovered += 1
        return recovered
