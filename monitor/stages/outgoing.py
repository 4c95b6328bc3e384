"""The contract of sinks, which deliver results."""

from __future__ import annotations

from abc import ABC
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Literal

from pydantic import Field

from monitor.model.outcome import EvaluationResult
from monitor.stages.component import Component, Runtime, type_name
from monitor.stages.sampling import PastResult

Deliver = Callable[[Sequence[EvaluationResult]], Awaitable[None]]


class Sink(Component, ABC):
    """Delivers results to a destination.

    A sink follows the history: it gets every result written there, at its own pace, repeatedly until it accepts it.
    Implement `deliver`, and `open` if it needs a connection.
    """

    follows: ClassVar[bool] = True
    """Whether the sink follows the history. Off: it gets each result immediately, independently of the history and only
    once, while the pipeline waits. Meant for sinks that serve or show results in this process."""

    at_once: ClassVar[int] = 100
    """Maximum results in a batch."""

    in_flight: ClassVar[int] = 1
    """Maximum batches in flight."""

    memory: ClassVar[Literal["none", "process", "fleet"]] = "none"
    """Which results `replay_results` returns: none; those of this process from before its restart (`process`); or those
    of every replica (`fleet`). A source that keeps its data until it is acknowledged, such as Kafka, is acknowledged
    when a `fleet` sink has the results, or after two minutes."""

    name: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_-]{0,39}$")
    """Name in metrics and logs. The history stores the sink's position under it. Default: its type; `<type>_2` for a
    second sink of the type."""

    async def deliver(self, results: Sequence[EvaluationResult]) -> None:
        """Take a batch of results; return when they are safe. Bound the time of each call.

        Raises `InvalidData` if the content of a result is refused for good: the batch is then halved until that result
        is alone, and it is counted as `rejected`. After any other exception, such as `Overloaded`, the batch is
        delivered again after a pause. A result may be delivered twice, with the same `id`.
        """
        raise NotImplementedError

    def open(self, runtime: Runtime) -> AbstractAsyncContextManager[Deliver]:  # noqa: ARG002 - the contract's
        """Connect for the life of the process. The context yields a function like `deliver`, by default `deliver`."""
        return _as_it_is(self.deliver)

    def external_copies(self) -> str:
        """Name the places outside the storage folder that hold results, for `rag-monitor forget`; empty if none.

        By default, the type of the sink.
        """
        return type_name(self)

    async def replay_results(self, on_result: Callable[[PastResult], None], runtime: Runtime) -> None:  # noqa: ARG002 - the contract's
        """Pass the results that the sink holds to `on_result`: the newest few thousand, oldest first.

        A `fleet` sink continues with each new result that arrives; any other sink returns. Called once, concurrently
        with the pipeline. Call `on_result` on the event loop, for a few results at a time. A result may be passed
        twice. May raise `MonitorError`.
        """
        return


@asynccontextmanager
async def _as_it_is(deliver: Deliver) -> AsyncIterator[Deliver]:
    yield deliver
