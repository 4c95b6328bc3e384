"""Ingests spans and log records: head sampling on raw bytes, the spool, then assembly.

    batch -> which traces are kept (a hash of the trace id; nothing is decoded) -> spool (durable) -> OK -> assembly

A span that is not kept costs reading 28 bytes. A kept span is fully checked before the delivery is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import anyio
import anyio.lowlevel
from prometheus_client import Counter

from monitor.errors import InvalidData, Overloaded
from monitor.extraction.feedback import telemetry
from monitor.model.ack import Ack
from monitor.model.external import ExternalScore
from monitor.model.span import Signal, SpanBatch
from monitor.pipeline.assembly import PartCounts
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.complete import WholeTrace
from monitor.pipeline.feedback.processor import FeedbackProcessor
from monitor.pipeline.in_flight import InFlight
from monitor.pipeline.ingest.head import HeadSampling, Kept, RefusedOf, Sorted, from_meta, to_meta
from monitor.pipeline.ledger import Ledger, TraceOutcome
from monitor.stages import Accepted, Runtime
from monitor.statistics import consistent_sampling
from monitor.storage.spool import Spool, SpoolRecord
from monitor.storage.spool.memory import RecentIds
from monitor.telemetry.tracing import NOTHING, Work
from monitor.transport.otlp import decode, wire

_SPAN_OUTCOMES = ("kept", "sampled_out", "duplicate", "late", "invalid", "own_telemetry", "too_large")
_TRACES_AT_ONCE = 256  # of one delivery: these take some milliseconds; thousands would hold up everything else
_RECORD_OUTCOMES = (*_SPAN_OUTCOMES, "unrelated", "external_score")


class SpanIngest:
    """Takes deliveries of spans and log records.

    `sources` are the names of all sources: their series begin at 0. `rate` is the head sampling rate, 0 to 1. Log
    records without any of `record_marks` end here. `processor` takes feedback in log records or on late spans; None
    ignores it. `seen_at_most` bounds the memory, in bytes, for the ids of traces that were not kept.
    """

    def __init__(
        self,
        *,
        sources: Iterable[str],
        rate: float,
        record_marks: Iterable[bytes],
        spool: Spool,
        assembly: Assembly,
        in_flight: InFlight,
        processor: FeedbackProcessor | None,
        ledger: Ledger,
        runtime: Runtime,
        seen_at_most: int,
    ) -> None:
        self._rate = rate
        self._meta = to_meta(rate, {})
        self._spool = spool
        self._assembly = assembly
        self._ledger = ledger
        self._runtime = runtime
        self._in_flight = in_flight
        self._processor = processor
        self._ended_at_the_door = RecentIds(seen_at_most)
        self._head = HeadSampling(assembly.is_open, assembly.shared, record_marks)
        self._children: dict[tuple[Signal, str, str], Counter] = {}
        for source in sources:
            for outcome in _SPAN_OUTCOMES:
                self._counter("traces", source, outcome)
            for outcome in _RECORD_OUTCOMES:
                self._counter("logs", source, outcome)

    async def accept(self, batch: SpanBatch) -> Accepted:
        """See `stages.Intake.accept`."""
        ack = batch.ack
        if ack is not None and self._assembly.crowded:  # closing open traces early would lose them
            raise Overloaded("open traces use half of their memory limit")
        now = self._runtime.clock.now()
        found = self._head.sort(batch, self._rate)
        payload = wire.join(found.groups) if ack is None else b""
        with self._work(batch, found):
            if payload or (found.refused and ack is None):
                meta = to_meta(self._rate, found.refused) if found.refused else self._meta
                record = SpoolRecord(batch.source, batch.signal, now, meta=meta, payload=payload)
                ack = await self._spool.append(record)
            steps = self._admit(batch, found, ack, now)
            if len(found.kept) + len(found.refused) < _TRACES_AT_ONCE:
                next(steps, None)  # one step; a cancel scope would cost as much as taking a trace
            else:
                with anyio.CancelScope(shield=True):  # a delivery in the spool is taken, even if the sender is gone
                    for _ in steps:
                        await anyio.lowlevel.checkpoint()
        rejected = found.counts.get("invalid", 0)
        return Accepted(rejected, found.fault if rejected else "")

    def drops(self, trace_id: bytes) -> bool:
        """See `stages.Intake.drops`."""
        return not consistent_sampling.keep(trace_id, "", self._rate)[0]

    @property
    def in_hand_bytes(self) -> int:
        """Memory of the complete traces that have not ended, in bytes."""
        return self._assembly.in_hand_bytes

    @property
    def full(self) -> str:
        """Why no more spans can be taken now; empty if they can."""
        return "open traces use nearly all of their memory limit" if self._assembly.full else ""

    def take_up(self, record: SpoolRecord, ack: Ack, *, expired: bool) -> None:
        """Resume a delivery that the previous process left. Raises `InvalidData` if it is not as it was written."""
        if record.signal == "cases" or record.signal == "feedback":  # noqa: PLR1714 - as the type checker follows it
            raise InvalidData(f"a delivery of {record.signal} contains no spans")
        batch = SpanBatch(record.source, record.signal, wire.split(record.payload))
        rate, refused = from_meta(record.meta)
        found = self._head.sort(batch, rate)
        found.refused.update(refused)
        if expired:
            self._shed(batch.source, found)
            ack.settle()
        else:
            for _ in self._admit(batch, found, ack, record.received_at):
                pass

    def reopen(self, trace: WholeTrace) -> None:
        """Treat parts of this closed trace that arrive from now on as a new trace."""
        self._assembly.reopen(trace.trace.trace_id)

    def _admit(self, batch: SpanBatch, found: Sorted, ack: Ack | None, received_at: float) -> Iterator[None]:
        """Count the traces and pass them to assembly.

        Each trace is handled in one step on the event loop, so that the ledger balances at every scrape. Yields after
        every few hundred traces, so that other tasks get their turn.
        """
        self._pass(batch.source, found)
        now = self._runtime.clock.monotonic()
        yield from self._take_parts(batch, found, ack, now, received_at)
        yield from self._take_refused(batch, found, ack, now, received_at)
        if found.external_scores and self._processor is not None:
            self._processor.take(found.external_scores, ack)
        if ack is not None:
            ack.settle()  # the batch's own share; each open trace holds another
        for name, number in found.counts.items():
            self._counter(batch.signal, batch.source, name).inc(number)
        if found.kept or found.refused:
            self._in_flight.parts_came()

    def _take_parts(
        self, batch: SpanBatch, found: Sorted, ack: Ack | None, now: float, received_at: float
    ) -> Iterator[None]:
        """Add the parts of each trace, and record its refused parts. See `_admit`."""
        source = batch.source
        origins: decode.Origins | None = None
        kept = ((trace_id, entry) for trace_id, entry in found.kept.items() if entry.parts)
        for number, (trace_id, entry) in enumerate(kept, 1):
            if number % _TRACES_AT_ONCE == 0:
                yield
            if found.refused and trace_id in found.refused:  # before its parts: adding these may close it to make room
                self._refuse(trace_id, found.refused[trace_id], batch, ack, now, received_at)
            added = self._assembly.add(
                trace_id,
                entry.parts,
                app=entry.app,
                source=source,
                probability=entry.probability,
                ack=ack,
                now=now,
                received_at=received_at,
            )
            if added.opened:
                self._ledger.received(entry.app, source)
            elif batch.ack is not None and not self._assembly.is_open(trace_id):
                self._in_flight.repeated(trace_id.hex(), batch.ack)
            self._count("traces", source, added.spans)
            self._count("logs", source, added.records)
            if added.spans.late and self._processor is not None:
                origins = origins or decode.Origins()
                self._processor.take(_late_scores(trace_id, entry, origins), ack)

    def _take_refused(
        self, batch: SpanBatch, found: Sorted, ack: Ack | None, now: float, received_at: float
    ) -> Iterator[None]:
        """Record the refused parts of traces that have no other parts in this delivery. See `_admit`.

        Such a trace waits for its other parts, unless open traces have little room: then it ends here.
        """
        alone = [trace_id for trace_id in found.refused if trace_id not in found.kept or not found.kept[trace_id].parts]
        for number, trace_id in enumerate(alone, 1):
            if number % _TRACES_AT_ONCE == 0:
                yield
            refused = found.refused[trace_id]
            if self._assembly.is_known(trace_id) or not self._assembly.crowded:
                self._refuse(trace_id, refused, batch, ack, now, received_at)
                if batch.ack is not None and not self._assembly.is_open(trace_id):
                    self._in_flight.repeated(trace_id.hex(), batch.ack)
            elif self._ended_at_the_door.first(trace_id):
                self._ledger.passed(refused.app, batch.source, TraceOutcome.INVALID)

    def _refuse(  # noqa: PLR0917 - as `Assembly.refuse`
        self, trace_id: bytes, refused: RefusedOf, batch: SpanBatch, ack: Ack | None, now: float, received_at: float
    ) -> None:
        """Record in the trace which of its parts were refused."""
        opened = self._assembly.refuse(
            trace_id,
            refused.parts,
            app=refused.app,
            source=batch.source,
            probability=refused.probability,
            ack=ack,
            now=now,
            received_at=received_at,
        )
        if opened:
            self._ledger.received(refused.app, batch.source)

    def _work(self, batch: SpanBatch, found: Sorted) -> Work:
        """Trace the ingestion in our own telemetry, unless the delivery is our own: that would be a feedback loop."""
        if not found.groups and not found.refused and found.counts.keys() <= {"own_telemetry"}:
            return NOTHING
        work = self._runtime.tracer.whole("receive", kind="server")
        if work.recorded:
            work.set({"rag_monitor.source": batch.source, "rag_monitor.signal": batch.signal})
            work.set({"rag_monitor.kept_traces": len(found.kept)})
            work.set({f"rag_monitor.{batch.signal}.{outcome}": number for outcome, number in found.counts.items()})
        return work

    def _pass(self, source: str, found: Sorted) -> None:
        """Count the traces that end on arrival, each once, however many deliveries it is spread over."""
        ledger, seen = self._ledger, self._ended_at_the_door
        sampled_out: dict[str, int] = {}
        for trace_id, app in found.dropped.items():
            if seen.first(trace_id):
                sampled_out[app] = sampled_out.get(app, 0) + 1
        for app, number in sampled_out.items():
            ledger.passed(app, source, TraceOutcome.SAMPLED_OUT, number)
        for trace_id, app in found.own.items():
            if trace_id not in found.kept and self._is_new(trace_id):
                ledger.passed(app, source, TraceOutcome.OWN_TELEMETRY)
        for app, number in found.unidentified.items():
            ledger.passed(app, source, TraceOutcome.INVALID, number)

    def _is_new(self, trace_id: bytes) -> bool:
        return not self._assembly.is_known(trace_id) and self._ended_at_the_door.first(trace_id)

    def _shed(self, source: str, found: Sorted) -> None:
        """Count traces that waited in the spool for longer than its retention."""
        refused = {trace_id: one.app for trace_id, one in found.refused.items()}
        for trace_id, app in (refused | {trace_id: entry.app for trace_id, entry in found.kept.items()}).items():
            if self._is_new(trace_id):
                self._ledger.passed(app, source, TraceOutcome.EXPIRED)

    def _count(self, signal: Signal, source: str, counts: PartCounts) -> None:
        for outcome, number in zip(PartCounts._fields, counts, strict=True):
            if number:
                self._counter(signal, source, outcome).inc(number)

    def _counter(self, signal: Signal, source: str, outcome: str) -> Counter:
        child = self._children.get((signal, source, outcome))
        if child is None:
            family = self._runtime.metrics.spans if signal == "traces" else self._runtime.metrics.log_records
            child = self._children[signal, source, outcome] = family.labels(source, outcome)
        return child


def _late_scores(trace_id: bytes, kept: Kept, origins: decode.Origins) -> list[ExternalScore]:
    """Read the external scores on parts of a closed trace: they still count."""
    found: list[ExternalScore] = []
    for part in kept.parts:
        if part.signal != "traces" or not any(mark in part.encoded for mark in telemetry.MARKS):
            continue  # parts without a score are not decoded
        try:
            span = decode.span(trace_id, part, origins)
        except InvalidData:
            continue  # it was checked on arrival; a score that cannot be read must not fail the delivery
        found += (replace(one, probability=kept.probability) for one in telemetry.of_late(span))
    return found
