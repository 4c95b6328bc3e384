"""Works on the backfill queue: behind all live evaluations, within its own budget, each item once, across restarts."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import anyio.to_thread

from monitor.errors import MonitorError
from monitor.jobs.backfill import BackfillSettings
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.jobs.backfill.evaluation import BackfillContext, BackfillEvaluator, BackfillScorer, BackfillSeries
from monitor.jobs.backfill.store import NAME, BackfillGroup, BackfillQueue, Missed, Waiting
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Selection
from monitor.stages import Runtime
from monitor.storage.damage import reporter
from monitor.storage.files import make_private
from monitor.telemetry.events import Event

_LOOK_EVERY: Final = 1.0  # seconds between two looks at the queue
_TIDY_EVERY: Final = 5.0
_TIDY_IDLE: Final = 30.0  # while nothing waits and nobody has written to the file
_WRITE_EVERY: Final = 0.5  # seconds between two writes of missed evaluations
_ITEMS_AT_ONCE: Final = 200  # in one write
_REQUESTS_AT_ONCE: Final = 4  # enough for a modest pace, and few enough that live requests hardly notice
_HELD_AT_MOST: Final = 16 * 1024**2  # characters of cases that wait in memory for the disk

UntilDone: TypeAlias = Callable[[Mapping[str, str]], bool]
"""Called when nothing is in progress, with the reasons why judges get no calls at present, by judge name."""
_Summarise: TypeAlias = Callable[[], Awaitable[None]]


class QueueLock:
    """The right to work on the queue in `folder`: one process at a time holds it, until `leave` or until it exits."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "backfill.lock"
        self._held: int | None = None

    def take(self) -> bool:
        """Try to take the lock; return whether this process holds it now. Raises `MonitorError` without file access."""
        if self._held is not None:
            return True
        try:
            make_private(self._path)
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise MonitorError(f"{self._path} cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._held = descriptor
        return True

    def leave(self) -> None:
        """Release the lock."""
        if self._held is not None:
            os.close(self._held)
            self._held = None


def somebody_works(folder: Path) -> bool:
    """Return whether some process, usually a running monitor, works on the queue in `folder`."""
    turn = QueueLock(folder)
    free = turn.take()
    turn.leave()
    return not free


class Missing:
    """Writes missed evaluations to `store`. A crash of the process loses at most the last second."""

    def __init__(self, store: BackfillQueue, series: BackfillSeries, runtime: Runtime) -> None:
        self._store = store
        self._series = series
        self._runtime = runtime
        self._waiting: deque[Item] = deque()
        self._some = asyncio.Event()
        self._held = 0
        self._failing = False
        self._failing_gauge = runtime.metrics.database_failing.labels("backfill")
        self._lost = runtime.metrics.database_unwritten.labels("backfill")

    def miss(self, case: Case, result: EvaluationResult) -> None:
        """Add an evaluation of `case` that was due and failed, with the result `judged`. Never waits, never raises."""
        size = case.text_length
        if self._held + size > _HELD_AT_MOST:
            self._series.missed([BackfillGroup(case.app, result.evaluator, BackfillOrigin.MISSED)], "dropped")
            self._lost.inc()
            return
        self._held += size
        drawn = result.selection or Selection(1.0, 1.0)
        self._waiting.append(
            Item(
                case=case,
                evaluator=result.evaluator,
                version=result.version,
                origin=BackfillOrigin.MISSED,
                probability=drawn.probability,
                target=drawn.target,
            )
        )
        self._some.set()

    async def run(self) -> None:
        """Write until cancelled, then write the rest. A failed write is retried at the same pace."""
        try:
            while True:
                await self._some.wait()
                await anyio.sleep(_WRITE_EVERY)
                await self._write()
                if not self._waiting:
                    self._some.clear()
        finally:
            with anyio.CancelScope(shield=True):
                await self._write()
            self._series.missed(
                [BackfillGroup(one.case.app, one.evaluator, one.origin) for one in self._waiting], "dropped"
            )
            self._lost.inc(len(self._waiting))

    async def _write(self) -> None:
        while self._waiting:
            batch = list(islice(self._waiting, _ITEMS_AT_ONCE))
            groups = [BackfillGroup(one.case.app, one.evaluator, one.origin) for one in batch]
            now = self._runtime.clock.now()
            try:
                dropped, displaced = await anyio.to_thread.run_sync(self._store.miss, batch, now)
            except MonitorError as error:
                if not self._failing:
                    message = f"missed evaluations cannot be written and wait: {error}"
                    self._runtime.events.error(Event.BACKFILL_FAILED, message)
                self._failing = True
                self._failing_gauge.set(1)
                return
            self._failing = False
            self._failing_gauge.set(0)
            for _ in batch:
                self._held -= self._waiting.popleft().case.text_length
            kept = Counter(groups)
            kept.subtract(dropped)
            self._series.missed(kept.elements(), "kept")
            self._series.missed([*dropped, *displaced], "dropped")


class Backfill:
    """The queue in the storage folder and, in `run`, its worker.

    `versions` are those of this process's evaluators. Without `texts` no text may be stored, so missed cases are not.
    """

    def __init__(
        self,
        settings: BackfillSettings,
        folder: Path,
        runtime: Runtime,
        versions: Mapping[str, str],
        *,
        texts: bool = True,
    ) -> None:
        self._settings = settings
        self._keeps = settings.retention > 0 and texts
        self._folder = folder
        self._runtime = runtime
        self._versions = versions
        self._store = BackfillQueue(
            folder / NAME,
            at_most=settings.max_size,
            clock=runtime.clock,
            repaired=reporter("backfill", runtime.events, runtime.metrics),
        )
        self._series = BackfillSeries(runtime.metrics, versions)
        self._missing = Missing(self._store, self._series, runtime)
        self._summary: Sequence[Missed] = ()

    def miss(self, case: Case, result: EvaluationResult) -> None:
        """Keep an evaluation of `case` that came due while its judge was unavailable. Never waits, never raises."""
        if self._keeps:
            self._missing.miss(case, result)

    def missed(self) -> Sequence[Missed]:
        """Return the missed evaluations that are not requested yet, by evaluator, as of some seconds ago."""
        return self._summary

    async def run(self, context: BackfillContext, *, until_done: UntilDone | None = None) -> None:
        """Work until cancelled, or until `until_done` says so. Waits while another process works on the queue.

        Faults are reported as events and retried; with `until_done` they are raised, as `MonitorError`. Raises
        `ConfigError` at once if the budget can never be spent.
        """
        if self._settings.retention <= 0:
            return
        await anyio.to_thread.run_sync(context.check, self._settings.budget)
        turn = QueueLock(self._folder)
        try:
            async with anyio.create_task_group() as beside:
                beside.start_soon(self._missing.run)
                worker = _Worker(self._settings, self._runtime, self._store, self._series, context)
                await worker.run(turn, self._summarise, until_done)
                beside.cancel_scope.cancel()
        finally:
            turn.leave()
            self._store.close()

    async def _summarise(self) -> None:
        found = await anyio.to_thread.run_sync(self._store.missed)
        self._summary = [one for one in found if one.evaluator in self._versions]


class _Worker:
    """The loop that finds due items and evaluates a few requests at a time."""

    def __init__(
        self,
        settings: BackfillSettings,
        runtime: Runtime,
        store: BackfillQueue,
        series: BackfillSeries,
        context: BackfillContext,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._store = store
        self._series = series
        self._context = context
        self._requests = BackfillEvaluator(store, series, context, runtime)
        self._seen = 0
        self._busy: set[str] = set()
        self._wake = anyio.Event()
        self._tidied = float("-inf")
        self._stamps: tuple[object, object] = (None, None)
        """The state of the file before the last two looks."""
        self._paid = 0.0

    async def run(
        self, turn: QueueLock, summarise: Callable[[], Awaitable[None]], until_done: UntilDone | None
    ) -> None:
        """See `Backfill.run`."""
        troubled = False
        async with AsyncExitStack() as stack, anyio.create_task_group() as work:
            opened: BackfillScorer | None = None
            while True:
                self._wake = anyio.Event()
                found: list[list[Waiting]] = []
                try:
                    if turn.take():
                        found = await self._find(summarise)
                        if found and opened is None:
                            opening = self._context.open_scorer(self._settings.budget, self._runtime)
                            opened = await stack.enter_async_context(opening)
                        if opened is not None:
                            for waiting in found:
                                self._busy.add(waiting[0].request_id)
                                work.start_soon(self._one, waiting, opened)
                    troubled = False
                except Exception as error:  # the live monitor keeps running in any case
                    if until_done is not None:
                        raise
                    if not troubled:
                        troubled = True
                        message = f"backfill does not run: {_told(error)}"
                        self._runtime.events.error(Event.BACKFILL_FAILED, message)
                if until_done is not None and not self._busy and until_done(self._requests.held_for):
                    return
                with anyio.move_on_after(_LOOK_EVERY):
                    await self._wake.wait()

    async def _find(self, summarise: _Summarise) -> list[list[Waiting]]:
        """Find what can be evaluated now. Reads the file only if something waits or somebody has written to it.

        The file counts as unchanged only after two looks: a write within the same tick of the file's clock as one look
        is seen by the next.
        """
        stamp = self._store.stamp()
        idle = self._stamps == (stamp, stamp) and not any(self._series.pending.values())
        tidied = await self._tidy(summarise, _TIDY_IDLE if idle else _TIDY_EVERY)
        found = await self._look() if tidied or not idle else []
        self._stamps = (self._stamps[1], stamp)
        return found

    async def _tidy(self, summarise: _Summarise, every: float) -> bool:
        """Every `every` seconds, expire old items and count the rest; return whether this was such a time."""
        clock = self._runtime.clock
        if clock.monotonic() - self._tidied < every:
            return False
        self._tidied = clock.monotonic()
        now = clock.now()
        expire = partial(self._store.expire, before=now - self._settings.retention, now=now, up_to=self._seen)
        asked, missed = await anyio.to_thread.run_sync(partial(expire, spare=set(self._busy)))
        for group, number in asked.items():
            if group.evaluator in self._context.versions:
                self._series.ended(group, "expired", number=number)
        self._series.missed(missed, "expired")
        await summarise()
        if not self._busy:  # an item that ends in the meantime would seem to be gone
            left = await anyio.to_thread.run_sync(self._store.asked_up_to, self._seen)
            for group, number in list(self._series.pending.items()):
                if number > left.get(group, 0):  # `rag-monitor forget` has deleted them, or the file was lost
                    self._series.ended(group, "forgotten", number=number - left.get(group, 0))
        return True

    async def _look(self) -> list[list[Waiting]]:
        """Count new items, and find those that can be evaluated now."""
        self._seen, new = await anyio.to_thread.run_sync(self._store.asked_after, self._seen)
        own = {group: number for group, number in new.items() if group.evaluator in self._context.versions}
        self._series.asked(own)
        among, room = self._requests.askable(), _REQUESTS_AT_ONCE - len(self._busy)
        if room <= 0 or not among:
            return []
        query = partial(self._store.next, room, up_to=self._seen, among=among, without=set(self._busy))
        return await anyio.to_thread.run_sync(query)

    async def _one(self, waiting: Sequence[Waiting], opened: BackfillScorer) -> None:
        try:
            await self._requests.judge(waiting, opened.scorer)
        except Exception as error:  # noqa: BLE001 - as above
            self._runtime.events.error(Event.BACKFILL_FAILED, f"a request was not backfilled: {_told(error)}")
            await anyio.sleep(_LOOK_EVERY)  # it is found again at once
        finally:
            self._busy.discard(waiting[0].request_id)
            paid = opened.paid
            self._runtime.metrics.backfill_cost.inc(paid - self._paid)
            self._paid = paid
            self._wake.set()


def _told(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, MonitorError) else type(error).__name__
