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
    """Whose results `replay_results` gives: none; those of this process, from before its restart (`process`); or those
    of every replica (`fleet`)."""

    @abstractmethod
    def open(self, runtime: Runtime) -> AbstractAsyncContextManager[Deliver]:
        """Connect for the life of the process. Leaving the context flushes.

        The context gives a function that takes one result, and returns when the sink has it safely. It may wait, which
        slows the pipeline down. After a restart a result may come twice, with the same `id`.
        """

    def external_copies(self) -> str:
        """Name the places outside the storage folder that hold results, for `rag-monitor forget`; empty: none.

        By default the name of the sink.
        """
        return type_name(self)

    async def replay_results(self, on_result: Callable[[PastResult], None], runtime: Runtime) -> None:  # noqa: ARG002 - the contract's
        """Pass the results that the sink holds to `on_result`: the newest few thousand, oldest first.

        A sink of a `fleet` goes on with each result that arrives; any other returns. Called once, beside the pipeline.
        Call `on_result` on the event loop, for a few results at a time. A result may be passed twice. May raise
        `MonitorError`.
        """
        return
