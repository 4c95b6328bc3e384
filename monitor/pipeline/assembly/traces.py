"""Open traces: gathers the parts of each until it is complete, within a memory limit."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.model.ack import Ack
from monitor.model.span import Part, RefusedParts, Signal
from monitor.model.trace import Closed
from monitor.pipeline.assembly import Added, AssemblySettings, ClosedTrace, OpenTraceStatus, PartCounts
from monitor.pipeline.assembly.closed import ClosedTraces

_TRACE = 1500
"""Estimated memory of a trace besides its parts, in bytes."""

_PART = 400
"""Estimated memory of a part besides its encoded bytes: objects, table entries."""

_REFUSED = 400
"""Estimated memory of the reasons for which parts of a trace were refused, in bytes. They are few."""

_SHARED = 300
"""Estimated memory of a resource or scope besides its encoded bytes."""

_LARGE = 64
"""A trace that uses more than 1/64 of the memory limit is large."""

_NARROW = 64
"""Among up to this many candidates the largest trace is searched for; among more, all similar in size, any will do."""


@dataclass(slots=True)
class _Shared:
    """An encoded resource or scope, and the number of open traces that use it."""

    data: bytes
    traces: int = 0


@dataclass(slots=True)
class _OpenTrace:
    """An open trace. `first`, `last` (arrival of parts) and `scheduled` (closing) are monotonic times.

    `roots` counts the root spans seen, `unended` those of them that have not ended. `size` is an estimate in bytes. It
    includes `shared_size`, the size of its resources and scopes, which it may share with other traces.
    """

    trace_id: bytes
    app: str
    source: str
    probability: float
    received_at: float
    first: float
    last: float
    spans: dict[bytes, Part] = field(default_factory=dict)
    records: dict[bytes, Part] = field(default_factory=dict)
    acks: dict[Ack, None] = field(default_factory=dict)
    roots: int = 0
    unended: int = 0
    holds: dict[bytes, _Shared] = field(default_factory=dict)
    size: int = _TRACE
    shared_size: int = 0
    size_class: int = 0
    scheduled: float = float("inf")
    refused: dict[tuple[Signal, str], int] | None = None

    def close(self, reason: Closed, memory: Ack) -> ClosedTrace:
        """Return the closed trace; `memory` is settled with the acks that cover it."""
        return ClosedTrace(
            self.trace_id,
            (*self.spans.values(), *self.records.values()),
            reason,
            self.app,
            self.source,
            self.probability,
            (*self.acks, memory),
            self.received_at,
            tuple(RefusedParts(*key, number) for key, number in self.refused.items()) if self.refused else (),
        )


class Assembly:
    """All open traces. Not thread-safe; `now` is monotonic and from the same clock in every call."""

    def __init__(self, settings: AssemblySettings) -> None:
        self._grace_period, self._idle_timeout, self._max_age = (
            settings.grace_period,
            settings.idle_timeout,
            settings.max_age,
        )
        self._memory, self._largest, self._most = (
            settings.max_open_bytes,
            settings.max_trace_bytes,
            settings.max_trace_spans,
        )
        self._open: dict[bytes, _OpenTrace] = {}
        self._closed = ClosedTraces(settings.remember_closed, settings.remember_for, settings.max_closed_bytes)
        self._ready: list[ClosedTrace] = []
        self._timers: list[tuple[float, bytes]] = []
        self._by_size: list[dict[bytes, _OpenTrace]] = [{} for _ in range(64)]
        self._shared: dict[bytes, _Shared] = {}
        self._bytes = 0
        self.in_hand_bytes = 0
        """Estimated memory of the closed traces whose acks are not all settled, in bytes."""

    @property
    def open_traces(self) -> int:
        """Number of open traces."""
        return len(self._open)

    @property
    def open_bytes(self) -> int:
        """Estimated memory of the open traces, in bytes."""
        return self._bytes

    @property
    def oldest_received_at(self) -> float | None:
        """Arrival of the first part of the oldest open trace, wall clock. Slow: searches all open traces."""
        return min((trace.received_at for trace in self._open.values()), default=None)

    def is_open(self, trace_id: bytes) -> bool:
        """Return whether the trace is open."""
        return trace_id in self._open

    def look(self, trace_id: bytes) -> OpenTraceStatus | None:
        """Return the state of an open trace; None if it is not open."""
        one = self._open.get(trace_id)
        if one is None:
            return None
        counts = (len(one.spans), len(one.records))
        return OpenTraceStatus(
            one.app, one.source, one.received_at, self._due(one), *counts, bool(one.roots) and not one.unended
        )

    def is_known(self, trace_id: bytes) -> bool:
        """Return whether the trace is open, or closed and remembered: more parts then start no new trace."""
        return trace_id in self._open or trace_id in self._closed

    def add(
        self,
        trace_id: bytes,
        parts: Sequence[Part],
        *,
        app: str,
        source: str,
        probability: float,
        ack: Ack | None,
        now: float,
        received_at: float,
    ) -> Added:
        """Add parts of one trace. If any is kept, the trace takes one share of `ack`; the caller keeps its own.

        `probability` is the probability with which these parts were kept so far. Duplicate spans are recognised by id
        (an ended copy replaces an unended one), duplicate log records by their bytes. May close traces, including this
        one, to make room: `due` returns them.
        """
        trace = self._open.get(trace_id)
        opened = False
        if trace is None:
            if trace_id in self._closed:
                return _added(self._closed.count(trace_id, parts), opened=False)
            trace = _OpenTrace(trace_id, app, source, probability, received_at, now, now)
            self._open[trace_id] = trace
            self._bytes += _TRACE
            opened = True
        else:
            trace.probability = min(trace.probability, probability)
            trace.received_at = min(trace.received_at, received_at)
            trace.last = now
        counts, overflow, taken = self._take(trace, parts)
        if taken and ack is not None and ack not in trace.acks:
            trace.acks[ack.share()] = None
        if overflow is not None:
            self._close(trace, Closed.TOO_LARGE, now)
            late = self._closed.count(trace_id, parts[overflow:])
            return _added([a + b for a, b in zip(counts, late, strict=True)], opened=opened)
        size_class = trace.size.bit_length()
        if size_class != trace.size_class:
            self._by_size[trace.size_class].pop(trace_id, None)
            self._by_size[size_class][trace_id] = trace
            trace.size_class = size_class
        wait = self._grace_period if trace.roots and not trace.unended else self._idle_timeout
        due = min(now + wait, trace.first + self._max_age)
        if due < trace.scheduled:
            trace.scheduled = due
            heapq.heappush(self._timers, (due, trace_id))
        if self.full:
            self._evict(now)
        return _added(counts, opened=opened)

    def refuse(
        self,
        trace_id: bytes,
        parts: Mapping[tuple[Signal, str], int],
        *,
        app: str,
        source: str,
        probability: float,
        ack: Ack | None,
        now: float,
        received_at: float,
    ) -> bool:
        """Record how many parts of one trace were refused, by signal and reason. Return whether that opened the trace.

        Like an added part, this opens an unknown trace, takes one share of `ack`, and has no effect on a closed trace.
        """
        fields: Any = {"app": app, "source": source, "probability": probability, "ack": None}
        opened = self.add(trace_id, (), **fields, now=now, received_at=received_at).opened
        trace = self._open.get(trace_id)
        if trace is None:
            return opened
        if trace.refused is None:
            trace.refused = {}
            trace.size += _REFUSED
            self._bytes += _REFUSED
        for key, number in parts.items():
            trace.refused[key] = trace.refused.get(key, 0) + number
        if ack is not None and ack not in trace.acks:
            trace.acks[ack.share()] = None
        if self.full:
            self._evict(now)
        return opened

    def due(self, now: float) -> list[ClosedTrace]:
        """Return the traces that are closed by now and were not yet returned, in order of closing."""
        while (trace := self._next()) is not None and trace.scheduled <= now:
            self._close(trace, self._reason(trace, now), now)
        self._closed.forget(now)
        ready, self._ready = self._ready, []
        return ready

    def next_due(self) -> float | None:
        """Return the monotonic time at which `due` next returns a trace; minus infinity: now; None: nothing is open."""
        if self._ready:
            return float("-inf")
        trace = self._next()
        return None if trace is None else trace.scheduled

    def close_all(self, reason: Closed, now: float) -> list[ClosedTrace]:
        """Close every open trace for `reason`; return these and the traces that `due` would return."""
        for trace in list(self._open.values()):
            self._close(trace, reason, now)
        return self.due(now)

    def hand_over(self, now: float) -> list[ClosedTrace]:
        """Drop the traces that have a void ack and were not returned yet; further parts start a new trace."""
        for trace in [one for one in self._open.values() if any(ack.void for ack in one.acks)]:
            self._close(trace, Closed.HANDED_OVER, now)
        dropped: list[ClosedTrace] = []
        staying: list[ClosedTrace] = []
        for one in self._ready:
            (dropped if any(ack.void for ack in one.acks) else staying).append(one)
        self._ready = staying
        for one in dropped:
            self.reopen(one.trace_id)
        return dropped

    def reopen(self, trace_id: bytes) -> None:
        """Treat further parts of this closed trace as a new trace."""
        self._closed.reopen(trace_id)

    @property
    def full(self) -> bool:
        """Whether open traces are so close to their memory limit that parts of new traces should be refused."""
        return self._bytes > self._memory - self._memory // 8

    @property
    def crowded(self) -> bool:
        """Whether open traces use more than half of their memory limit, so new deliveries should wait."""
        return self._bytes > self._memory / 2

    def shared(self, data: bytes) -> bytes:
        """Return the open traces' copy of an encoded resource or scope; `data` itself if they have none."""
        known = self._shared.get(data)
        return data if known is None else known.data

    # -- taking parts

    def _take(self, trace: _OpenTrace, parts: Sequence[Part]) -> tuple[list[int], int | None, int]:
        """Add parts to the trace.

        Returns the counts (spans, then records), the index of the first part without room, and how many were taken.
        """
        counts = [0] * 8
        spans, records = trace.spans, trace.records
        size, largest = trace.size, self._largest
        before = trace.size - trace.shared_size
        room = self._most - len(spans) - len(records)
        last_resource = last_scope = own_resource = own_scope = b""
        overflow = None
        taken = 0
        for part in parts:
            signal, key, _, is_root, ended_ns, encoded, resource, scope = part
            kind = 0
            table = spans
            if signal != "traces":
                kind = 4
                table = records
                key = encoded
            known = table.get(key)
            if known is not None:
                counts[kind + 1] += 1
                if kind or not ended_ns or known.ended_ns:
                    continue
                trace.roots -= known.is_root
                trace.unended -= known.is_root
                size -= len(known.encoded) + _PART
            if resource is not last_resource or scope is not last_scope:
                last_resource, last_scope = resource, scope
                size += self._hold(trace, resource) + self._hold(trace, scope)
                own_resource, own_scope = trace.holds[resource].data, trace.holds[scope].data
            size += len(encoded) + _PART
            if known is None:
                if size > largest or not room:
                    size -= len(encoded) + _PART
                    overflow = sum(counts)
                    break
                room -= 1
                counts[kind] += 1
            taken += 1
            if own_resource is resource and own_scope is scope:
                table[key] = part
            else:
                table[key] = part._replace(resource=own_resource, scope=own_scope)
            if is_root and not kind:
                trace.roots += 1
                trace.unended += not ended_ns
        trace.size = size
        self._bytes += trace.size - trace.shared_size - before
        return counts, overflow, taken

    def _hold(self, trace: _OpenTrace, data: bytes) -> int:
        """Make a trace hold a resource or scope until it is closed. Return the bytes by which the trace grows.

        The size of every trace that holds it includes it; the total memory counts it once.
        """
        if data in trace.holds:
            return 0
        cost = len(data) + _SHARED
        shared = self._shared.get(data)
        if shared is None:
            shared = self._shared[data] = _Shared(data)
            self._bytes += cost
        shared.traces += 1
        trace.holds[shared.data] = shared
        trace.shared_size += cost
        return cost

    # -- closing

    def _due(self, trace: _OpenTrace) -> float:
        wait = self._grace_period if trace.roots and not trace.unended else self._idle_timeout
        return min(trace.last + wait, trace.first + self._max_age)

    def _next(self) -> _OpenTrace | None:
        """Return the trace that is due first. The timer of an extended trace is corrected only when it fires."""
        timers = self._timers
        if len(timers) > 2 * len(self._open) + 1024:
            timers[:] = [(trace.scheduled, trace.trace_id) for trace in self._open.values()]
            heapq.heapify(timers)
        while timers:
            scheduled, trace_id = timers[0]
            trace = self._open.get(trace_id)
            if trace is None or trace.scheduled != scheduled:
                heapq.heappop(timers)
                continue
            due = self._due(trace)
            if due <= scheduled:
                return trace
            trace.scheduled = due
            heapq.heapreplace(timers, (due, trace_id))
        return None

    def _reason(self, trace: _OpenTrace, now: float) -> Closed:
        if trace.roots and not trace.unended and trace.last + self._grace_period <= now:
            return Closed.ROOT_ENDED
        return Closed.TOO_OLD if trace.first + self._max_age <= now else Closed.IDLE

    def _close(self, trace: _OpenTrace, reason: Closed, now: float) -> None:
        del self._open[trace.trace_id]
        self._by_size[trace.size_class].pop(trace.trace_id, None)
        self._bytes -= trace.size - trace.shared_size
        for shared in trace.holds.values():
            shared.traces -= 1
            if not shared.traces:
                del self._shared[shared.data]
                self._bytes -= len(shared.data) + _SHARED
        self.in_hand_bytes += trace.size
        self._ready.append(trace.close(reason, Ack(functools.partial(self._let_go, trace.size))))
        too_large = reason is Closed.TOO_LARGE
        self._closed.remember(trace.trace_id, trace.spans, trace.records, too_large=too_large, now=now)

    def _let_go(self, size: int) -> None:
        self.in_hand_bytes -= size

    def _evict(self, now: float) -> None:
        """Close large traces while memory is nearly used up, and any traces at its limit, the largest first.

        Among very many of similar size, close any that is over half the size of the largest. Closing a small trace
        early would mean evaluating half a trace: new data waits at the senders instead (`full`).
        """
        while self.full and self._open:
            largest = next(alike for alike in reversed(self._by_size) if alike)
            if len(largest) <= _NARROW:
                trace = max(largest.values(), key=lambda one: one.size)
            else:
                trace = next(reversed(largest.values()))
            if trace.size * _LARGE < self._memory and self._bytes <= self._memory:
                return
            self._close(trace, Closed.EVICTED, now)


@functools.lru_cache(1024)
def _count(kept: int, duplicate: int, late: int, too_large: int) -> PartCounts:
    return PartCounts(kept, duplicate, late, too_large)


def _added(counts: Sequence[int], *, opened: bool) -> Added:
    return Added(_count(*counts[:4]), _count(*counts[4:]), opened)
