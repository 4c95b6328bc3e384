"""From assembly to the readers: what is complete, a closed trace or a row, in turn and within a bound."""

from __future__ import annotations

from collections import deque

import anyio

from monitor.assembly import Assembly
from monitor.model.trace import Closed
from monitor.pipeline.channel import Channel
from monitor.pipeline.complete import Complete, WholeTrace
from monitor.pipeline.in_hand import InHand
from monitor.stages import Runtime


class Closing:
    """Sends what is complete to `closed`; what waits there is `in_hand`."""

    def __init__(self, assembly: Assembly, closed: Channel[Complete], in_hand: InHand, runtime: Runtime) -> None:
        self._assembly = assembly
        self._closed = closed
        self._in_hand = in_hand
        self._runtime = runtime
        self._rows: deque[Complete] = deque()
        self._wake = anyio.Event()
        self._sleeps_until = 0.0

    def is_complete(self, row: Complete) -> None:
        """A row came: it has its turn among the traces that are closed."""
        self._in_hand.take(row)
        self._rows.append(row)
        self._wake.set()

    def reconsider(self) -> None:
        """Something was added to the assembly: perhaps a trace is due sooner than was thought."""
        due = self._assembly.next_due()
        if due is not None and due < self._sleeps_until:
            self._wake.set()

    async def run(self) -> None:
        """Close what is due, until cancelled. Waits while the readers are behind."""
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
