"""Sinks that follow a history in a test's folder, with short pauses after failures."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from monitor.clock import Clock, SystemClock
from monitor.errors import InvalidData
from monitor.model.outcome import EvaluationResult
from monitor.pipeline.followers import Follower, Pauses
from monitor.sinks.history import HistorySink
from monitor.stages import Deliver, Runtime, Sink
from monitor.storage.history.feed import Feed
from tests.support.results import judged
from tests.support.runtime import runtime, total
from tests.support.tools import until


def ids(numbers: Collection[int]) -> list[str]:
    """Return the ids of the results with these numbers."""
    return [judged(one).id for one in numbers]


@dataclass
class Receiver:
    """Takes batches. It refuses results in `bad`, fails at those in `breaks`, and always fails while `down` is set.

    `gate` holds each call until it is opened.
    """

    bad: Collection[int] = ()
    breaks: Collection[int] = ()
    down: Exception | None = None
    gate: anyio.Event | None = None
    batches: list[list[str]] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    most: int = 0
    _open: int = 0

    async def deliver(self, results: Sequence[EvaluationResult]) -> None:
        came = [one.id for one in results]
        self.batches.append(came)
        self._open += 1
        self.most = max(self.most, self._open)
        try:
            if self.gate is not None:
                await self.gate.wait()
        finally:
            self._open -= 1
        if self.down is not None:
            raise self.down
        if set(ids(self.breaks)).intersection(came):
            raise OSError("answered 500")
        if set(ids(self.bad)).intersection(came):
            raise InvalidData("wrong")
        self.taken.extend(came)


class Following:
    """A history and the sinks that follow it."""

    def __init__(self, folder: Path, lent: Runtime, store: Deliver, feed: Feed, followers: Mapping[str, Follower]):
        self.path = folder / "history.db"
        self.lent = lent
        self.feed = feed
        self.followers = followers
        self._store = store

    async def write(self, *results: EvaluationResult) -> None:
        await self._store(results)
        for follower in self.followers.values():
            follower.wake()

    def count(self, outcome: str, sink: str = "one") -> float:
        return total(self.lent.metrics, "ragmonitor_sink_results_total", sink=sink, outcome=outcome)

    async def done(self, number: int, sink: str = "one") -> None:
        """Wait until the sink's position has reached this number."""
        await until(lambda: self.feed.standings()[sink].position >= number, "the position")


@asynccontextmanager
async def following(
    folder: Path,
    *,
    at_once: int = 10,
    in_flight: int = 1,
    patience: float = 1800.0,
    clock: Clock | None = None,
    lent: Runtime | None = None,
    retention: float = 1e12,
    texts: str = "explanations",
    **sinks: Deliver,
) -> AsyncIterator[Following]:
    """Follow a history in `folder` with `sinks`, by name."""
    lent = lent or runtime(clock)
    feed = Feed(folder / "history.db")
    options = {"path": folder / "history.db", "retention": retention, "texts": texts}
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(HistorySink.model_validate(options).open(lent))
        feed.begin(tuple(sinks))
        followers = {
            name: Follower(
                name,
                deliver,
                feed,
                lent,
                at_once=at_once,
                in_flight=in_flight,
                pauses=Pauses(random.Random(1), first=0.01),
                patience=patience,
            )
            for name, deliver in sinks.items()
        }
        async with anyio.create_task_group() as tasks:
            for follower in followers.values():
                tasks.start_soon(follower.run)
            yield Following(folder, lent, store, feed, followers)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def followed(folder: Path, sink: Sink) -> AsyncIterator[Following]:
    """Let `sink` follow a history, as the monitor does, with shorter pauses."""
    lent = runtime(SystemClock())
    async with (
        sink.open(lent) as deliver,
        following(folder, lent=lent, at_once=sink.at_once, in_flight=sink.in_flight, one=deliver) as at,
    ):
        yield at
