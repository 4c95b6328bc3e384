"""Connect a member to its consumer group: pass on assignments and revocations, commit offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import KafkaError
from kafka.net.selector import KernelEvent
from kafka.structs import OffsetAndMetadata

from monitor.clock import Clock
from monitor.transport.kafka.values import Partition

LAST_COMMIT_MS: Final = 1_500
_LAST_COMMIT: Final = 3.0
_LOOK_EVERY: Final = 0.02


class Member(Protocol):
    """The callbacks for changes to this member's partitions. `over`: it no longer listens."""

    over: bool

    def place_later(self, places: Iterable[Any]) -> None:
        """Record assigned partitions: find out where to start before fetching from them."""

    async def give_up(self, places: Iterable[Any]) -> None:
        """Give partitions up to another member: finish messages that can finish soon, commit, drop the rest."""

    async def lose(self, places: Iterable[Any]) -> None:
        """Drop partitions that another member already has: it is too late to commit."""


class RebalanceListener(AsyncConsumerRebalanceListener):  # type: ignore[misc] # kafka-python is not typed
    """Passes the group's decisions on to `member`.

    Called on kafka-python's own loop, which keeps sending heartbeats, while the poll thread waits in a poll. So only
    one thread at a time uses the state of `member`, and the listener may wait.
    """

    def __init__(self, member: Member) -> None:
        self._member = member

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        """Pass on assigned partitions; under the cooperative protocol, only the new ones."""
        if not self._member.over:
            self._member.place_later(assigned)

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        """Pass on an orderly revocation: there is time to finish and commit, and no other member reads them yet."""
        if not self._member.over:
            await self._member.give_up(revoked)

    async def on_partitions_lost(self, lost: set[Any]) -> None:
        """Pass on lost partitions: the group continued without this member."""
        if not self._member.over:
            await self._member.lose(lost)


class Commits:
    """Commits the progress of this member: one commit at a time, with offsets that only increase.

    Used by the poll thread. `assigned` are its current partitions; `answered` is called with `ok`, true if a commit
    succeeded.
    """

    def __init__(
        self, assigned: Mapping[Any, Partition], answered: Callable[..., None], clock: Clock, *, request_timeout: float
    ) -> None:
        self._assigned = assigned
        self._report = answered
        self._clock = clock
        self._request_timeout = request_timeout
        self._committing_until = 0.0

    def begin(self, consumer: Any, now: float) -> None:
        """Commit new offsets, without waiting for the answer."""
        if now < self._committing_until:
            return  # one at a time: if one commit overtook another, offsets would go back
        marks = _marks(self._assigned.values())
        if marks:
            self._committing_until = now + self._request_timeout
            consumer.commit_async(marks, callback=self._answered)

    async def last_of(self, consumer: Any, partitions: Iterable[Partition]) -> None:
        """Commit `partitions`, which go to another member, and wait for the answer, at most a few seconds."""
        marks = _marks(partitions)
        if marks:
            future = consumer.commit_async(marks, callback=self._answered)
            await pause_for(lambda: bool(future.is_done), _LAST_COMMIT, self._clock)

    def finish(self, consumer: Any) -> None:
        """Commit everything before the consumer is closed."""
        marks = _marks(self._assigned.values())
        if marks:
            try:
                consumer.commit(marks, timeout_ms=LAST_COMMIT_MS)
            except KafkaError:
                self._report(ok=False)
            else:
                self._report(ok=True)

    def _answered(self, marks: dict[Any, Any], answer: Any) -> None:
        self._committing_until = 0.0
        ok = not isinstance(answer, Exception)
        if ok:
            for at, mark in marks.items():
                if at in self._assigned:
                    self._assigned[at].committed = mark.offset
        self._report(ok=ok)


def _marks(partitions: Iterable[Partition]) -> dict[Any, Any]:
    marks = {}
    for one in partitions:
        mark = one.offsets.mark
        if mark > one.committed:
            marks[one.at] = OffsetAndMetadata(mark, "", -1)
    return marks


async def pause_for(done: Callable[[], bool], seconds: float, clock: Clock) -> None:
    """Wait on kafka-python's loop until `done`, at most `seconds`: it has no public way to wait for another thread."""
    until = clock.monotonic() + seconds
    while not done() and clock.monotonic() < until:
        await KernelEvent("_sleep", _LOOK_EVERY)
