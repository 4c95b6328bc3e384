"""The pipeline at work: from the door to the sinks, and its orderly end.

    sources -> intake -> (spool) -> assembly -> closing -> reading -> local evaluators -> judged evaluators -> sinks

A row comes whole: from the spool it goes straight to closing.

Each stage runs as a task in one group. Stopping goes in the direction of the data: the doors close, what is in hand is
finished for as long as `drain` allows, the rest stays in the spool for the next process.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread

from monitor import compose
from monitor.assembly import Assembly
from monitor.content.settings import ReadingSettings
from monitor.errors import ConfigError, TooLarge
from monitor.model.case import Reading, Status
from monitor.model.trace import Closed
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.channel import Channel
from monitor.pipeline.complete import Complete, WholeTrace
from monitor.pipeline.door import Door
from monitor.pipeline.evaluate import Evaluation, with_facts
from monitor.pipeline.intake import TraceIntake
from monitor.pipeline.ledger import Fate, Ledger
from monitor.pipeline.readings import ReadingCounting
from monitor.pipeline.row_intake import RowIntake
from monitor.pipeline.traffic import TrafficRules
from monitor.spool import Spool
from monitor.stages import Convention, Drawn, Runtime, Source, type_name
from monitor.telemetry.events import Event

_log = logging.getLogger(__name__)

_READERS = 4
_LARGE = 256 * 1024  # bytes of a request that is decoded in a worker thread, so that the receivers stay quick


class Pipeline:
    """Everything between the sources and the sinks.

    Args:
        reading: how traces are read, beyond what the conventions know.
        rate: head sampling rate, 0 to 1.
        traffic: who counts.
        closed_limit: closed traces and rows that may wait to be read; beyond that the receivers refuse.
        drain: seconds that stopping may take for what is in hand.
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
    ) -> None:
        self._sources = sources
        self._read_trace = partial(compose.read, conventions=conventions, settings=reading)
        self._assembly = assembly
        self._evaluation = evaluation
        self._traffic = traffic
        self._runtime = runtime
        self._drain = drain
        self._ledger = Ledger(runtime.metrics, evaluation.prepare)
        self._readings = ReadingCounting(runtime.metrics)
        self._closed: Channel[Complete] = Channel("closed_traces", closed_limit, runtime.metrics)
        self._rows: deque[Complete] = deque()
        self._in_hand: dict[Complete, float] = {}
        self._nothing_in_hand = anyio.Event()
        self._wake = anyio.Event()
        self._sleeps_until = 0.0
        traces = TraceIntake(
            sources={type_name(source) for source in sources},
            rate=rate,
            record_marks={mark for convention in conventions for mark in convention.record_marks},
            spool=spool,
            assembly=assembly,
            ledger=self._ledger,
            runtime=runtime,
            backlog=self._backlog,
            added=self._reconsider,
        )
        rows = RowIntake(
            rate=rate,
            spool=spool,
            ledger=self._ledger,
            runtime=runtime,
            backlog=self._backlog,
            complete=self._is_complete,
        )
        self._intake = Door(traces, rows, spool, runtime)
        metrics = runtime.metrics
        metrics.open_traces.set_function(lambda: assembly.open_traces)
        metrics.open_traces_bytes.set_function(lambda: assembly.open_bytes)
        metrics.oldest_pending.set_function(self._oldest)

    async def run(self, stop: anyio.Event, listening: Callable[[Source, str], None]) -> None:
        """Receive, judge and deliver until `stop` is set; then drain. `listening` is told each source's address."""
        with self._closed:
            async with anyio.create_task_group() as work:
                work.start_soon(self._close)
                for _ in range(_READERS):
                    work.start_soon(self._read)
                async with anyio.create_task_group() as doors:
                    for source in self._sources:
                        doors.start_soon(source.run, self._intake, self._runtime, partial(listening, source))
                    doors.start_soon(self._recover)
                    await stop.wait()
                    self._runtime.health.stopping()
                    doors.cancel_scope.cancel()
                with anyio.move_on_after(self._drain):
                    await self._idle()
                work.cancel_scope.cancel()

    async def _recover(self) -> None:
        deliveries = await self._intake.recover()
        if deliveries:
            self._runtime.events.info(
                Event.SPOOL_REPLAYED, "took up what the previous process left in the spool", deliveries=deliveries
            )

    def _backlog(self) -> str:
        return "evaluation is behind: too many complete traces wait" if self._closed.full else ""

    # -- closing

    def _is_complete(self, row: Complete) -> None:
        self._in_hand[row] = row.received_at
        self._rows.append(row)
        self._wake.set()

    def _reconsider(self) -> None:
        due = self._assembly.next_due()
        if due is not None and due < self._sleeps_until:
            self._wake.set()

    async def _close(self) -> None:
        clock = self._runtime.clock
        reasons = {reason: self._runtime.metrics.traces_closed.labels(reason.value) for reason in Closed}
        while True:
            for _ in range(len(self._rows)):  # not those that come meanwhile: traces have their turn, too
                await self._closed.send(self._rows.popleft())
            for closed in self._assembly.due(clock.monotonic()):
                reasons[closed.closed].inc()
                trace = WholeTrace.of(closed)
                self._in_hand[trace] = trace.received_at
                await self._closed.send(trace)
            if self._rows:
                continue
            due = self._assembly.next_due()
            self._sleeps_until = float("inf") if due is None else due
            self._wake = anyio.Event()
            with anyio.move_on_after(None if due is None else max(0.0, due - clock.monotonic())):
                await self._wake.wait()

    # -- reading and judging

    async def _read(self) -> None:
        async with anyio.create_task_group() as judging:
            while True:
                complete = await self._closed.receive()
                reading = await self._reading(complete)
                if isinstance(reading, Reading):
                    reading = self._traffic.sort(reading)
                if isinstance(reading, Fate):
                    self._end(complete, reading)
                    continue
                self._readings.count(reading)
                if not reading.status.judgeable:
                    self._end(complete, _FATES[reading.status])
                    continue
                local = await self._evaluation.run_local(reading.case)
                known = replace(reading, case=with_facts(reading.case, local))
                chosen = self._evaluation.judged_for(known.case, local)
                if chosen:
                    judging.start_soon(self._judge, complete, known, chosen)
                else:
                    self._end(complete, _FATES[reading.status])

    async def _judge(self, complete: Complete, reading: Reading, chosen: Sequence[tuple[Assignment, Drawn]]) -> None:
        await self._evaluation.run_judged(reading.case, chosen)
        self._end(complete, _FATES[reading.status])

    async def _reading(self, complete: Complete) -> Reading | Fate:
        """What a closed trace or a row says; where it ends if it is too large, or if reading it failed."""
        try:
            if complete.size > _LARGE:
                return await anyio.to_thread.run_sync(complete.read, self._read_trace)
            return complete.read(self._read_trace)
        except TooLarge:
            return Fate.TOO_LARGE
        except Exception as error:  # noqa: BLE001 - one request that cannot be read must not stop the others
            _log.debug("trace or row %s could not be read", complete.request_id, exc_info=error)
            self._runtime.events.error(
                Event.READING_FAILED,
                "a trace could not be read",
                trace_id=complete.request_id,
                error=type(error).__name__,
            )
            return Fate.INVALID

    def _end(self, complete: Complete, fate: Fate) -> None:
        self._ledger.ended(complete.app, complete.source, fate)
        for receipt in complete.receipts:
            receipt.settle()
        self._in_hand.pop(complete, None)
        if not self._in_hand:
            self._nothing_in_hand.set()

    # -- the end

    async def _idle(self) -> None:
        """Wait until nothing is in hand; open traces are not waited for: they are safe in the spool."""
        while self._in_hand:
            self._nothing_in_hand = anyio.Event()
            await self._nothing_in_hand.wait()

    def _oldest(self) -> float:
        candidates = [next(iter(self._in_hand.values()), None), self._assembly.oldest_received_at]
        return min((one for one in candidates if one is not None), default=0.0)


_FATES = {
    Status.READY: Fate.JUDGED,
    Status.NO_CONTEXT: Fate.NO_CONTEXT,
    Status.CONTENT_MISSING: Fate.CONTENT_MISSING,
    Status.FAILED_REQUEST: Fate.FAILED_REQUEST,
    Status.NOT_RAG: Fate.NOT_RAG,
    Status.INCOMPLETE: Fate.INCOMPLETE,
}


def first_config_error(group: BaseException) -> ConfigError | None:
    """The configuration error inside a task group's exception, if that is what ended it."""
    if isinstance(group, ConfigError):
        return group
    if isinstance(group, BaseExceptionGroup):
        with suppress(StopIteration):
            return next(found for one in group.exceptions if (found := first_config_error(one)) is not None)
    return None
