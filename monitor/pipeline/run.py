"""Runs the pipeline from the sources to the sinks, and shuts it down in order.

    sources -> ingest -> (spool) -> assembly -> in flight -> readers -> local evaluators -> judged evaluators -> publish

Rows are already complete: from the spool they go directly in flight.

Each stage runs as a task in one group. Shutdown follows the data: the sources close, requests in flight may finish
until the stop deadline, and the rest stays in the spool for the next process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import anyio

from monitor.alerts.self_alert import SelfAlertChecks
from monitor.errors import ConfigError
from monitor.errors.explanation import placed
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.feedback.processor import FeedbackProcessor
from monitor.pipeline.in_flight import InFlight
from monitor.pipeline.ingest import Ingest
from monitor.pipeline.ingest.rows import RowIngest
from monitor.pipeline.ingest.spans import SpanIngest
from monitor.pipeline.introspection.explain import OpenTrace
from monitor.pipeline.introspection.request_notes import RequestNotes
from monitor.pipeline.ledger import Ledger
from monitor.pipeline.live_evaluation import LiveEvaluation
from monitor.pipeline.local_evaluation import Workers
from monitor.pipeline.privacy import PrivacyFilter
from monitor.pipeline.read import Readers
from monitor.pipeline.traffic import TrafficRules
from monitor.stages import Convention, Runtime, Source, type_name
from monitor.storage.request_log import Recorder
from monitor.storage.spool import PoisonGuard, Spool
from monitor.telemetry.events import Event

_READERS = 4  # for each process
_TRACE_ID = 32  # hexadecimal digits


class Pipeline:
    """Everything between the sources and the sinks.

    Args:
        workers: read and evaluate locally.
        rate: head sampling rate, 0 to 1.
        traffic: decides which requests count.
        in_hand_limit: maximum memory of complete traces and rows that have not ended, in bytes; above it receivers
            refuse.
        arrivals_at_most: maximum memory of the ids of arrived traces and rows, in bytes.
        closed_limit: maximum closed traces and rows waiting to be read; above it receivers refuse.
        alerts: count received traces.
        recorder: writes the request log; None if the log is off.
        private: drops and masks personal data; by default nothing.
        processor: handles feedback; None refuses it, and ignores it in traces.
        guard: counts processes that end while reading a request; None: nothing is counted.
        when_sent: as in `Ingest`.
    """

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        conventions: Sequence[Convention],
        workers: Workers,
        assembly: Assembly,
        evaluation: LiveEvaluation,
        spool: Spool,
        runtime: Runtime,
        rate: float,
        traffic: TrafficRules,
        in_hand_limit: int,
        arrivals_at_most: int,
        closed_limit: int = 5_000,
        alerts: SelfAlertChecks | None = None,
        recorder: Recorder | None = None,
        private: PrivacyFilter | None = None,
        processor: FeedbackProcessor | None = None,
        guard: PoisonGuard | None = None,
        when_sent: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._sources = sources
        self._workers = workers
        self._assembly = assembly
        self._processor = processor
        self._runtime = runtime
        self.notes = RequestNotes(recorder, runtime)
        """Notes on the requests in progress."""
        self._ledger = Ledger(runtime.metrics, evaluation.prepare, alerts=alerts, recorder=recorder)
        self._in_flight = InFlight(assembly, self._ledger, self.notes, runtime, limit=closed_limit)
        self._readers = Readers(
            self._in_flight,
            workers=workers,
            traffic=traffic,
            evaluation=evaluation,
            private=private if private is not None else PrivacyFilter(),
            feedback=processor,
            guard=guard,
            runtime=runtime,
        )
        spans = SpanIngest(
            sources={type_name(source) for source in sources},
            rate=rate,
            record_marks={mark for convention in conventions for mark in convention.record_marks},
            spool=spool,
            assembly=assembly,
            in_flight=self._in_flight,
            processor=processor,
            ledger=self._ledger,
            runtime=runtime,
            seen_at_most=arrivals_at_most // 2,
        )
        rows = RowIngest(
            rate=rate,
            spool=spool,
            in_flight=self._in_flight,
            ledger=self._ledger,
            runtime=runtime,
            seen_at_most=arrivals_at_most // 2,
        )
        self._ingest = Ingest(
            spans,
            rows,
            processor=processor,
            in_flight=self._in_flight,
            spool=spool,
            in_hand_limit=in_hand_limit,
            runtime=runtime,
            when_sent=when_sent,
        )
        runtime.health.refusing = self._ingest.refusing
        metrics = runtime.metrics
        metrics.open_traces.set_function(lambda: assembly.open_traces)
        metrics.open_traces_bytes.set_function(lambda: assembly.open_bytes)
        metrics.oldest_pending.set_function(self._oldest)

    async def run(self, stop: anyio.Event, listening: Callable[[Source, str], None]) -> None:
        """Receive, evaluate and deliver until `stop` is set, then drain. `listening` gets each source's address."""
        with self._in_flight:
            async with anyio.create_task_group() as work:
                work.start_soon(self._in_flight.run)
                if self._processor is not None:
                    work.start_soon(self._processor.run)
                for _ in range(_READERS * max(1, self._workers.number)):
                    work.start_soon(self._readers.run)
                work.start_soon(self._workers.run, doors_open := anyio.Event())
                async with anyio.create_task_group() as doors:
                    still_closed = set(range(len(self._sources)))

                    def opened(number: int, source: Source, address: str) -> None:
                        listening(source, address)
                        still_closed.discard(number)
                        if not still_closed:
                            doors_open.set()

                    if not stop.is_set():  # else a source would join its group, or listen, only to leave at once
                        for number, source in enumerate(self._sources):
                            doors.start_soon(self._receive, number, source, partial(opened, number, source))
                        doors.start_soon(self._recover)
                    await stop.wait()
                    self._runtime.stop.begin()
                    self._runtime.health.stopping()
                    doors.cancel_scope.cancel()
                with anyio.move_on_after(self._runtime.stop.left("requests")):
                    await self._in_flight.idle()  # does not wait for open traces: they are safe where they came from
                work.cancel_scope.cancel()

    async def _receive(self, number: int, source: Source, listening: Callable[[str], None]) -> None:
        try:
            await source.run(self._ingest, self._runtime, listening)
        except ConfigError as error:
            raise ConfigError(placed(error, f"sources[{number}]", type(source).model_fields)) from None

    def open_trace(self, request_id: str) -> OpenTrace | None:
        """Return a trace that is not complete yet."""
        try:
            found = self._assembly.look(bytes.fromhex(request_id)) if len(request_id) == _TRACE_ID else None
        except ValueError:
            return None
        if found is None:
            return None
        until = self._runtime.clock.now() + max(found.due - self._runtime.clock.monotonic(), 0.0)
        counts = (found.spans, found.records)
        return OpenTrace(found.app, found.source, found.received_at, until, *counts, found.root_ended)

    def is_unread(self, request_id: str) -> bool:
        """Return whether a request is complete and waits to be read."""
        return self._in_flight.is_unread(request_id)

    @property
    def pending(self) -> int:
        """Number of requests received but not ended."""
        return self._ledger.pending

    async def _recover(self) -> None:
        deliveries = await self._ingest.recover()
        if deliveries:
            self._runtime.events.info(
                Event.SPOOL_REPLAYED,
                "resumed deliveries that the previous process left in the spool",
                deliveries=deliveries,
            )

    def _oldest(self) -> float:
        candidates = [self._in_flight.oldest_received_at, self._assembly.oldest_received_at]
        return min((one for one in candidates if one is not None), default=0.0)
