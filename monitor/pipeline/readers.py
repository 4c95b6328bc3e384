"""From what is complete to its results: read, sorted by traffic, scored locally, and judged by whoever chose it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from monitor.errors import TooLarge
from monitor.model.case import Reading, Status
from monitor.model.outcome import Judged
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.channel import Channel
from monitor.pipeline.complete import Complete, ReadTrace
from monitor.pipeline.edges import with_facts
from monitor.pipeline.ending import Ending
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.foreign.desk import Desk
from monitor.pipeline.in_hand import InHand
from monitor.pipeline.ledger import Fate
from monitor.pipeline.noting import Notes, current
from monitor.pipeline.private import Private
from monitor.pipeline.readings import ReadingCounting
from monitor.pipeline.traffic import TrafficRules
from monitor.privacy.redaction import Redacted
from monitor.stages import Drawn, Runtime
from monitor.telemetry.events import Event
from monitor.telemetry.tracing import Work

_log = logging.getLogger(__name__)

_DELIVERING = 256  # cases whose local results may be on their way to the sinks, before reading waits for these
_LARGE = 256 * 1024  # bytes of a request that is decoded in a worker thread, so that the receivers stay quick

_FATES = {
    Status.READY: Fate.JUDGED,
    Status.NO_CONTEXT: Fate.NO_CONTEXT,
    Status.CONTENT_MISSING: Fate.CONTENT_MISSING,
    Status.FAILED_REQUEST: Fate.FAILED_REQUEST,
    Status.NOT_RAG: Fate.NOT_RAG,
    Status.INCOMPLETE: Fate.INCOMPLETE,
}


class Readers:
    """What each of several readers does, side by side, with the requests that it takes from `closed`.

    Args:
        read_trace: reads a trace; may be called in any thread.
        traffic: who counts.
        private: drops and masks for people's privacy; None: nothing.
        desk: hears the verdicts of others that a trace carries; None: nobody does.
    """

    def __init__(
        self,
        closed: Channel[Complete],
        *,
        read_trace: ReadTrace,
        traffic: TrafficRules,
        evaluation: Evaluation,
        private: Private | None,
        desk: Desk | None,
        in_hand: InHand,
        notes: Notes,
        ending: Ending,
        runtime: Runtime,
    ) -> None:
        self._closed = closed
        self._read_trace = read_trace
        self._traffic = traffic
        self._evaluation = evaluation
        self._private = private
        self._desk = desk
        self._in_hand = in_hand
        self._notes = notes
        self._ending = ending
        self._runtime = runtime
        self._tracer = runtime.tracer
        self._readings = ReadingCounting(runtime.metrics)
        self._delivering = anyio.Semaphore(_DELIVERING)

    async def run(self) -> None:
        """One reader, until cancelled: requests one after the other, their judging side by side."""
        async with anyio.create_task_group() as judging:
            while True:
                complete = await self._closed.receive()
                if complete.void:
                    self._ending.drop(complete)
                    continue
                self._in_hand.begin(complete)
                self._notes.begin(complete)
                work = self._tracer.begin("case")
                with work:
                    fate = await self._read_one(complete, work, judging)
                if fate is not None:
                    self._ending.end(complete, fate, work)

    async def _read_one(self, complete: Complete, work: Work, judging: TaskGroup) -> Fate | None:
        """Read a request and score it locally. Where it ends; None where the rest is going on in `judging`."""
        with self._tracer.part("read", {"rag_monitor.bytes": complete.size}):
            reading = self._sorted(await self._reading(complete))
        if isinstance(reading, Fate):
            return reading
        if self._private is not None and self._private.forgets(reading.case, complete.received_at):
            return Fate.FORGOTTEN
        work.about(reading.case.request_id, reading.case.span_id)
        self._readings.count(reading)
        fate = _FATES[reading.status]
        if self._desk is not None and reading.verdicts:
            await self._desk.hear(reading.verdicts, reading.case)
        if not reading.status.judgeable:
            if self._desk is not None and reading.status is not Status.NOT_RAG:
                self._desk.remember(reading.case)
            return fate
        with self._tracer.part("local evaluators"):
            redacted = await self._private.redact(reading.case) if self._private else Redacted.not_at_all(reading.case)
            local, results = await self._evaluation.score_local(redacted.seen)
        results, local = redacted.results(results), redacted.facts(local)
        known = replace(reading, case=with_facts(redacted.case, local))
        at_least = self._desk.at_least(known.case) if self._desk is not None else 0.0
        chosen = self._evaluation.judged_for(known.case, local, at_least)
        if self._desk is not None:
            self._desk.drawn(known.case, chosen)
        if results:
            await self._delivering.acquire()
        if not results and not chosen:
            return fate
        judging.start_soon(self._judge, complete, known, results, chosen, work)
        return None

    def _sorted(self, reading: Reading | Fate) -> Reading | Fate:
        """The reading in its class of traffic, noted; or where the request ends."""
        note = current()
        if isinstance(reading, Fate):
            return reading
        kept = self._traffic.sort(reading)
        if note is not None:
            note.read(kept if isinstance(kept, Reading) else reading)
            if isinstance(kept, Fate):
                note.left_out(self._traffic.left_out_by(reading.case))
        return kept

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
        self._ending.end(complete, _FATES[reading.status], work)

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
