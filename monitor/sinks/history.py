"""Sink `history`: results in a local SQLite database, for the UI and for restoring alert windows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from pydantic import Field, PrivateAttr

from monitor.errors import InvalidData, MonitorError, ResultsRefused
from monitor.model.outcome import EvaluationResult
from monitor.model.service_version import SeenVersion
from monitor.stages import Deliver, PastResult, Runtime, Sink
from monitor.storage import files
from monitor.storage.history.reader import HistoryReader, MinuteSums, Search
from monitor.storage.history.settings import HistoryOptions, ResultRetention
from monitor.storage.history.writer import TIDY_EVERY, Writer
from monitor.storage.sqlite import DamagedFile

T = TypeVar("T")
_Delivery: TypeAlias = tuple[Sequence[EvaluationResult], asyncio.Future[None]]

_AT_ONCE = 100  # past results, after which other tasks get their turn
_WRITTEN_AT_ONCE = 1_024
_WRITES_APART, _FEW_WRITES_APART, _FEW = 0.05, 0.2, 8  # seconds, and deliveries
"""Seconds to wait after a transaction, and after one with few deliveries. A transaction costs 0.3 ms of processor time,
a result 0.1 ms."""


class HistorySink(Sink, HistoryOptions):
    """Keep results in a second local database, in addition to the one in the storage folder."""

    follows: ClassVar[bool] = False
    memory: ClassVar[Literal["none", "process", "fleet"]] = "process"

    path: Path = Field(examples=["answers.db"])
    """Database file; not `history.db` in the storage folder, which the monitor writes anyway."""

    _writer: Writer | None = PrivateAttr(None)
    """The writer of the file in this process."""

    @classmethod
    def in_folder(cls, folder: Path, kept: ResultRetention) -> HistorySink:
        """Make the sink for the storage folder, with the options of the section `storage`."""
        return cls(path=folder / files.HISTORY, **{name: getattr(kept, name) for name in ResultRetention.model_fields})

    def external_copies(self) -> str:
        """Return nothing: results are erased here."""
        return ""

    @asynccontextmanager
    async def open(self, runtime: Runtime) -> AsyncIterator[Deliver]:
        """Open the file. Raises `ConfigError` for an unusable path.

        Delivering raises `MonitorError` if the file cannot be written now, and `InvalidData` or any other exception if
        results can never be written: `ResultsRefused` if the rest of the batch was written. A delivered result survives
        a crash of the process; a power cut may lose the last seconds.
        """
        writer = self._writer = Writer(self.path, self, runtime)
        loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, thread_name_prefix="history")
        waiting: list[_Delivery] = []
        wake, closing = asyncio.Event(), False

        async def deliver(results: Sequence[EvaluationResult]) -> None:
            done = loop.create_future()
            waiting.append((results, done))  # bounded by the number of callers: each waits for its own results
            wake.set()
            await done

        def write(results: list[EvaluationResult]) -> Awaitable[None]:
            return loop.run_in_executor(thread, writer.write, results)

        async def work() -> None:
            while not (closing and not waiting):
                with anyio.move_on_after(_until_next(waiting)):
                    await wake.wait()
                wake.clear()
                taken = _taken(waiting)
                await _write_together(taken, write)
                await asyncio.sleep(0.0 if closing else _pause_after(taken))

        try:
            await loop.run_in_executor(thread, writer.open)
            worker = asyncio.create_task(work(), name="history")
            try:
                yield deliver
            finally:
                closing = True
                wake.set()
                with anyio.CancelScope(shield=True):
                    await worker
        finally:
            with anyio.CancelScope(shield=True):
                await loop.run_in_executor(thread, writer.close)
            thread.shutdown(wait=False)

    async def replay_results(self, on_result: Callable[[PastResult], None], runtime: Runtime) -> None:  # noqa: ARG002 - the contract's
        """Pass on the newest 5,000 results that samplers learn from, oldest first."""
        for number, past in enumerate(await self._read(self._reader.past_results)):
            on_result(past)
            if number % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()

    async def results(
        self, *, app: str | None = None, evaluator: str | None = None, since: float = 0.0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return the newest results of any outcome, newest first, as rows of `monitor/storage/history/rows.py`.

        This and the other queries can read the file while any process writes it. They raise `MonitorError` on failure.
        """
        query = partial(self._reader.results, app=app, evaluator=evaluator, since=since, limit=limit)
        return await self._read(query)

    async def worst(
        self,
        *,
        app: str | None = None,
        evaluator: str | None = None,
        since: float = 0.0,
        limit: int = 10,
        better: Literal["higher", "lower"] = "higher",
    ) -> list[dict[str, Any]]:
        """Return the worst scores: defects first, then by score from the bad end; `better` is the scale's good end."""
        query = partial(self._reader.worst, app=app, evaluator=evaluator, since=since, limit=limit, better=better)
        return await self._read(query)

    async def search(self, **wanted: Any) -> list[dict[str, Any]]:
        """Search by any of the fields of `Search`, worst or newest first."""
        return await self._read(self._reader.search, Search(**wanted))

    async def scores_by(self, requests: Collection[str], evaluator: str) -> dict[str, float]:
        """Return the newest score of an evaluator for each of these requests that has one."""
        return await self._read(self._reader.scores_by, requests, evaluator)

    async def by_trace(self, trace_id: str) -> list[dict[str, Any]]:
        """Return all results of one trace (id in hex), oldest first."""
        return await self._read(self._reader.by_trace, trace_id)

    async def busiest_apps(self, since: float, recent: float, at_most: int) -> list[str]:
        """Return the apps with the most scored results since the second `recent`; ties go by those since `since`."""
        return await self._read(self._reader.busiest_apps, since, recent, at_most)

    async def sums_since(self, since: float, *, apps: Collection[str] | None = None) -> list[MinuteSums]:
        """Return sums of scored results per minute, oldest first, from the minute that contains `since` (wall clock).

        Versions of an evaluator are never summed together. With `apps`, here and below, all other apps count as one,
        `OVERFLOW`.
        """
        return await self._read(partial(self._reader.sums_since, since, apps=apps))

    async def hourly_sums(self, since: float, until: float, *, apps: Collection[str] | None = None) -> list[MinuteSums]:
        """Return the sums per hour, from the hour that contains `since` up to, but excluding, the hour of `until`."""
        return await self._read(partial(self._reader.hourly_sums, since, until, apps=apps))

    async def rule_sums(
        self, since: float, minutes_since: float, *, apps: Collection[str] | None = None
    ) -> list[MinuteSums]:
        """Return the sums by the alerts' own defect rules: per hour since `since`, per minute since `minutes_since`."""
        return await self._read(partial(self._reader.rule_sums, since, minutes_since, apps=apps))

    async def scored_ids(self, ids: Collection[str]) -> set[str]:
        """Return those of `ids` that exist and are not `unscored`; an empty set if there is no history yet."""
        return await self._read(self._reader.scored_ids, ids) if self.path.exists() else set()

    async def newest_ids(self, at_most: int) -> list[str]:
        """Return the ids of the last written results, oldest first; an empty list if there is no history yet."""
        return await self._read(self._reader.newest_ids, at_most) if self.path.exists() else []

    async def generations(self, apps: Collection[str] | None = None) -> list[SeenVersion]:
        """Return the service versions that have results; only those of `apps`, if given."""
        return await self._read(self._reader.generations, apps)

    async def _read(self, query: Callable[..., T], *given: Any) -> T:
        """Run a query in a thread. If the file is damaged, repair it and run the query again."""
        try:
            return await anyio.to_thread.run_sync(query, *given)
        except DamagedFile:
            if self._writer is None or not await anyio.to_thread.run_sync(self._writer.repaired):
                raise
            return await anyio.to_thread.run_sync(query, *given)

    @property
    def _reader(self) -> HistoryReader:
        return HistoryReader(self.path)


