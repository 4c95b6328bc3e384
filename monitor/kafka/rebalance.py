"""What the group tells a member: which partitions it gets, and which it must give up or has lost already."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.net.selector import KernelEvent

if TYPE_CHECKING:
    from monitor.kafka.owner import Owner

_LOOK_EVERY: Final = 0.02


class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc] # kafka-python is not typed
    """Called on kafka-python's own loop, which sends heartbeats meanwhile, while the owner's thread waits in a poll.

    So what it does to the owner's state is done by one thread at a time, and it may wait.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        """Under the cooperative protocol the new ones only."""
        if not self._owner.over:
            self._owner.place_later(assigned)

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        """In order: there is time to finish and commit, and nobody else reads them yet."""
        if not self._owner.over:
            await self._owner.give_up(revoked)

    async def on_partitions_lost(self, lost: set[Any]) -> None:
        """The group went on without this member."""
        if not self._owner.over:
            await self._owner.lose(lost)


async def pause_for(done: Callable[[], bool], seconds: float) -> None:
    """Wait on kafka-python's loop until `done`, `seconds` at most; it has no public way to wait for another thread."""
    until = time.monotonic() + seconds
    while not done() and time.monotonic() < until:
        await KernelEvent("_sleep", _LOOK_EVERY)
