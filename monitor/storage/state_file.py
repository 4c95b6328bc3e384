"""The file behind `KeptState`: budgets, state of pacers, and what receivers were sent, across restarts and kill -9."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import anyio
import orjson

from monitor.clock import Clock
from monitor.errors import ConfigError, MonitorError
from monitor.stages.kept_state import KeptState, StateValue
from monitor.storage.damage import reporter
from monitor.storage.sqlite import Database, Format, ReadOnly, SetAside
from monitor.telemetry.events import Event, Events
from monitor.telemetry.metrics import Metrics

FORMAT: Final = Format(
    1,
    "CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, body BLOB NOT NULL, at REAL NOT NULL) WITHOUT ROWID;",
    {"synchronous": "FULL"},  # a reservation outlives a power cut
)
_EVERY: Final = 1.0
_KEPT_FOR: Final = 14 * 86_400.0
"""Seconds after which a value that nothing uses any more is deleted."""


@asynccontextmanager
async def open_state(
    path: Path, *, clock: Clock, metrics: Metrics, events: Events, every: float = _EVERY
) -> AsyncIterator[KeptState]:
    """Open the file for the life of the process. Leaving the context writes what has changed.

    A failing disk is no reason to stop: values are then kept in memory, written once it works again, and the fault is
    logged once. Raises `ConfigError` if a newer version wrote the file.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="state")
    state = _StateDatabase(path, thread, clock=clock, metrics=metrics, events=events)
    try:
        await state.open()
        work = asyncio.create_task(state.work(every), name="state")
        try:
            yield state
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            with anyio.CancelScope(shield=True):
                await state.write()
    finally:
        with anyio.CancelScope(shield=True):
            await asyncio.get_running_loop().run_in_executor(thread, state.close)
        thread.shutdown(wait=False)


def kept_value(path: Path, name: str) -> StateValue | None:
    """Read one value from the file, even while a monitor writes it; None if there is none.

    Raises `MonitorError` if the file is missing or cannot be read.
    """
    for (body,) in ReadOnly(path, FORMAT, name="the state").query("SELECT body FROM state WHERE name = ?", [name]):
        with suppress(ValueError, TypeError):  # as below
            value = orjson.loads(body)
            return value if isinstance(value, dict) else None
    return None


class _StateDatabase(KeptState):
    """For use on one event loop. Blocking work runs in `thread`."""

    def __init__(
        self, path: Path, thread: ThreadPoolExecutor, *, clock: Clock, metrics: Metrics, events: Events
    ) -> None:
        report = reporter("state", events, metrics)
        self._file = Database(path, FORMAT, name="the state", clock=clock, repaired=report, timeout=1)
        self._thread = thread
        self._clock = clock
        self._events = events
        self._found: dict[str, StateValue] = {}
        self._followed: dict[str, Callable[[], StateValue]] = {}
        self._written: dict[str, bytes] = {}
        self._failing = False
        self._failing_gauge = metrics.database_failing.labels("state")

    async def open(self) -> None:
        """Read what the previous process kept. Raises `ConfigError`."""
        try:
            self._found = await asyncio.get_running_loop().run_in_executor(self._thread, self._read)
        except ConfigError:
            raise
        except MonitorError as error:
            self._failed(error)

    def load(self, name: str) -> StateValue | None:
        """See `KeptState`."""
        return self._followed[name]() if name in self._followed else self._found.get(name)

    def follow(self, name: str, current: Callable[[], StateValue]) -> None:
        """See `KeptState`."""
        self._followed[name] = current

    async def flush(self, name: str) -> None:
        """See `KeptState`."""
        await self.write((name,))

    async def work(self, every: float) -> None:
        """Write changes periodically until cancelled."""
        while True:
            await anyio.sleep(every)
            with anyio.CancelScope(shield=True):
                await self.write()

    async def write(self, names: tuple[str, ...] = ()) -> None:
        """Write the values that have changed: those of `names`, or all. Never raises."""
        bodies = {name: orjson.dumps(self._followed[name]()) for name in names or self._followed}
        changed = {name: body for name, body in bodies.items() if self._written.get(name) != body}
        if not changed:
            return
        followed = list(self._followed)
        try:
            anew = await asyncio.get_running_loop().run_in_executor(self._thread, self._put, changed, followed)
        except MonitorError as error:
            self._failed(error)
            return
        if anew:
            self._written.clear()
        self._written.update(changed)
        if self._failing:
            self._failing = False
            self._failing_gauge.set(0)
            self._events.info(Event.STATE_RECOVERED, "budgets and sent alert notifications are kept on disk again")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _failed(self, error: MonitorError) -> None:
        if not self._failing:
            self._failing = True
            self._failing_gauge.set(1)
            message = "budgets and sent alert notifications cannot be kept on disk; they stay in memory"
            self._events.error(Event.STATE_FAILED, message, error=str(error))

    # -- in the thread

    def _read(self) -> dict[str, StateValue]:
        with self._file.reading() as db:
            rows = db.execute("SELECT name, body FROM state").fetchall()
        found: dict[str, StateValue] = {}
        for name, body in rows:
            with suppress(ValueError, TypeError):  # damaged bytes that SQLite does not notice
                value = orjson.loads(body)
                if isinstance(value, dict):
                    found[name] = value
        return found

    def _put(self, bodies: Mapping[str, bytes], followed: Sequence[str]) -> bool:
        """Write values. Return whether they went into a new file, from which other values may be missing."""
        try:
            self._insert(bodies, followed)
        except SetAside:  # write at once into the repaired file
            self._insert(bodies, followed)
            return True
        return False

    def _insert(self, bodies: Mapping[str, bytes], followed: Sequence[str]) -> None:
        now = self._clock.now()
        with self._file.transaction() as db:
            rows = [(name, body, now) for name, body in bodies.items()]
            db.executemany("INSERT OR REPLACE INTO state (name, body, at) VALUES (?, ?, ?)", rows)
            old = db.execute("SELECT name FROM state WHERE at < ?", (now - _KEPT_FOR,)).fetchall()
            # A value that does not change is not written again.
            db.executemany("DELETE FROM state WHERE name = ?", [one for one in old if one[0] not in followed])
