"""Working the queue off: behind all live judgements, under its own budget, once each, also over restarts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from monitor.errors import MonitorError
from monitor.jobs.backfill.context import BackfillContext, BackfillScorer
from monitor.jobs.backfill.lock import QueueLock
from monitor.jobs.backfill.missed import Missing
from monitor.jobs.backfill.requests import BackfillEvaluator
from monitor.jobs.backfill.series import BackfillSeries
from monitor.jobs.backfill.settings import BackfillSettings
from monitor.jobs.backfill.store import NAME, BackfillQueue, Missed, Waiting
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult
from monitor.stages import Runtime
from monitor.telemetry.events import Event

__all__ = ["Backfill", "BackfillContext"]

_LOOK_EVERY: Final = 1.0  # seconds between two looks at the queue
_TIDY_EVERY: Final = 5.0
UntilDone: TypeAlias = Callable[[Mapping[str, str]], bool]
"""Called when nothing is under way, with the reasons for which judges are not asked at present, by their names."""
Summarise: TypeAlias = Callable[[], Awaitable[None]]

_AT_ONCE: Final = 4  # requests: enough to keep a modest pace, few enough that live ones hardly notice


class BackfillStorage(Protocol):
    """The folder, and what may be stored in it: `texts` is `none` where no text may."""

    @property
    def path(self) -> Path:
        """The storage folder."""
        ...

    @property
    def texts(self) -> str:
        """`all`, `verdicts` or `none`."""
        ...


class Backfill:
    """The queue in the storage folder and, in `run`, its worker.

    `versions` are those of the evaluators of this process. Where no texts are to be stored nothing missed is kept.
    """

    def __init__(
        self, settings: BackfillSettings, storage: BackfillStorage, runtime: Runtime, versions: Mapping[str, str]
    ) -> None:
        folder = storage.path
        self._settings = settings
        self._keeps = settings.retention > 0 and storage.texts != "none"
        self._folder = folder
        self._runtime = runtime
        self._versions = versions
        self._store = BackfillQueue(
            folder / NAME, at_most=settings.max_size, clock=runtime.clock, damaged=self._damaged
        )
        self._series = BackfillSeries(runtime.metrics, versions)
        self._missing = Missing(self._store, self._series, runtime)
        self._summary: Sequence[Missed] = ()

    def miss(self, case: Case, judged: EvaluationResult) -> None:
        """The judgement of `case` is due and its judge refuses. Never waits, never raises."""
        if self._keeps:
            self._missing.miss(case, judged)

    def missed(self) -> Sequence[Missed]:
        """What was missed and is not asked for yet, by evaluator, as it was some seconds ago."""
        return self._summary

    async def run(self, context: BackfillContext, *, until_done: UntilDone | None = None) -> None:
        """Work until cancelled, or until `until_done` says so. While another process works on the queue it waits.

        Faults are told as events and tried again; with `until_done` they are raised, as `MonitorError`. Raises
        `ConfigError` at once where the budget can never be spent.
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

    def _damaged(self, aside: Path) -> None:
        message = "the backfill queue was damaged; it is kept aside and a new one is begun"
        self._runtime.events.error(Event.BACKFILL_FAILED, message, aside=str(aside))


class _Worker:
    """The loop, which finds what is due, and as many requests at once as it judges."""

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
        self._paid = 0.0

    async def run(self, turn: QueueLock, summarise: Summarise, until_done: UntilDone | None) -> None:
        """See `Backfill.run`."""
        troubled = False
        async with AsyncExitStack() as stack, anyio.create_task_group() as work:
            opened: BackfillScorer | None = None
            while True:
                self._wake = anyio.Event()
                found: list[list[Waiting]] = []
                try:
                    if turn.take():
                        await self._tidy(summarise)
                        found = await self._look()
                        if found and opened is None:
                            opened = await stack.enter_async_context(self._open())
                        if opened is not None:
                            self._begin(found, opened, work)
                    troubled = False
                except Exception as error:  # whatever it is, the live monitor goes on
                    if until_done is not None:
                        raise
                    if not troubled:
                        troubled = True
                        message = f"nothing is judged afterwards: {_told(error)}"
                        self._runtime.events.error(Event.BACKFILL_FAILED, message)
                if until_done is not None and not self._busy and until_done(self._requests.held_for):
                    return
                with anyio.move_on_after(_LOOK_EVERY):
                    await self._wake.wait()

    def _open(self) -> AbstractAsyncContextManager[BackfillScorer]:
        return self._context.open_scorer(self._settings.budget, self._runtime)

    async def _tidy(self, summarise: Summarise) -> None:
        clock = self._runtime.clock
        if clock.monotonic() - self._tidied < _TIDY_EVERY:
            return
        self._tidied = clock.monotonic()
        now = clock.now()
        expire = partial(self._store.expire, before=now - self._settings.retention, now=now, up_to=self._seen)
        asked, missed = await anyio.to_thread.run_sync(partial(expire, spare=set(self._busy)))
        for group, number in asked.items():
            if group.evaluator in self._context.versions:
                self._series.ended(group, "expired", number=number)
        self._series.missed(missed, "expired")
        await summarise()
        if not self._busy:  # else what ends meanwhile would seem to be gone
            left = await anyio.to_thread.run_sync(self._store.asked_up_to, self._seen)
            for group, number in list(self._series.pending.items()):
                if number > left.get(group, 0):  # `rag-monitor forget` has deleted them, or the file was lost
                    self._series.ended(group, "forgotten", number=number - left.get(group, 0))

    async def _look(self) -> list[list[Waiting]]:
        """Take note of what is new, and find what can be judged now."""
        self._seen, new = await anyio.to_thread.run_sync(self._store.asked_after, self._seen)
        self._series.asked(
            {group: number for group, number in new.items() if group.evaluator in self._context.versions}
        )
        among, room = self._requests.askable(), _AT_ONCE - len(self._busy)
        if room <= 0 or not among:
            return []
        query = partial(self._store.next, room, up_to=self._seen, among=among, without=set(self._busy))
        return await anyio.to_thread.run_sync(query)

    def _begin(self, found: Sequence[list[Waiting]], opened: BackfillScorer, work: TaskGroup) -> None:
        for waiting in found:
            self._busy.add(waiting[0].request_id)
            work.start_soon(self._one, waiting, opened)

    async def _one(self, waiting: Sequence[Waiting], opened: BackfillScorer) -> None:
        try:
            await self._requests.judge(waiting, opened.scorer)
        except Exception as error:  # noqa: BLE001 - as above
            self._runtime.events.error(Event.BACKFILL_FAILED, f"a request was not judged afterwards: {_told(error)}")
            await anyio.sleep(_LOOK_EVERY)  # it is found again at once
        finally:
            self._busy.discard(waiting[0].request_id)
            paid = opened.paid
            self._series.paid(paid - self._paid)
            self._paid = paid
            self._wake.set()


def _told(error: Exception) -> str:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return str(error) if isinstance(error, MonitorError) else type(error).__name__
