"""Missed evaluations: the pipeline hands them in without waiting; they are written to the queue soon after."""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

import anyio
import anyio.to_thread

from monitor.errors import MonitorError
from monitor.jobs.backfill.cases import BackfillOrigin, Item
from monitor.jobs.backfill.series import BackfillSeries
from monitor.jobs.backfill.store import BackfillGroup, BackfillQueue
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Selection
from monitor.stages import Runtime
from monitor.telemetry.events import Event

_EVERY: Final = 0.5  # seconds between two writes
_AT_ONCE: Final = 200
_HELD_AT_MOST: Final = 16 * 1024**2  # characters of cases that wait in memory for the disk


class Missing:
    """Writes missed evaluations to `store`. A crash of the process loses at most the last second."""

    def __init__(self, store: BackfillQueue, series: BackfillSeries, runtime: Runtime) -> None:
        self._store = store
        self._series = series
        self._runtime = runtime
        self._waiting: deque[Item] = deque()
        self._held = 0
        self._said = False

    def miss(self, case: Case, judged: EvaluationResult) -> None:
        """Add an evaluation of `case` that was due and failed, with the result `judged`. Never waits, never raises."""
        size = case.text_length
        if self._held + size > _HELD_AT_MOST:
            self._series.missed([BackfillGroup(case.app, judged.evaluator, BackfillOrigin.MISSED)], "dropped")
            return
        self._held += size
        drawn = judged.selection or Selection(1.0, 1.0)
        self._waiting.append(
            Item(
                case=case,
                evaluator=judged.evaluator,
                version=judged.version,
                origin=BackfillOrigin.MISSED,
                probability=drawn.probability,
                target=drawn.target,
            )
        )

    async def run(self) -> None:
        """Write until cancelled, then write the rest."""
        try:
            while True:
                await anyio.sleep(_EVERY)
                await self._write()
        finally:
            with anyio.CancelScope(shield=True):
                await self._write()

    async def _write(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_AT_ONCE, len(self._waiting)))]
            self._held -= sum(one.case.text_length for one in batch)
            groups = [BackfillGroup(one.case.app, one.evaluator, one.origin) for one in batch]
            now = self._runtime.clock.now()
            try:
                dropped, displaced = await anyio.to_thread.run_sync(self._store.miss, batch, now)
            except MonitorError as error:
                self._series.missed(groups, "dropped")
                if not self._said:
                    self._said = True
                    self._runtime.events.error(Event.BACKFILL_FAILED, f"missed evaluations are lost: {error}")
                continue
            self._said = False
            kept = Counter(groups)
            kept.subtract(dropped)
            self._series.missed(kept.elements(), "kept")
            self._series.missed([*dropped, *displaced], "dropped")
