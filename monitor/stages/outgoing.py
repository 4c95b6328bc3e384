"""Where results go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Literal

from monitor.model.outcome import EvaluationResult
from monitor.stages.component import Component, Runtime, type_name
from monitor.stages.sampling import PastResult

Deliver = Callable[[EvaluationResult], Awaitable[None]]


class Sink(Component, ABC):
    """Where results go."""

    memory: ClassVar[Literal["none", "process", "fleet"]] = "none"
    """Whose results can be heard from it again, by `recall`: nobody's, those of this process's earlier lives, or those
    of every replica."""

    @abstractmethod
    def open(self, runtime: Runtime) -> AbstractAsyncContextManager[Deliver]:
        """Connect for the life of the process; leaving the context flushes.

        The returned function takes one result and returns when the sink has it safely; it may wait, which slows the
        pipeline down. A result may come twice (same `id`) after a restart.
        """

    def external_copies(self) -> str:
        """Name where copies of results lie outside the storage folder, to be deleted there; empty: nowhere.

        `rag-monitor forget` lists it. By default the name of the sink.
        """
        return type_name(self)

    async def recall(self, heard: Callable[[PastResult], None], runtime: Runtime) -> None:  # noqa: ARG002 - the contract's
        """Tell what the sink holds: the newest few thousand results, oldest first; then, of a fleet, each that comes.

        Called once, beside the pipeline; a sink that holds nothing, or only the past, returns. `heard` is quick and
        must be called on the event loop, in small numbers at once. A result may be told twice. May raise
        `MonitorError`.
        """
        return
