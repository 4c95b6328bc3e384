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
from anyio.abc import TaskGroup

from monitor import compose
from monitor.assembly import Assembly
from monitor.content.settings import ReadingSettings
from monitor.errors import ConfigError, TooLarge
from monitor.model.case import Reading, Status
from monitor.model.outcome import Judged
from monitor.model.trace import Closed
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.channel import Channel
from monitor.pipeline.complete import Complete, WholeTrace
from monitor.pipeline.door import Door
from monitor.pipeline.edges import with_facts
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.in_hand import InHand
from monitor.pipeline.intake import TraceIntake
from monitor.pipeline.ledger import Fate, Ledger
from monitor.pipeline.readings import ReadingCounting
from monitor.pipeline.row_intake import RowIntake
from monitor.pipeline.traffic import TrafficRules
from monitor.spool import Spool
from monitor.stages import Convention, Drawn, Runtime, Source, type_name
from monitor.telemetry.events import Event
from monitor.telemetry.tracing import NOTHING, Work

_log = logging.getLogger(__name__)

_READERS = 4
_DELIVERING = 256  # cases whose local results may be on their way to the sinks, before reading waits for these
_LARGE = 256 * 1024  # bytes of a request that is decoded in a worker thread, so that the receivers stay quick


class Pipeline:
    """Everything between the sources and the sinks.

    Args:
        reading: how traces are read, beyond what the conventions know.
        rate: head sampling rate, 0 to 1.
        traffic: who counts.
        closed_limit: closed traces and rows that may wait to be read; beyond that the receivers refuse.
        drain: seconds that stopping may take for what is in hand.
        received: is told of traces that came in: the app, as its label, and how many.
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
    ) -> None:
        self._sources = sources
        self._read_trace = partial(compose.read, conventions=conventions, settings=reading)
        self._assembly = assembly
        self._evaluation = evaluation
        self._traffic = traffic
        self._runtime = runtime
        self._tracer = runtime.tracer
        self._drain = drain
        self._ledger = Ledger(runtime.metrics, evaluation.prepare, received)
        self._readings = ReadingCounting(runtime.metrics)
        self._closed: Channel[Complete] = Channel("closed_traces", closed_limit, runtime.metrics)
        self._rows: deque[Complete] = deque()
        self._in_hand = InHand()
        self._delivering = anyio.Semaphore(_DELIVERING)
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
            repeated=self._in_hand.hold,
        )
        rows = RowIntake(
            rate=rate,
            spool=spool,
            ledger=self._ledger,
            runtime=runtime,
            backlog=self._backlog,
            complete=self._is_complete,
            repeated=self._in_hand.hold,
        )
        self._intake = Door(traces, rows, spool, runtime, self._hand_over)
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
                    await self._in_hand.idle()  # open traces are not waited for: they are safe where they came from
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
        self._in_hand.take(row)
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
            traces = []
            for closed in self._assembly.due(clock.monotonic()):
                reasons[closed.closed].inc()
                traces.append(WholeTrace.of(closed))
                self._in_hand.take(traces[-1])  # all before any waits for room: what is handed over meanwhile is known
            for trace in traces:
                await self._closed.send(trace)
            if self._rows:
                continue
            due = self._assembly.next_due()
            self._sleeps_until = float("inf") if due is None else due
            self._wake = anyio.Event()
            with anyio.move_on_after(None if due is None else max(0.0, due - clock.monotonic())):
                await self._wake.wait()

    def _hand_over(self) -> None:
        """Let go of what other processes will do: open traces at once, the others when it is their turn to be read."""
        for closed in self._assembly.hand_over(self._runtime.clock.monotonic()):
            self._runtime.metrics.traces_closed.labels(closed.closed.value).inc()
            self._drop(WholeTrace.of(closed))
        for complete in self._in_hand.void:
            self._intake.reopen(complete)

    def _drop(self, complete: Complete) -> None:
        self._ledger.ended(complete.app, complete.source, Fate.HANDED_OVER)
        self._in_hand.drop(complete)

    # -- reading and judging

    async def _read(self) -> None:
        async with anyio.create_task_group() as judging:
            while True:
                complete = await self._closed.receive()
                if complete.void:
                    self._drop(complete)
                    continue
                self._in_hand.begin(complete)
                work = self._tracer.begin("case")
                with work:
                    fate = await self._read_one(complete, work, judging)
                if fate is not None:
                    self._end(complete, fate, work)

    async def _read_one(self, complete: Complete, work: Work, judging: TaskGroup) -> Fate | None:
        """Read a request and score it locally. Where it ends; None where the rest is going on in `judging`."""
        with self._tracer.part("read", {"rag_monitor.bytes": complete.size}):
            reading = await self._reading(complete)
            if isinstance(reading, Reading):
                reading = self._traffic.sort(reading)
        if isinstance(reading, Fate):
            return reading
        work.about(reading.case.request_id, reading.case.span_id)
        self._readings.count(reading)
        fate = _FATES[reading.status]
        if not reading.status.judgeable:
            return fate
        with self._tracer.part("local evaluators"):
            local, results = await self._evaluation.score_local(reading.case)
        known = replace(reading, case=with_facts(reading.case, local))
        chosen = self._evaluation.judged_for(known.case, local)
        if results:
            await self._delivering.acquire()
        if not results and not chosen:
            return fate
        judging.start_soon(self._judge, complete, known, results, chosen, work)
        return None

    async def _judge(
        self,
        complete: Complete,
        reading: Reading,
        results: Sequence[Judged],
        chosen: Sequence[tuple[Assignment, Drawn]],
        work: Work,
    ) -> None:
        """See `results` of the local evaluators delivered, and what was chosen judged."""
        async with anyio.create_task_group() as side_by_side:
            if results:
                side_by_side.start_soon(self._deliver, results)
            await self._evaluation.run_judged(reading.case, chosen)
        self._end(complete, _FATES[reading.status], work)

    async def _deliver(self, results: Sequence[Judged]) -> None:
        try:
            await self._evaluation.deliver(results)
        finally:
            self._delivering.release()

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

    def _end(self, complete: Complete, fate: Fate, work: Work = NOTHING) -> None:
        self._ledger.ended(complete.app, complete.source, fate)
        if work.recorded:
            facts = {"rag_monitor.app": complete.app, "rag_monitor.source": complete.source}
            work.set({**facts, "rag_monitor.fate": fate.value})
            work.end()
        self._in_hand.end(complete)

    def _oldest(self) -> float:
        candidates = [self._in_hand.oldest_received_at, self._assembly.oldest_received_at]
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
