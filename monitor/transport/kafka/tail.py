"""Follow a topic without a group: its newest records first, then each new one. Every reader gets all of them.

Used for state that all replicas share. Nothing is committed, a restarted reader starts with the newest records again,
and unreadable records are skipped: unlike with a group, records may be missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.telemetry.events import Event, Events
from monitor.transport.kafka.connection import KafkaConnection, open_client, quiet_client

T = TypeVar("T")

_AT_ONCE: Final = 500
_POLL = 0.5  # seconds
_LOOK_EVERY = 30.0  # seconds between checks for new partitions and stuck ones
_AGAIN = 2.0
_POSITION, _BOOTSTRAP = 1000, 5000  # milliseconds
_STOP = 2.0
_STUCK = 3  # failures without progress, after which all existing records are skipped
_WAITING = 4  # lists of records that may wait for the event loop


@dataclass(slots=True)
class _ReadPosition(Generic[T]):
    """The position of the reader. `past` collects the records that existed at the start, `newest` of them."""

    next: dict[Any, int] = field(default_factory=dict)  # by partition, the offset to read next
    past_ends: dict[Any, int] = field(default_factory=dict)
    past: list[tuple[int, T]] | None = None
    failures: int = 0


async def follow(
    connection: KafkaConnection,
    topic: str,
    read: Callable[[bytes], T | None],
    events: Events,
    clock: Clock,
    *,
    newest: int,
) -> AsyncGenerator[list[T], None]:
    """Yield lists of the values that `read` returns for the records of `topic`.

    The first list is for the newest `newest` records (over all partitions), sorted by time; then lists of new records
    follow. `read` is called in a thread, must not raise, and returns None for records to ignore. Never ends and never
    raises: without a broker or the topic it waits.
    """
    quiet_client()
    loop = asyncio.get_running_loop()
    ready: asyncio.Queue[list[T]] = asyncio.Queue(_WAITING)
    stopped = threading.Event()

    def hand_over(found: list[T]) -> None:
        putting = asyncio.run_coroutine_threadsafe(ready.put(found), loop)
        while not stopped.is_set():
            with contextlib.suppress(NotYet):
                return putting.result(_POLL)
        putting.cancel()
        return None

    follower = _Follower(
        connection, topic, read=read, events=events, clock=clock, hand_over=hand_over, stopped=stopped, newest=newest
    )
    thread = threading.Thread(target=follower.run, name=f"kafka follow {topic}", daemon=True)
    thread.start()
    try:
        while True:
            yield await ready.get()
    finally:
        stopped.set()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(thread.join, _STOP)


class _Follower(Generic[T]):
    """The thread."""

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        *,
        read: Callable[[bytes], T | None],
        events: Events,
        clock: Clock,
        hand_over: Callable[[list[T]], None],
        stopped: threading.Event,
        newest: int,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._read = read
        self._events = events
        self._clock = clock
        self._hand_over = hand_over
        self._stopped = stopped
        self._newest = newest
        self._place: _ReadPosition[T] = _ReadPosition(past=[])
        self._told = False

    def run(self) -> None:
        """Read with one client after another, each from the position of the previous one."""
        while not self._stopped.is_set():
            before = dict(self._place.next)
            try:
                self._with_client()
            except Exception as error:  # noqa: BLE001 - a lost broker, a corrupt batch: continue with a new client
                self._place.failures = 0 if self._place.next != before else self._place.failures + 1
                self._say(type(error).__name__)
                self._stopped.wait(_AGAIN)

    def _with_client(self) -> None:
        from kafka import KafkaConsumer  # noqa: PLC0415 - a monitor without Kafka does not pay for it

        consumer = open_client(
            KafkaConsumer,
            **self._connection.client_options(),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            max_poll_records=_AT_ONCE,
            bootstrap_timeout_ms=_BOOTSTRAP,
            reconnect_backoff_max_ms=1000,
        )
        try:
            self._follow(consumer)
        finally:
            with contextlib.suppress(Exception):
                consumer.close()

    def _follow(self, consumer: Any) -> None:
        look_at = 0.0
        looked: dict[Any, tuple[int, int]] = {}  # by partition: the read position, and the end
        while not self._stopped.is_set():
            if self._clock.monotonic() >= look_at:
                ends = self._assign(consumer)
                if not ends:
                    self._say("", Event.KAFKA_TOPIC_MISSING)
                    self._stopped.wait(_AGAIN)
                    continue
                if any(looked[one][0] == self._place.next[one] < looked[one][1] for one in looked):
                    raise RuntimeError("a partition does not move")
                looked = {one: (self._place.next[one], end) for one, end in ends.items()}
                look_at = self._clock.monotonic() + _LOOK_EVERY
                self._told = False
            self._take(consumer.poll(timeout_ms=int(1000 * _POLL)), consumer)

    def _assign(self, consumer: Any) -> dict[Any, int]:
        """Assign all partitions, including new ones; return their end offsets."""
        from kafka import TopicPartition  # noqa: PLC0415

        place = self._place
        there = [TopicPartition(self._topic, number) for number in consumer.partitions_for_topic(self._topic) or ()]
        if not there:
            return {}
        ends: dict[Any, int] = consumer.end_offsets(there)
        if place.failures >= _STUCK:
            place.next, place.failures = dict(ends), 0
        fresh = [one for one in there if one not in place.next]
        if fresh:
            begins, each = consumer.beginning_offsets(fresh), -(-self._newest // len(there))
            first = place.past is not None and not place.past_ends
            for one in fresh:
                place.next[one] = max(begins[one], ends[one] - each) if first else begins[one]
            if first:
                place.past_ends = dict(ends)
        if consumer.assignment() != set(there):
            consumer.assign(there)
            for one in there:
                consumer.seek(one, place.next[one])
        return ends

    def _take(self, polled: dict[Any, list[Any]], consumer: Any) -> None:
        place, found = self._place, []
        for records in polled.values():
            for record in records:
                made = self._read(record.value) if record.value is not None else None
                if made is not None:
                    found.append((record.timestamp, made))
        for partition in polled:
            place.next[partition] = consumer.position(partition, timeout_ms=_POSITION) or place.next[partition]
            place.failures = 0
        if place.past is not None:
            place.past.extend(found)
            # By position, not by record: the last offsets of a partition may not contain records.
            at = {one: consumer.position(one, timeout_ms=_POSITION) or 0 for one in place.past_ends}
            if all(at[one] >= end for one, end in place.past_ends.items()):
                whole, place.past = sorted(place.past, key=lambda one: one[0]), None
                self._hand_over([made for _, made in whole])
        elif found:
            self._hand_over([made for _, made in found])

    def _say(self, error: str, event: Event = Event.KAFKA_UNREACHABLE) -> None:
        if not self._told:
            self._told = True
            message = "the results of other replicas cannot be read; retrying"
            self._events.warning(event, message, topic=self._topic, brokers=self._connection.address, error=error)
