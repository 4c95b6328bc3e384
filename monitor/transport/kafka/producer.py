"""Send records to Kafka topics: each is awaited on the event loop, and a thread sends them in batches."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread
from prometheus_client import Counter, Histogram

from monitor.errors import InvalidData, MonitorError
from monitor.stages import Runtime
from monitor.transport.kafka._clients import Sending
from monitor.transport.kafka._sending import OutgoingRecord, SendingThread
from monitor.transport.kafka.connection import KafkaConnection, quiet_client

__all__ = ["Producer", "Sending", "open_producer"]

IN_FLIGHT_BYTES: Final = 32 * 1024**2
"""Maximum bytes of unacknowledged records; above it, callers wait."""

_FLUSH, _STOP = 5.0, 3.0  # seconds for records in flight when closing, and then for the client
_GRACE = 10.0  # seconds beyond the delivery timeout after which a silent client is replaced


class Producer:
    """Sends records, on one event loop, as many at a time as fit in `IN_FLIGHT_BYTES`."""

    def __init__(
        self, connection: KafkaConnection, sending: Sending, runtime: Runtime, topics: Iterable[str] = ()
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout = sending.delivery_timeout
        self._clock = runtime.clock
        self._stop = runtime.stop
        self._metrics = runtime.metrics
        self._series: dict[str, tuple[dict[str, Counter], Histogram]] = {}
        self._waiting: dict[OutgoingRecord, asyncio.Future[None]] = {}
        self._bytes = 0
        self._room: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._ended: deque[tuple[OutgoingRecord, MonitorError | None]] = deque()
        self._settling = False
        self._all_ended = asyncio.Event()
        for topic in topics:
            self._of(topic)
        self._thread = SendingThread(connection, sending, runtime.events, runtime.clock, self._has_ended)

    async def send(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Send a record; returns when all in-sync replicas have it.

        Raises `InvalidData` if it can never be sent: too large, or refused by a broker. Raises `MonitorError` if it was
        not acknowledged within the delivery timeout; it may still arrive. Cancelling does not take the record back.
        """
        began = self._clock.monotonic()
        outcomes, seconds = self._of(topic)
        record = OutgoingRecord(topic, key, value, list(headers), began + self._timeout)
        error: MonitorError | None = MonitorError(f"{topic}: not delivered in time: no response from the client")
        try:
            with anyio.move_on_after(self._timeout + _GRACE) as limit:
                await self._enter(record.size)
                future = self._waiting[record] = self._loop.create_future()
                self._thread.send(record)
                await future
                error = None
        except MonitorError as known:
            error = known
        if limit.cancelled_caught:
            self._thread.renew()
        if error is None:
            outcomes["delivered"].inc()
            seconds.observe(self._clock.monotonic() - began)
            return
        outcomes["refused" if isinstance(error, InvalidData) else "failed"].inc()
        raise error

    async def knows(self, topic: str) -> bool:
        """Return whether a broker knows `topic` now; False also if there is no broker. Takes at most some seconds."""
        future: asyncio.Future[bool] = self._loop.create_future()

        def settle(known: bool) -> None:
            if not future.done():
                future.set_result(known)

        def answer(known: bool) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(settle, known)

        self._thread.ask(topic, answer)
        return await future

    async def close(self) -> None:
        """Wait a few seconds for records in flight, then fail the rest."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(min(_FLUSH, self._stop.left("sinks"))):
                while self._waiting:
                    self._all_ended.clear()
                    await self._all_ended.wait()
            await anyio.to_thread.run_sync(self._thread.stop, min(_STOP, self._stop.left("connections")))
            self._settle()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(MonitorError("the monitor is stopping"))

    # -- room

    async def _enter(self, size: int) -> None:
        if not self._room and self._fits(size):
            self._bytes += size
            return
        turn = self._loop.create_future()
        self._room.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(size)
            raise

    def _leave(self, size: int) -> None:
        self._bytes -= size
        while self._room and (self._room[0][1].done() or self._fits(self._room[0][0])):
            next_size, turn = self._room.popleft()
            if not turn.done():
                self._bytes += next_size
                turn.set_result(None)

    def _fits(self, size: int) -> bool:
        return self._bytes == 0 or self._bytes + size <= IN_FLIGHT_BYTES

    # -- ended records

    def _has_ended(self, record: OutgoingRecord, error: MonitorError | None) -> None:
        """Record the end of a send, from any thread; one event-loop call serves all records that end together."""
        self._ended.append((record, error))
        if not self._settling:
            self._settling = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and no caller waits
                self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self._settling = False  # first, so that a record that ends from now on schedules another call
        while self._ended:
            record, error = self._ended.popleft()
            future = self._waiting.pop(record, None)
            if future is None:
                continue
            self._leave(record.size)
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        if not self._waiting:
            self._all_ended.set()

    def _of(self, topic: str) -> tuple[dict[str, Counter], Histogram]:
        found = self._series.get(topic)
        if found is None:
            records = self._metrics.producer_records
            outcomes = {outcome: records.labels(topic, outcome) for outcome in ("delivered", "refused", "failed")}
            found = self._series[topic] = outcomes, self._metrics.producer_seconds.labels(topic)
        return found


@asynccontextmanager
async def open_producer(
    connection: KafkaConnection, sending: Sending, runtime: Runtime, topics: Iterable[str] = ()
) -> AsyncIterator[Producer]:
    """Open a producer, whether or not a broker can be reached now. The series of `topics` exist from the start."""
    quiet_client()
    producer = Producer(connection, sending, runtime, topics)
    try:
        yield producer
    finally:
        await producer.close()
