"""Requests in flight: complete, but not yet ended.

    closed traces, rows -> queue -> begin_next -> end
                             └────> drop (another replica receives the request again)

A request enters with its acks and leaves in one place, where it is counted, recorded and acknowledged, in this order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import anyio

from monitor.model.ack import Ack
from monitor.model.case import Reading, TraceReading
from monitor.model.trace import Closed
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.complete import Complete, WholeRow, WholeTrace
from monitor.pipeline.introspection.request_notes import RequestNote, RequestNotes
from monitor.pipeline.ledger import Ledger, RequestOutcome, TraceOutcome
from monitor.stages import Runtime
from monitor.telemetry.tracing import NOTHING, Work

_QUEUE: Final = "closed_traces"


@dataclass(frozen=True, slots=True, eq=False)
class OpenRequest:
    """A request that was read and has not ended; it is `alone` unless `complete` contains several requests."""

    complete: Complete
    reading: Reading
    note: RequestNote | None
    work: Work
    alone: bool


class InFlight:
    """Every request from when it is complete until it ends. It is unread until `begin_next` returns it.

    At most `limit` requests wait to be read; beyond that, `backlog` says so and closed traces wait.
    """

    def __init__(
        self, assembly: Assembly, ledger: Ledger, notes: RequestNotes, runtime: Runtime, *, limit: int
    ) -> None:
        self._assembly = assembly
        self._ledger = ledger
        self._notes = notes
        self._runtime = runtime
        self._limit = limit
        self._put, self._take = anyio.create_memory_object_stream[Complete](limit)
        self._rows: deque[Complete] = deque()
        self._all: dict[Complete, RequestNote | None] = {}
        self._unread: dict[Complete, None] = {}
        self._open: dict[Complete, int] = {}  # number of its requests that have not ended
        self._repeats: dict[str, list[Ack]] = {}
        self._given_up: set[Complete] = set()
        self._wake = anyio.Event()
        self._sleeps_until = 0.0
        self._empty = anyio.Event()
        self.reopen: Callable[[Complete], None] = lambda _complete: None
        """Called to make the next arrival under this id a new request."""
        runtime.metrics.queue_items.labels(_QUEUE).set_function(lambda: self._waiting)
        runtime.metrics.queue_limit.labels(_QUEUE).set(limit)

    # -- in

    @property
    def backlog(self) -> str:
        """Why no more requests can be accepted now; empty if they can."""
        return "evaluation is behind: too many complete traces wait" if self._waiting >= self._limit else ""

    def add(self, row: WholeRow) -> None:
        """Take a row: it waits its turn among the closed traces."""
        self._enter(row)
        self._rows.append(row)
        self._wake.set()

    def parts_came(self) -> None:
        """Recalculate when the next trace is due, because parts were added to the assembly."""
        due = self._assembly.next_due()
        if due is not None and due < self._sleeps_until:
            self._wake.set()

    def repeated(self, request_id: str, ack: Ack) -> None:
        """Make a delivery that repeats a request wait for that request's end, if it is being worked on."""
        repeats = self._repeats.get(request_id)
        if repeats is not None:
            repeats.append(ack.share())

    async def run(self) -> None:
        """Close traces that are due, until cancelled. Waits while the readers are behind."""
        clock = self._runtime.clock
        reasons = {reason: self._runtime.metrics.traces_closed.labels(reason.value) for reason in Closed}
        while True:
            self._wake = anyio.Event()  # before looking, so that arrivals during the waits below are not missed
            began, now = anyio.current_time(), clock.monotonic()
            closing = [self._rows.popleft() for _ in range(len(self._rows))]
            for closed in self._assembly.due(now):
                reasons[closed.closed].inc()
                closing.append(WholeTrace.of(closed))
                self._enter(closing[-1])  # all of them before any waits for room, so that a handover finds them
            for complete in closing:
                await self._put.send(complete)
            self._sleeps_until = due if (due := self._assembly.next_due()) is not None else float("inf")
            with anyio.CancelScope(deadline=began + self._sleeps_until - now):
                await self._wake.wait()

    # -- out

    async def begin_next(self) -> Complete:
        """Return the oldest unread request; waits while there is none. From now on it is counted here, even if void.

        Begins its note in the calling task.
        """
        while (complete := await self._take.receive()).void:
            self._drop(complete)
        del self._unread[complete]
        self._repeats.setdefault(complete.request_id, [])
        self._all[complete] = self._notes.begin(complete.record(self._runtime.clock.now()))
        return complete

    def read(self, complete: Complete, found: TraceReading, work: Work = NOTHING) -> list[OpenRequest]:
        """Begin the requests found in `complete`, at least one; `complete` ends with the last of them."""
        cases = [one.case for one in found.readings]
        for case in cases:
            self._ledger.found(case.app, complete.source, 1)
        if found.left_out:
            self._ledger.found(cases[0].app, complete.source, 0, found.left_out)  # their own apps were not read
        self._open[complete] = len(cases)
        notes = self._notes.divide(self._all[complete], cases)
        work.set({"rag_monitor.requests": len(found.readings)})
        alone = len(notes) == 1
        return [OpenRequest(complete, one, note, work, alone) for one, note in zip(found.readings, notes, strict=True)]

    def end_request(self, one: OpenRequest, outcome: RequestOutcome) -> None:
        """End a request that was read; the last request of a trace ends the trace too."""
        complete = one.complete
        self._ledger.request_ended(one.reading.case.app, complete.source, outcome)
        self._notes.end(one.note, outcome)
        self._open[complete] -= 1
        if not self._open[complete]:
            del self._open[complete]
            self._end(complete, TraceOutcome.READ, one.work, shown=outcome.value if one.alone else "")

    def end(self, complete: Complete, outcome: TraceOutcome, work: Work = NOTHING) -> None:
        """End a begun trace or row without requests, the deliveries that repeat it, and `work`, our own trace."""
        self._notes.end(self._all[complete], outcome)
        self._end(complete, outcome, work)

    def _end(self, complete: Complete, outcome: TraceOutcome, work: Work, *, shown: str = "") -> None:
        self._ledger.ended(complete.app, complete.source, outcome)
        if work.recorded:
            facts = {"rag_monitor.app": complete.app, "rag_monitor.source": complete.source}
            work.set({**facts, "rag_monitor.outcome": shown or outcome.value})
            work.end()
        if complete in self._given_up:
            self._given_up.remove(complete)
            self._settle(complete, [])  # deliveries that repeat it now belong to the new request
        else:
            self._settle(complete, self._repeats.pop(complete.request_id, []))

    def hand_over(self) -> list[Complete]:
        """Give up requests that another process now handles: open traces at once, unread requests at their turn.

        Returns the unread requests; if one of them arrives again, it is a new request.
        """
        for closed in self._assembly.hand_over(self._runtime.clock.monotonic()):
            self._runtime.metrics.traces_closed.labels(closed.closed.value).inc()
            self._drop(WholeTrace.of(closed))
        return [complete for complete in self._unread if complete.void]

    def give_up(self, one: OpenRequest) -> bool:
        """Return whether another process evaluates a request begun here, so that no more evaluations need to start.

        If so, and the request arrives again, it is a new request. A request that has already come back is finished
        here: its new delivery waits for that.
        """
        complete = one.complete
        if complete in self._given_up:
            return True
        if not complete.void or not all(ack.void for ack in self._repeats.get(complete.request_id, ())):
            return False
        self._given_up.add(complete)
        for ack in self._repeats.pop(complete.request_id, ()):
            ack.settle()
        self.reopen(complete)
        return True

    # -- status

    @property
    def oldest_received_at(self) -> float | None:
        """Arrival of the first part of the oldest request, in seconds since the epoch; None if there is none."""
        oldest = next(iter(self._all), None)
        return None if oldest is None else oldest.received_at

    def is_unread(self, request_id: str) -> bool:
        """Return whether a request is complete and waits to be read. Slow: searches all unread requests."""
        return any(complete.request_id == request_id for complete in self._unread)

    async def idle(self) -> None:
        """Wait until nothing is in flight."""
        while self._all:
            self._empty = anyio.Event()
            await self._empty.wait()

    def __enter__(self) -> Self:
        """Open the queue for as long as the context lasts."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close both ends of the queue."""
        self._put.close()
        self._take.close()

    # -- within

    @property
    def _waiting(self) -> int:
        return self._put.statistics().current_buffer_used

    def _enter(self, complete: Complete) -> None:
        self._all[complete] = None
        self._unread[complete] = None

    def _drop(self, complete: Complete) -> None:
        """End a request that was not begun here and that another process receives again."""
        self._ledger.ended(complete.app, complete.source, TraceOutcome.HANDED_OVER)
        self._notes.drop(complete.record(self._runtime.clock.now()), TraceOutcome.HANDED_OVER)
        self._unread.pop(complete, None)
        self._settle(complete, [])

    def _settle(self, complete: Complete, repeats: list[Ack]) -> None:
        for ack in (*complete.acks, *repeats):
            ack.settle()
        self._all.pop(complete, None)
        if not self._all:
            self._empty.set()
