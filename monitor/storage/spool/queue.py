"""The spool as the pipeline sees it: many waiting tasks share one transaction, and with it one sync of the disk.

A commit begins when the previous one is done, and includes every record that arrived in the meantime: with one sender a
record waits for one sync, and so do a thousand records of a thousand senders. The database has a thread of its own; the
event loop never waits for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple, TypeVar

import anyio

from monitor.clock import Clock
from monitor.errors import MonitorError, Overloaded, TooLarge
from monitor.model.ack import Ack
from monitor.storage.spool.memory import MAX_RESULT_IDS, FirstDraws, RecentIds
from monitor.storage.spool.store import Batch, SpoolDatabase, StoreFailed
from monitor.storage.spool.table import Room, SpoolRecord
from monitor.telemetry.events import Event, Events
from monitor.telemetry.metrics import Metrics

_OVERHEAD = 256
"""Bytes of a record in addition to its payload."""

_COMMIT_BYTES = 8 * 1024 * 1024
_DELETES, _DELETES_IN_TROUBLE = 512, 16
"""Deletions in one commit; few while the disk is full: a small commit may succeed, and makes room for the next."""

_IDLE = 0.5
"""Seconds until deletions are written if no record arrives; also the pause between attempts after an error."""

_SAY_AGAIN = 30.0

T = TypeVar("T")


class Replayed(NamedTuple):
    """A record that the previous process left. `expired`: it is too old; count it and settle it, do not process it."""

    record: SpoolRecord
    ack: Ack
    expired: bool


class _WaitingWrite:
    __slots__ = ("future", "record", "size")

    def __init__(self, record: SpoolRecord, size: int, future: asyncio.Future[int]) -> None:
        self.record = record
        self.size = size
        self.future = future


class Spool:
    """The durable queue, made by `open_spool`. Use it, and its acks, on the event loop that made it.

    `waiting_at_most` bounds the bytes that wait in memory for their commit: a disk that hangs must not fill the memory.
    `results_at_most` and `draws_at_most` bound the bytes of what is remembered in memory.
    """

    def __init__(
        self,
        store: SpoolDatabase,
        thread: ThreadPoolExecutor,
        *,
        at_most: int,
        keep: float,
        waiting_at_most: int,
        results_at_most: int,
        draws_at_most: int,
        clock: Clock,
        metrics: Metrics,
        events: Events,
    ) -> None:
        self._waiting_at_most = waiting_at_most
        self._store = store
        self._thread = thread
        self._at_most = at_most
        self._keep = keep
        self._clock = clock
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._bytes_gauge = metrics.spool_bytes
        self._rows_gauge = metrics.spool_rows
        self._failing_gauge = metrics.database_failing.labels("spool")
        self._appends: deque[_WaitingWrite] = deque()
        self._waiting_bytes = 0
        self._deletes: list[int] = []
        self._remembers: deque[str] = deque(maxlen=MAX_RESULT_IDS)
        self._known = RecentIds(results_at_most, MAX_RESULT_IDS)
        self.draws = FirstDraws(self._write_soon, draws_at_most)
        """The first probability of each case."""
        self._room = Room(0, disk_has_room=True)
        self._rows = 0
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loaded = False
        self._closing = False
        self._trouble = ""
        self._said: dict[tuple[Event, bool], float] = {}

    async def append(self, record: SpoolRecord) -> Ack:
        """Store a record; returns when it is on disk. Settling the ack deletes it.

        Raises `Overloaded` while there is no room or the disk fails; `TooLarge` if it would not fit into an empty
        spool. If the caller is cancelled, the record is not kept.
        """
        size = len(record.payload) + len(record.meta) + _OVERHEAD
        if size > self._at_most:
            raise TooLarge(f"a delivery of {size} bytes does not fit into a spool of {self._at_most}")
        if self._closing:
            raise Overloaded("the spool is closing")
        if self._room.used + self._waiting_bytes + size > self._at_most:
            self._refuse(f"the spool is full: {self._room.used} of {self._at_most} bytes")
        if not self._room.disk_has_room:
            self._refuse("the disk that the spool is on is nearly full")
        if self._waiting_bytes + size > self._waiting_at_most and self._waiting_bytes:
            self._refuse(f"{self._waiting_bytes} bytes are waiting for the disk")
        waiting = _WaitingWrite(record, size, self._loop.create_future())
        self._appends.append(waiting)
        self._waiting_bytes += size
        self._wake.set()
        try:
            number = await waiting.future
        except asyncio.CancelledError:
            if not waiting.future.cancelled() and not waiting.future.exception():
                self._delete(waiting.future.result())  # committed at the moment of the cancellation
            raise
        return Ack(partial(self._delete, number))

    async def replay(self) -> AsyncIterator[Replayed]:
        """Yield the records that the previous process left, oldest first. Run it once.

        Other records may be appended in the meantime. While the disk cannot be read, it waits and retries.
        """
        after = 0
        counted = False
        while True:
            try:
                if not self._loaded:
                    await self._load()
                if not counted:
                    left = await self._in_thread(self._store.count_left)
                    self._rows += left  # not in one statement with the await: commits change the count during the wait
                    self._rows_gauge.set(self._rows)
                    counted = True
                found = await self._in_thread(partial(self._store.read, after))
            except StoreFailed as failed:
                self._say(Event.SPOOL_FAILED, f"the spool cannot be read back: {failed}")
                await asyncio.sleep(_IDLE)
                continue
            if not found:
                return
            for number, record in found:
                expired = self._clock.now() - record.received_at > self._keep
                yield Replayed(record, Ack(partial(self._delete, number)), expired)
            after = found[-1][0]

    def remember(self, ids: Iterable[str]) -> None:
        """Remember that these results have reached the sinks. Written soon, and before any deletion settled later."""
        self._remembers.extend(filter(self._known.first, ids))
        self._write_soon()

    def remembered(self, key: str) -> bool:
        """Return whether the result has reached the sinks, among those of the last `keep` seconds that are kept."""
        return key in self._known

    # -- within

    async def _load(self) -> None:
        self._room, known, draws = await self._in_thread(self._store.load)
        for key in known:
            self._known.first(key)
        self.draws.load(draws)
        self._bytes_gauge.set(self._room.used)
        self._loaded = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Commit for as long as the context lasts. For `open_spool`."""
        try:
            await self._load()
        except StoreFailed as failed:
            self._say(
                Event.SPOOL_FAILED,
                f"storage.path: the spool cannot be opened and will be retried: {failed}",
                serious=True,
            )
        committer = asyncio.create_task(self._commit(), name="spool commits")
        try:
            yield
        finally:
            self._closing = True
            self._wake.set()
            with anyio.CancelScope(shield=True):
                await committer
            if self._timer is not None:
                self._timer.cancel()

    async def _commit(self) -> None:
        """Commit until closed and nothing is left to commit."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            look_again = not self._room.disk_has_room
            works = True
            while works and (look_again or self._pending()):
                look_again = False
                works = await self._commit_once()
            if self._closing and not self._appends:
                return  # a failed deletion only causes a replay
            if self._closing:
                self._wake.set()
            elif not works or not self._room.disk_has_room:
                self._write_soon()

    def _pending(self) -> bool:
        return bool(self._appends or self._deletes or self._remembers or self.draws)

    async def _commit_once(self) -> bool:
        taken = self._take()
        deletes = _DELETES_IN_TROUBLE if self._trouble else _DELETES
        drawn = self.draws.take()
        batch = Batch([one.record for one in taken], self._deletes[:deletes], list(self._remembers), drawn)
        del self._deletes[:deletes]
        self._remembers.clear()
        try:
            numbers, self._room = await self._in_thread(partial(self._store.write, batch))
        except Exception as error:  # noqa: BLE001 - the waiting senders must get an answer in any case
            self._deletes = batch.deletes + self._deletes
            self._remembers.extendleft(reversed(batch.remembers))
            self.draws.give_back(drawn)
            self._failed(error, taken)
            return False
        finally:
            self._waiting_bytes -= sum(one.size for one in taken)
        if self._trouble:
            self._events.info(Event.SPOOL_RECOVERED, "the spool is writable again")
            self._trouble = ""
            self._failing_gauge.set(0)
            self._said.clear()
        self._rows += len(numbers) - len(batch.deletes)
        for number, one in zip(numbers, taken, strict=True):
            if one.future.cancelled():
                self._delete(number)
            else:
                one.future.set_result(number)
        self._bytes_gauge.set(self._room.used)
        self._rows_gauge.set(self._rows)
        return True

    def _take(self) -> list[_WaitingWrite]:
        taken: list[_WaitingWrite] = []
        size = 0
        while self._appends and size < _COMMIT_BYTES:
            one = self._appends.popleft()
            if one.future.cancelled():
                self._waiting_bytes -= one.size
                continue
            taken.append(one)
            size += one.size
        return taken

    def _failed(self, error: Exception, taken: list[_WaitingWrite]) -> None:
        known = isinstance(error, MonitorError | StoreFailed)
        self._trouble = error.trouble if isinstance(error, StoreFailed) else "failed"
        self._failing_gauge.set(1)
        event = Event.SPOOL_FULL if self._trouble == "full" else Event.SPOOL_FAILED
        self._say(event, f"the spool cannot be written: {error}", serious=True)
        answer = "the disk that the spool is on is full" if self._trouble == "full" else "the spool cannot be written"
        for one in taken:
            if not one.future.cancelled():
                one.future.set_exception(Overloaded(answer) if known else error)

    def _refuse(self, message: str) -> None:
        self._say(Event.SPOOL_FULL, message)
        self._write_soon()
        raise Overloaded(message)

    def _say(self, event: Event, message: str, *, serious: bool = False) -> None:
        now = self._clock.monotonic()
        if now - self._said.get((event, serious), -_SAY_AGAIN) >= _SAY_AGAIN:
            self._said[event, serious] = now
            (self._events.error if serious else self._events.warning)(event, message)

    def _delete(self, number: int) -> None:
        self._deletes.append(number)
        self._write_soon()

    def _write_soon(self) -> None:
        if self._timer is None and not self._closing:
            self._timer = self._loop.call_later(_IDLE, self._now)

    def _now(self) -> None:
        self._timer = None
        self._wake.set()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._thread, call)
