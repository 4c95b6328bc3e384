"""Run the producer's thread, which makes all kafka-python calls that may block and handles every way a send can end.

Works around three limits of the client. It blocks while it looks up a topic: missing topics are looked up rarely and
briefly. An idempotent client fails for good at the first record that a broker refuses, and fails all records sent with
it: such a client is replaced, and a record counts as refused only once it was refused alone. Its buffer is not bounded,
so the caller bounds its own.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from monitor.clock import Clock
from monitor.errors import InvalidData, MonitorError
from monitor.telemetry.events import Events
from monitor.transport.kafka._clients import Clients, Sending
from monitor.transport.kafka.connection import KafkaConnection, describe

_AGAIN = 0.2  # seconds, after a failed send
_ALONE = 5.0  # seconds to wait for the answer to a record on its own

_REFUSALS: Final = (
    "MessageSizeTooLargeError",
    "RecordListTooLargeError",
    "InvalidRecordError",
    "InvalidTopicError",
    "InvalidTimestampError",
    "PolicyViolationError",
    "UnsupportedForMessageFormatError",
)


@dataclass(slots=True, eq=False)
class OutgoingRecord:
    """One record to be sent. `deadline` is on the monotonic clock; `trouble` is the reason of its last failure."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    deadline: float
    trouble: str = ""
    alone: bool = False

    @property
    def size(self) -> int:
        """Size in bytes."""
        sizes = (len(self.key or b""), len(self.value or b""), *(len(name) + len(text) for name, text in self.headers))
        return sum(sizes) + 64


class _Failed:
    """A failed record, as reported by the client's own thread."""

    __slots__ = ("client", "error", "record")

    def __init__(self, record: OutgoingRecord, client: Any, error: Exception) -> None:
        self.record, self.client, self.error = record, client, error