def _until_next(waiting: Sequence[object]) -> float:
    return 0.0 if waiting else TIDY_EVERY


def _taken(waiting: list[_Delivery]) -> list[_Delivery]:
    """Take the batches to write together: whole batches, until they have enough results."""
    taken, number = [], 0
    while waiting and number < _WRITTEN_AT_ONCE:
        taken.append(waiting.pop(0))
        number += len(taken[-1][0])
    return taken


def _pause_after(taken: Sequence[_Delivery]) -> float:
    """Return the seconds until the next transaction."""
    if sum(len(results) for results, _ in taken) <= 1:
        return 0.0  # a caller that delivers results one by one may wait for each before the next
    return _FEW_WRITES_APART if len(taken) <= _FEW else _WRITES_APART


async def _write_together(
    taken: Sequence[_Delivery], write: Callable[[list[EvaluationResult]], Awaitable[None]]
) -> None:
    """Write `taken` in one transaction; if there is nothing to write, tidy up."""
    error: Exception | None = None
    try:
        await write([one for results, _ in taken for one in results])
    except Exception as raised:  # noqa: BLE001 - raised in the callers that wait for these results
        error = raised
    if error is not None and not _later(error):  # a result that can never be written must not affect others
        if len(taken) > 1:
            for one in taken:
                await _write_together([one], write)
            return
        error = await _write_each(taken[0][0], write, error)
    for _, done in taken:
        if done.cancelled():
            continue
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(None)


async def _write_each(
    results: Sequence[EvaluationResult],
    write: Callable[[list[EvaluationResult]], Awaitable[None]],
    error: Exception,
) -> Exception | None:
    """Write `results` one by one, because `error` prevented writing them together. Return the error that remains."""
    if len(results) <= 1:
        return error
    refused: dict[str, Exception] = {}
    for one in results:
        try:
            await write([one])
        except Exception as raised:  # noqa: BLE001 - as above
            if _later(raised):
                return raised
            refused[one.id] = raised
    if not refused:
        return None
    first = next(iter(refused.values()))
    return ResultsRefused(f"{type(first).__name__}: {first}", refused)


def _later(error: Exception) -> bool:
    """Return whether a later attempt may succeed."""
    return isinstance(error, MonitorError) and not isinstance(error, InvalidData)
