"""The door: head sampling on raw bytes, the spool, then assembly.

    batch -> which traces are kept (a hash of the trace id; nothing is decoded) -> spool (durable) -> OK -> assembly

What is not kept costs a look at 28 bytes a span. What is kept is checked in full before the sender hears that all is
well.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from prometheus_client import Counter

from monitor.assembly import Assembly, Counts
from monitor.errors import InvalidData, Overloaded
from monitor.model.receipt import Receipt
from monitor.model.span import EncodedGroup, Part, Signal, SpanBatch
from monitor.otlp import decode, wire
from monitor.pipeline.ledger import Fate, Ledger
from monitor.samplers import _consistent
from monitor.spool import Record, Spool
from monitor.stages import Accepted, Runtime

SELF = "rag-monitor"
"""Our own service name: what carries it is never judged."""

_GENAI_MARKS = (b"gen_ai",)
"""A log record without one of these is an ordinary application log and of no use here."""


class _Seen:
    """Which trace ids were seen lately: two generations of at most `limit` each, so that memory is bounded."""

    def __init__(self, limit: int = 200_000) -> None:
        self._limit = limit
        self._new: set[bytes] = set()
        self._old: set[bytes] = set()

    def first(self, trace_id: bytes) -> bool:
        """Whether this is the first sight of `trace_id`; from now on it is not."""
        if trace_id in self._new:
            return False
        known = trace_id in self._old
        if len(self._new) >= self._limit:
            self._old, self._new = self._new, set()
        self._new.add(trace_id)
        return not known


class _Kept(NamedTuple):
    """The parts of one trace in one batch."""

    parts: list[Part]
    app: str
    probability: float


class _Sorted(NamedTuple):
    """A batch after head sampling: what is kept; by trace id and app, what is sampled out and what is our own."""

    groups: list[EncodedGroup]
    kept: dict[bytes, _Kept]
    dropped: dict[bytes, str]
    own: dict[bytes, str]
    unidentified: dict[str, int]
    counts: dict[str, int]
    fault: str


class _Service(NamedTuple):
    app: str
    is_self: bool


class TraceIntake:
    """The `Intake` that sources see.

    Args:
        rate: the head sampling rate, 0 <= rate <= 1.
        backlog: says why nothing more can be taken now, or an empty string.
        added: called after traces were handed to assembly, so that its timer can be set anew.
    """

    def __init__(
        self,
        *,
        rate: float,
        spool: Spool,
        assembly: Assembly,
        ledger: Ledger,
        runtime: Runtime,
        backlog: Callable[[], str],
        added: Callable[[], None],
    ) -> None:
        self._rate = rate
        self._spool = spool
        self._assembly = assembly
        self._ledger = ledger
        self._runtime = runtime
        self._backlog = backlog
        self._added = added
        self._ended_at_the_door = _Seen()
        self._services: dict[tuple[bytes, bytes], _Service] = {}
        self._children: dict[tuple[Signal, str, str], Counter] = {}

    async def accept(self, batch: SpanBatch) -> Accepted:
        """See `stages.Intake.accept`."""
        full = self._backlog()
        if full:
            raise Overloaded(full)
        now = self._runtime.clock.now()
        found = self._sort(batch, self._rate)
        receipt = None
        if found.groups:
            meta = json.dumps({"rate": self._rate}).encode()
            record = Record(batch.source, batch.signal, now, meta=meta, payload=wire.join(found.groups))
            receipt = await self._spool.append(record)
        self._admit(batch, found, receipt, now)
        rejected = found.counts.get("invalid", 0)
        return Accepted(rejected, found.fault if rejected else "")

    async def recover(self) -> int:
        """Take up what the previous process left in the spool; returns the number of deliveries."""
        recovered = 0
        async for record, receipt, expired in self._spool.replay():
            try:
                batch = SpanBatch(record.source, record.signal, wire.split(record.payload))
                found = self._sort(batch, float(json.loads(record.meta)["rate"]))
            except (InvalidData, ValueError, KeyError, TypeError):
                self._runtime.metrics.spool_damaged.inc()
                receipt.settle()
                continue
            if expired:
                self._shed(batch.source, found)
                receipt.settle()
            else:
                self._admit(batch, found, receipt, record.received_at)
            recovered += 1
        return recovered

    def _sort(self, batch: SpanBatch, rate: float) -> _Sorted:
        found = _Sorted([], {}, {}, {}, {}, {}, "")
        sort = self._sort_spans if batch.signal == "traces" else self._sort_records
        fault = ""
        for group in batch.groups:
            service = self._service(group.resource, group.scope)
            if service.is_self:
                self._sort_self(batch.signal, group, service.app, found)
            else:
                fault = sort(group, service.app, rate, found) or fault
        return found._replace(fault=fault)

    def _sort_spans(self, group: EncodedGroup, app: str, rate: float, found: _Sorted) -> str:
        items = group.items
        resource, scope = self._assembly.intern(group.resource), self._assembly.intern(group.scope)
        kept, dropped, counts = found.kept, found.dropped, found.counts
        mine: list[bytes] = []
        fault = ""
        sampled_out = 0
        for item in items:
            trace_id = wire.trace_id_of(item)
            if trace_id in dropped:
                sampled_out += 1
                continue
            if not trace_id:
                fault = "a trace id must be 16 bytes and not all zero"
                counts["invalid"] = counts.get("invalid", 0) + 1
                found.unidentified[app] = found.unidentified.get(app, 0) + 1
                continue
            entry = kept.get(trace_id)
            if entry is None:
                chosen, probability = _consistent.keep(trace_id, wire.trace_state_of(item), rate)
                if not chosen:
                    dropped[trace_id] = app
                    sampled_out += 1
                    continue
                entry = kept[trace_id] = _Kept([], app, probability)
            try:
                entry.parts.append(wire.span_part(item, resource, scope))
            except InvalidData as error:
                fault = str(error)
                counts["invalid"] = counts.get("invalid", 0) + 1
                continue
            mine.append(item)
        if sampled_out:
            counts["sampled_out"] = counts.get("sampled_out", 0) + sampled_out
        if mine:
            found.groups.append(EncodedGroup(resource, scope, mine))
        return fault

    def _sort_records(self, group: EncodedGroup, app: str, rate: float, found: _Sorted) -> str:
        items = group.items
        resource, scope = self._assembly.intern(group.resource), self._assembly.intern(group.scope)
        counts = found.counts
        mine: list[bytes] = []
        fault = ""
        for item in items:
            fate = "kept"
            if not any(mark in item for mark in _GENAI_MARKS):
                fate = "unrelated"
            else:
                try:
                    trace_id, part = wire.record_part(item, resource, scope)
                except InvalidData as error:
                    fault, fate = str(error), "invalid"
                else:
                    fate = self._keep_record(trace_id, part, app, rate, found)
            if fate == "kept":
                mine.append(item)
            else:
                counts[fate] = counts.get(fate, 0) + 1
        if mine:
            found.groups.append(EncodedGroup(resource, scope, mine))
        return fault

    def _keep_record(self, trace_id: bytes, part: Part, app: str, rate: float, found: _Sorted) -> str:
        """A record carries no tracestate: it follows its trace where that is open already, else the hash decides."""
        if not trace_id:
            return "unrelated"
        chosen, _ = _consistent.keep(trace_id, "", rate)
        if not (chosen or self._assembly.is_open(trace_id)):
            return "sampled_out"
        entry = found.kept.get(trace_id)
        if entry is None:
            entry = found.kept[trace_id] = _Kept([], app, 1.0 if rate == 0 else rate)
        entry.parts.append(part)
        return "kept"

    def _sort_self(self, signal: Signal, group: EncodedGroup, app: str, found: _Sorted) -> None:
        found.counts["self"] = found.counts.get("self", 0) + len(group.items)
        if signal == "traces":
            for item in group.items:
                trace_id = wire.trace_id_of(item)
                if trace_id:
                    found.own[trace_id] = app

    def _admit(self, batch: SpanBatch, found: _Sorted, receipt: Receipt | None, received_at: float) -> None:
        """Count, and hand to assembly. One step on the event loop, so that the ledger balances at every scrape."""
        source = batch.source
        self._pass(source, found)
        now = self._runtime.clock.monotonic()
        for trace_id, entry in found.kept.items():
            if not entry.parts:
                continue
            added = self._assembly.add(
                trace_id,
                entry.parts,
                app=entry.app,
                source=source,
                probability=entry.probability,
                receipt=receipt,
                now=now,
                received_at=received_at,
            )
            if added.opened:
                self._ledger.received(entry.app, source)
            self._count("traces", source, added.spans)
            self._count("logs", source, added.records)
        if receipt is not None:
            receipt.settle()  # the batch's own share; each open trace holds another
        for name, number in found.counts.items():
            self._counter(batch.signal, source, name).inc(number)
        if found.kept:
            self._added()

    def _pass(self, source: str, found: _Sorted) -> None:
        """Count the traces that end at the door, each once however many requests it is spread over."""
        ledger, seen = self._ledger, self._ended_at_the_door
        for trace_id, app in found.dropped.items():
            if seen.first(trace_id):
                ledger.passed(app, source, Fate.SAMPLED_OUT)
        for trace_id, app in found.own.items():
            if trace_id not in found.kept and self._is_new(trace_id):
                ledger.passed(app, source, Fate.SELF)
        for trace_id, entry in found.kept.items():
            if not entry.parts and self._is_new(trace_id):
                ledger.passed(entry.app, source, Fate.INVALID)
        for app, number in found.unidentified.items():
            ledger.passed(app, source, Fate.INVALID, number)

    def _is_new(self, trace_id: bytes) -> bool:
        return not self._assembly.is_known(trace_id) and self._ended_at_the_door.first(trace_id)

    def _shed(self, source: str, found: _Sorted) -> None:
        """Count traces that waited in the spool for longer than they are kept."""
        for trace_id, entry in found.kept.items():
            if self._is_new(trace_id):
                self._ledger.passed(entry.app, source, Fate.SHED)

    def _count(self, signal: Signal, source: str, counts: Counts) -> None:
        for fate, number in zip(Counts._fields, counts, strict=True):
            if number:
                self._counter(signal, source, fate).inc(number)

    def _counter(self, signal: Signal, source: str, fate: str) -> Counter:
        child = self._children.get((signal, source, fate))
        if child is None:
            family = self._runtime.metrics.spans if signal == "traces" else self._runtime.metrics.log_records
            child = self._children[signal, source, fate] = family.labels(source, fate)
        return child

    def _service(self, resource: bytes, scope: bytes) -> _Service:
        """Who sent a group; decoded once per distinct resource and scope."""
        key = (resource, scope)
        known = self._services.get(key)
        if known is None:
            if len(self._services) >= 4096:  # noqa: PLR2004 - a bound, in case resources carry something that changes
                self._services.clear()
            app = decode.service_name(resource)
            known = self._services[key] = _Service(app, app == SELF or SELF.encode() in scope)
        return known
