"""A bounded queue between two stages. Full means: the sender waits, and whoever asks `full` can refuse at the door."""

from __future__ import annotations

from types import TracebackType
from typing import Generic, TypeVar

import anyio

from monitor.telemetry.metrics import Metrics

T = TypeVar("T")


class Channel(Generic[T]):
    """First in, first out, at most `limit` items; its length and limit are metrics under `name`."""

    def __init__(self, name: str, limit: int, metrics: Metrics) -> None:
        self._limit = limit
        self._put, self._take = anyio.create_memory_object_stream[T](limit)
        metrics.queue_items.labels(name).set_function(lambda: len(self))
        metrics.queue_limit.labels(name).set(limit)

    def __len__(self) -> int:
        """Items waiting now."""
        return self._put.statistics().current_buffer_used

    @property
    def full(self) -> bool:
        """Whether a sender would have to wait."""
        return len(self) >= self._limit

    async def send(self, item: T) -> None:
        """Hand over an item; waits while the channel is full."""
        await self._put.send(item)

    async def receive(self) -> T:
        """The oldest item; waits while there is none."""
        return await self._take.receive()

    def __enter__(self) -> Channel[T]:
        """Both ends are open while the context lasts."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close both ends."""
        self._put.close()
        self._take.close()
