"""Lists of documents and of unanswered questions beside the running monitor: one at a time, kept for a minute."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.jobs.documents import DocumentsReport, DocumentsRequest, documents_report
from monitor.jobs.topics import TopicKeeper
from monitor.jobs.unanswered import UnansweredReport, UnansweredRequest, unanswered_report

FRESH: Final = 60.0
"""Seconds for which a list is given again: paging through it costs nothing, and shows one list."""

_KEPT: Final = 8
R = TypeVar("R", DocumentsRequest, UnansweredRequest)
T = TypeVar("T")


class KnowledgeReports:
    """Makes the lists from the history of the running monitor. All methods raise `MonitorError` as its reader does."""

    def __init__(self, history: Path, topics: TopicKeeper, clock: Clock) -> None:
        self._history = history
        self._topics = topics
        self._clock = clock
        self._one = anyio.Lock()
        self._documents: dict[DocumentsRequest, tuple[float, DocumentsReport]] = {}
        self._unanswered: dict[UnansweredRequest, tuple[float, UnansweredReport]] = {}

    async def documents(self, request: DocumentsRequest) -> DocumentsReport:
        """Return the documents, as they are now or were a minute ago at most."""
        make = partial(documents_report, self._history, request)
        return await self._fresh(self._documents, request, make)

    async def unanswered(self, request: UnansweredRequest) -> UnansweredReport:
        """Return the unanswered questions, as they are now or were a minute ago at most."""
        make = partial(unanswered_report, self._history, request, self._topics.of(request.app))
        return await self._fresh(self._unanswered, request, make)

    async def _fresh(self, kept: dict[R, tuple[float, T]], request: R, make: Callable[[float], T]) -> T:
        async with self._one:
            now = self._clock.now()
            made, found = kept.pop(request, (0.0, None))
            if found is None or not 0 <= now - made < FRESH:
                made, found = now, await anyio.to_thread.run_sync(make, now)
            while len(kept) >= _KEPT:
                kept.pop(next(iter(kept)))
            kept[request] = made, found
            return found
