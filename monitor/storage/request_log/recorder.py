"""Takes request records from the event loop and writes them in a thread.

A failed write waits and is retried; beyond a limit, records are dropped and counted.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import anyio

from monitor.errors import InvalidData, MonitorError
from monitor.model.request_log import RequestRecord, RequestStep
from monitor.stages import Runtime
from monitor.storage.damage import reporter
from monitor.storage.request_log import store
from monitor.storage.request_log.store import MINUTE, Minute, StepCount
from monitor.storage.sqlite import SetAside
from monitor.telemetry.events import Event

_EVERY: Final = 1.0
"""The longest time between two writes, in seconds."""
_LAST_PAUSE: Final = 5.0
"""The longest time between two attempts while the disk fails, in seconds."""
_WAITING: Final = 5_000
"""Records, of some kilobytes each, that may wait to be written; further ones are dropped."""
_STEPS_WAITING, _MINUTES_WAITING = 50_000, 60
_AT_ONCE: Final = 500
_TIDY_EVERY: Final = 60.0
OUTCOMES: Final = ("kept", "dropped", "failed")
"""The values of the label `outcome`."""


@asynccontextmanager
async def recording(
    path: Path, runtime: Runtime, *, retention: float, sums_retention: float, at_most: int, every: float = _EVERY
) -> AsyncIterator[Recorder]:
    """Open a recorder for the life of the process. Leaving the context writes what waits.

    `retention` and `sums_retention` are in seconds, `at_most` in bytes. Never raises if the disk fails: records then
    wait, and lost ones are counted.
    """
    recorder = Recorder(path, runtime, retention=retention, sums_retention=sums_retention, at_most=at_most)
    worker = asyncio.create_task(recorder.work(every), name="request_log")
    try:
        yield recorder
    finally:
        recorder.close()
        with anyio.CancelScope(shield=True):
            await worker


_Waiting: TypeAlias = dict[int, dict[RequestStep, list[float]]]
"""By the start of a minute (in seconds) and by step: number, expected number, newest time."""


class Recorder:
    """Collects records and sums of steps, and writes them every second."""

    def __init__(self, path: Path, runtime: Runtime, *, retention: float, sums_retention: float, at_most: int) -> None:
        self._path = path
        self._clock = runtime.clock
        self._events = runtime.events
        self._retention, self._sums_retention, self._at_most = retention, sums_retention, at_most
        self._counters = {outcome: runtime.metrics.request_log_records.labels(outcome) for outcome in OUTCOMES}
        self._records: list[RequestRecord] = []
        self._sums: _Waiting = {}
        self._minute: dict[RequestStep, list[float]] = {}
        self._at = -1
        self._wake = asyncio.Event()
        self._some = asyncio.Event()
        self._some.set()  # so that the file exists from the beginning
        self._closing = False
        self._file = store.database(path, runtime.clock, reporter("request_log", runtime.events, runtime.metrics))
        self._tidied = float("-inf")
        self._failing_gauge = runtime.metrics.database_failing.labels("request_log")
        self._unwritten = runtime.metrics.database_unwritten.labels("request_log")
        self._failures = 0

    def keep(self, record: RequestRecord) -> None:
        """Keep the record of a request that has ended, if there is room."""
        if len(self._records) >= _WAITING:
            self._counters["dropped"].inc()
            self._unwritten.inc()
            return
        self._records.append(record)
        self._some.set()
        if len(self._records) >= _AT_ONCE:
            self._wake.set()

    def count(self, step: RequestStep, number: int = 1, expected: float = 0.0) -> None:
        """Add to the sums of the current minute."""
        now = self._clock.now()
        at = int(now) // MINUTE * MINUTE
        if at != self._at:
            self._at, self._minute = at, self._sums.setdefault(at, {})
            self._some.set()
        known = self._minute.get(step)
        if known is not None:
            known[0] += number
            known[1] += expected
            known[2] = now
        elif len(self._minute) < _STEPS_WAITING and len(self._sums) < _MINUTES_WAITING:
            self._minute[step] = [number, expected, now]

    def close(self) -> None:
        """Announce that no more records will come."""
        self._closing = True
        self._some.set()
        self._wake.set()

    async def work(self, every: float) -> None:
        """Write, until closed and nothing waits."""
        loop = asyncio.get_running_loop()
        thread = ThreadPoolExecutor(1, thread_name_prefix="request_log")
        try:
            while True:
                if not self._closing:
                    await self._pause(every)
                self._wake.clear()
                self._some.clear()
                records, self._records = self._records[:_WAITING], []
                sums, self._sums, self._at = self._sums, {}, -1
                if records or sums or self._clock.monotonic() - self._tidied >= _TIDY_EVERY:
                    error = await loop.run_in_executor(thread, self._write, records, sums)
                    self._settle(records, sums, error)
                if self._closing and not self._records:
                    return
        finally:
            with anyio.CancelScope(shield=True):
                await loop.run_in_executor(thread, self._file.close)
            thread.shutdown(wait=False)

    async def _pause(self, every: float) -> None:
        """Wait for more records; after failures, wait longer each time, even if more records come."""
        if self._failures:
            with anyio.move_on_after(min(every * 2**self._failures, _LAST_PAUSE)):
                while not self._closing:
                    await self._wake.wait()
                    self._wake.clear()
        else:
            with anyio.move_on_after(_TIDY_EVERY):
                await self._some.wait()
            with anyio.move_on_after(every):
                await self._wake.wait()

    def _settle(self, records: list[RequestRecord], sums: _Waiting, error: MonitorError | None) -> None:
        """Count records that were written or are dropped; keep the rest for the next attempt."""
        if error is None:
            self._counters["kept"].inc(len(records))
            if self._failures:
                self._events.info(Event.REQUEST_LOG_RECOVERED, "the request log can be written again")
            self._failures = 0
        elif isinstance(error, InvalidData) or self._closing:
            self._counters["failed"].inc(len(records))
            self._unwritten.inc(len(records))
            self._events.warning(Event.REQUEST_LOG_FAILED, f"request records are lost: {error}", records=len(records))
        else:
            self._keep_waiting(records, sums)
            if not self._failures:
                self._events.warning(Event.REQUEST_LOG_FAILED, f"request records cannot be written and wait: {error}")
            self._failures += 1
        self._failing_gauge.set(bool(self._failures))

    def _keep_waiting(self, records: list[RequestRecord], sums: _Waiting) -> None:
        """Put back records that could not be written; if there are too many, drop the newest."""
        waiting = records + self._records
        self._records = waiting[:_WAITING]
        dropped = len(waiting) - len(self._records)
        self._counters["dropped"].inc(dropped)
        self._unwritten.inc(dropped)
        for at, steps in self._sums.items():
            known = sums.setdefault(at, {})
            for step, (number, expected, last) in steps.items():
                before = known.get(step, (0.0, 0.0, 0.0))
                known[step] = [before[0] + number, before[1] + expected, last]
        while sum(map(len, sums.values())) > _STEPS_WAITING or len(sums) > _MINUTES_WAITING:
            del sums[min(sums)]
        self._sums, self._at = sums, -1

    # -- in the thread

    def _write(self, records: list[RequestRecord], waiting: _Waiting) -> MonitorError | None:
        """Write all records, to a new file if the old one is damaged; return why it failed, None on success."""
        sums = {
            Minute(at, step): StepCount(int(number), expected, last)
            for at, steps in waiting.items()
            for step, (number, expected, last) in steps.items()
        }
        try:
            try:
                self._transaction(records, sums)
            except SetAside:  # write at once into the new file
                self._transaction(records, sums)
        except MonitorError as error:
            return error
        return None

    def _transaction(self, records: list[RequestRecord], sums: dict[Minute, StepCount]) -> None:
        with self._file.transaction() as db:
            store.insert(db, records, sums)
            self._tidy(db, len(records))

    def _tidy(self, db: sqlite3.Connection, added: int) -> None:
        now, wall = self._clock.monotonic(), self._clock.now()
        if now - self._tidied < _TIDY_EVERY and not added >= _AT_ONCE:
            return
        limits = {"before": wall - self._retention, "sums_before": wall - self._sums_retention}
        if not store.prune(db, **limits, at_most=self._at_most, added=added):
            self._tidied = now
