"""The pipeline at work: from the door to the sinks, and its orderly end.

    sources -> intake -> (spool) -> assembly -> closing -> reading -> local evaluators -> judged evaluators -> sinks

A row comes whole: from the spool it goes straight to closing. What waits to be closed is `Closing`'s, all that follows
the `Readers`'; here they are wired, run and stopped.

Each stage runs as a task in one group. Stopping goes in the direction of the data: the doors close, what is in hand is
finished for as long as `drain` allows, the rest stays in the spool for the next process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import anyio

from monitor import compose
from monitor.assembly import Assembly
from monitor.content.settings import ReadingSettings
from monitor.pipeline.channel import Channel
from monitor.pipeline.closing import Closing
from monitor.pipeline.complete import Complete, WholeTrace
from monitor.pipeline.door import Door
from monitor.pipeline.ending import Ending
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.foreign.desk import Desk
from monitor.pipeline.foreign.intake import VerdictIntake, reader
from monitor.pipeline.in_hand import InHand
from monitor.pipeline.intake import TraceIntake
from monitor.pipeline.ledger import Ledger
from monitor.pipeline.noting import Keeper, Notes
from monitor.pipeline.private import Private
from monitor.pipeline.readers import Readers
from monitor.pipeline.row_intake import RowIntake
from monitor.pipeline.traffic import TrafficRules
from monitor.stages import Convention, Runtime, Source, type_name
from monitor.storage.spool import Spool
from monitor.telemetry.events import Event

_READERS = 4


class Pipeline:
    """Everything between the sources and the sinks.

    Args:
        reading: how traces are read, beyond what the conventions know.
        rate: head sampling rate, 0 to 1.
        traffic: who counts.
        closed_limit: closed traces and rows that may wait to be read; beyond that the receivers refuse.
        drain: seconds that stopping may take for what is in hand.
        received: is told of traces that came in: the app, as its label, and how many.
        keeper: keeps what became of each request; by default nobody does.
        private: drops and masks for people's privacy; by default nothing.
        desk: where verdicts of others come in; without one they are refused, and those within traces not looked for.
    """

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        conventions: Sequence[Convention],
        reading: ReadingSettings,
        assembly: Assembly,
        evaluation: Evaluation,
        spool: Spool,
        runtime: Runtime,
        rate: float,
        traffic: TrafficRules,
        closed_limit: int = 5_000,
        drain: float = 6.0,
        received: Callable[[str, int], None] = lambda _app, _traces: None,
        keeper: Keeper | None = None,
        private: Private | None = None,
        desk: Desk | None = None,
    ) -> None:
        self._desk = desk
        self._sources = sources
        self._assembly = assembly
        self._runtime = runtime
        self._drain = drain
        self.notes = Notes(keeper, runtime.clock, runtime.metrics.app)
        """What is known of the requests that are being worked on."""
        self._ledger = Ledger(runtime.metrics, evaluation.prepare, received, self.notes.counted)
        self._closed: Channel[Complete] = Channel("closed_traces", closed_limit, runtime.metrics)
        self._in_hand = InHand()
        self._ending = Ending(self._ledger, self.notes, self._in_hand)
        self._closing = Closing(assembly, self._closed, self._in_hand, runtime)
        self._readers = Readers(
            self._closed,
            read_trace=reader(partial(compose.read, conventions=conventions, settings=reading), desk),
            traffic=traffic,
            evaluation=evaluation,
            private=private,
            desk=desk,
            in_hand=self._in_hand,
            notes=self.notes,
            ending=self._ending,
            runtime=runtime,
        )
        traces = TraceIntake(
            sources={type_name(source) for source in sources},
            rate=rate,
            record_marks={mark for convention in conventions for mark in convention.record_marks},
            spool=spool,
            assembly=assembly,
            ledger=self._ledger,
            runtime=runtime,
            backlog=self._backlog,
            added=self._closing.reconsider,
            repeated=self._in_hand.hold,
            verdicts=desk.take if desk is not None else None,
        )
        rows = RowIntake(
            rate=rate,
            spool=spool,
            ledger=self._ledger,
            runtime=runtime,
            backlog=self._backlog,
            complete=self._closing.is_complete,
            repeated=self._in_hand.hold,
        )
        verdicts = VerdictIntake(desk, spool, runtime) if desk is not None else None
        self._intake = Door(traces, rows, spool, runtime, self._hand_over, verdicts=verdicts)
        metrics = runtime.metrics
        metrics.open_traces.set_function(lambda: assembly.open_traces)
        metrics.open_traces_bytes.set_function(lambda: assembly.open_bytes)
        metrics.oldest_pending.set_function(self._oldest)

    async def run(self, stop: anyio.Event, listening: Callable[[Source, str], None]) -> None:
        """Receive, judge and deliver until `stop` is set; then drain. `listening` is told each source's address."""
        with self._closed:
            async with anyio.create_task_group() as work:
                work.start_soon(self._closing.run)
                if self._desk is not None:
                    work.start_soon(self._desk.run)
                for _ in range(_READERS):
                    work.start_soon(self._readers.run)
                async with anyio.create_task_group() as doors:
                    for source in self._sources:
                        doors.start_soon(source.run, self._intake, self._runtime, partial(listening, source))
                    doors.start_soon(self._recover)
                    await stop.wait()
                    self._runtime.health.stopping()
                    doors.cancel_scope.cancel()
                with anyio.move_on_after(self._drain):
                    await self._in_hand.idle()  # open traces are not waited for: they are safe where they came from
                work.cancel_scope.cancel()

    def is_unread(self, request_id: str) -> bool:
        """Whether a request is complete and waits to be read."""
        return self._in_hand.is_unread(request_id)

    @property
    def pending(self) -> int:
        """Requests that came in and have not ended."""
        return self._ledger.pending

    async def _recover(self) -> None:
        deliveries = await self._intake.recover()
        if deliveries:
            self._runtime.events.info(
                Event.SPOOL_REPLAYED, "took up what the previous process left in the spool", deliveries=deliveries
            )

    def _backlog(self) -> str:
        if self._closed.full:
            return "evaluation is behind: too many complete traces wait"
        return self._desk.backlog if self._desk is not None else ""

    def _hand_over(self) -> None:
        """Let go of what other processes will do: open traces at once, the others when it is their turn to be read."""
        for closed in self._assembly.hand_over(self._runtime.clock.monotonic()):
            self._runtime.metrics.traces_closed.labels(closed.closed.value).inc()
            self._ending.drop(WholeTrace.of(closed))
        for complete in self._in_hand.void:
            self._intake.reopen(complete)

    def _oldest(self) -> float:
        candidates = [self._in_hand.oldest_received_at, self._assembly.oldest_received_at]
        return min((one for one in candidates if one is not None), default=0.0)
