"""Where results go."""

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
    """Where results go.

    A sink follows the history: it gets every result that was written there, in its own pace, and again until it takes
    it. Write `deliver`, and `open` where it needs a connection.
    """

    follows: ClassVar[bool] = True
    """Whether the sink follows the history. Off: it gets each result at once, beside the history and only once, while
    the pipeline waits; for what serves or shows results in this process."""

    at_once: ClassVar[int] = 100
    """Results in a batch, at most."""

    in_flight: ClassVar[int] = 1
    """Batches that may be under way at a time."""

    memory: ClassVar[Literal["none", "process", "fleet"]] = "none"
    """Which results `replay_results` gives: none; those of this process, from before its restart (`process`); or those
    of every replica (`fleet`). A source that keeps its data until it is acknowledged, as Kafka does, is acknowledged
    when a sink of a `fleet` has the results, or after two minutes."""

    name: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_-]{0,39}$")
    """Name in metrics and logs, under which the history also keeps how far the sink has come. Default: its type; a
    second one of the type `<type>_2`."""

    async def deliver(self, results: Sequence[EvaluationResult]) -> None:
        """Take a batch of results; return when they are safe. Bound the time of each call.

        Raises `InvalidData` where the content of a result is refused for good: the batch is then halved until that
        result is alone, which is counted as `rejected`. After any other exception, such as `Overloaded`, the batch
        comes again after a pause. A result may come twice, with the same `id`.
        """
        raise NotImplementedError

    def open(self, runtime: Runtime) -> AbstractAsyncContextManager[Deliver]:  # noqa: ARG002 - the contract's
        """Connect for the life of the process. The context gives a function like `deliver`, by default `deliver`."""
        return _as_it_is(self.deliver)

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


@asynccontextmanager
async def _as_it_is(deliver: Deliver) -> AsyncIterator[Deliver]:
    yield deliver