class SendingThread:
    """Sends records until stopped. Calls `ended` for each, on any thread: None, `InvalidData` or `MonitorError`."""

    def __init__(
        self,
        connection: KafkaConnection,
        sending: Sending,
        events: Events,
        clock: Clock,
        ended: Callable[[OutgoingRecord, MonitorError | None], None],
    ) -> None:
        self._clients = Clients(connection, sending, events, clock)
        self._clock = clock
        self._largest = sending.largest
        self._ended = ended
        self._inbox: queue.SimpleQueue[OutgoingRecord | _Failed | Callable[[], None] | None] = queue.SimpleQueue()
        self._later: list[tuple[float, int, OutgoingRecord]] = []
        self._number = itertools.count()
        self._client: Any = None
        self._single: Any = None
        self._doubtful: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka producer", daemon=True)
        self._thread.start()

    def send(self, record: OutgoingRecord) -> None:
        """Queue a record. Callable from any thread."""
        self._inbox.put(record)

    def ask(self, topic: str, answer: Callable[[bool], None]) -> None:
        """Call `answer`, in the thread, with whether a broker knows `topic` now; False also if there is no broker."""

        def look() -> None:
            if self._client is None:
                self._client = self._clients.connect(idempotent=True)
            answer(self._client is not None and self._clients.is_there(self._client, topic))

        self._inbox.put(look)

    def renew(self) -> None:
        """Replace a client that has been silent for too long. Callable from any thread."""
        self._drop(self._client)

    def stop(self, seconds: float) -> None:
        """Fail everything in flight and stop; block for at most `seconds`."""
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join(seconds)

    # -- the thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                item = self._inbox.get(timeout=self._until_next())
            except queue.Empty:
                item = None
            if isinstance(item, _Failed):
                self._react(item)
            elif isinstance(item, OutgoingRecord):
                self._try(item)
            elif item is not None:
                item()
            while self._later and self._later[0][0] <= self._clock.monotonic():
                self._try(heapq.heappop(self._later)[2])
        self._clients.close(self._client)
        self._clients.close(self._single)
        for record in self._left():
            self._end(record, MonitorError("the monitor is stopping"))

    def _until_next(self) -> float | None:
        return max(0.0, self._later[0][0] - self._clock.monotonic()) if self._later else None

    def _left(self) -> list[OutgoingRecord]:
        left = [record for _, _, record in self._later]
        with contextlib.suppress(queue.Empty):
            while True:
                item = self._inbox.get_nowait()
                if isinstance(item, _Failed):
                    left.append(item.record)
                elif isinstance(item, OutgoingRecord):
                    left.append(item)
        return left

    def _try(self, record: OutgoingRecord) -> None:
        try:
            self._attempt(record)
        except Exception as error:  # noqa: BLE001 - no error of the client may end this thread
            self._again(record, describe(error), _AGAIN)

    def _attempt(self, record: OutgoingRecord) -> None:
        if self._clock.monotonic() >= record.deadline:
            trouble = record.trouble or "no acknowledgement"
            self._end(record, MonitorError(f"{record.topic}: not delivered in time: {trouble}"))
        elif record.alone or record.size >= self._doubtful.get(record.topic, self._largest + 1):
            self._send_alone(record)
        else:
            self._send_with_others(record)

    def _send_with_others(self, record: OutgoingRecord) -> None:
        from kafka.errors import KafkaError, MessageSizeTooLargeError  # noqa: PLC0415 - see `Clients.connect`

        if self._client is None:
            self._client = self._clients.connect(idempotent=True)
        client = self._client
        if client is None or not self._clients.is_there(client, record.topic):
            self._wait_for(record, client)
            return
        try:
            future = client.send(record.topic, key=record.key, value=record.value, headers=record.headers)
        except (MessageSizeTooLargeError, ValueError, TypeError) as error:
            self._end(record, InvalidData(f"{record.topic}: {describe(error)}"))
        except KafkaError as error:
            self._again(record, describe(error), _AGAIN)
            self._drop(client)
        else:
            future.add_callback(lambda _: self._end(record, None))
            future.add_errback(lambda error: self._inbox.put(_Failed(record, client, error)))

    def _react(self, failed: _Failed) -> None:
        """Retry a failed record: alone if a broker refused it, and with a new client unless the error was retriable."""
        from kafka.errors import RetriableError  # noqa: PLC0415

        error, record = failed.error, failed.record
        if not isinstance(error, RetriableError):
            self._drop(failed.client)
        record.alone = record.alone or type(error).__name__ in _REFUSALS
        self._again(record, describe(error), 0.0 if record.alone else _AGAIN)

    def _send_alone(self, record: OutgoingRecord) -> None:
        """Send a record alone, because a refusal may fail others; not idempotently, so that the client survives."""
        from kafka.errors import KafkaError, MessageSizeTooLargeError  # noqa: PLC0415

        if self._single is None:
            self._single = self._clients.connect(idempotent=False)
        if self._single is None or not self._clients.is_there(self._single, record.topic):
            self._wait_for(record, self._single)
            return
        try:
            future = self._single.send(record.topic, key=record.key, value=record.value, headers=record.headers)
            future.get(timeout=min(_ALONE, max(0.1, record.deadline - self._clock.monotonic())))
        except (KafkaError, ValueError, TypeError) as error:
            if type(error).__name__ not in _REFUSALS and not isinstance(error, ValueError | TypeError):
                self._again(record, describe(error), _AGAIN)
                return
            if isinstance(error, MessageSizeTooLargeError):
                known = self._doubtful.get(record.topic, record.size)
                self._doubtful[record.topic] = min(known, record.size)
            self._end(record, InvalidData(f"{record.topic}: {describe(error)}"))
        else:
            self._end(record, None)

    def _wait_for(self, record: OutgoingRecord, client: Any) -> None:
        trouble, seconds = self._clients.missing(client, record.topic)
        self._again(record, trouble, max(_AGAIN, seconds))

    def _again(self, record: OutgoingRecord, trouble: str, seconds: float) -> None:
        record.trouble = trouble
        heapq.heappush(self._later, (self._clock.monotonic() + seconds, next(self._number), record))

    def _end(self, record: OutgoingRecord, error: MonitorError | None) -> None:
        self._ended(record, error)

    def _drop(self, client: Any) -> None:
        """Replace the client, once. Its unsent records come back as failed."""
        if client is None or client is not self._client:
            return
        self._client = None
        threading.Thread(target=self._clients.close, args=(client,), name="kafka producer ends", daemon=True).start()
