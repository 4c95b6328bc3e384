"""Telling the group how far this member has come: one commit at a time, of marks that only go forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from monitor.kafka.rebalance import pause_for
from monitor.kafka.values import Partition

LAST_COMMIT_MS: Final = 1_500
_LAST_WORDS: Final = 3.0


class Commits:
    """Of the owner's thread. `assigned` are its partitions now; `told` hears whether a commit was answered, as `ok`."""

    def __init__(self, assigned: Mapping[Any, Partition], told: Callable[..., None], *, request_timeout: float) -> None:
        self._assigned = assigned
        self._told = told
        self._request_timeout = request_timeout
        self._committing_until = 0.0

    def begin(self, consumer: Any, now: float) -> None:
        """Commit what is new, without waiting for the answer."""
        if now < self._committing_until:
            return  # one at a time: commits that overtake each other would go back
        marks = _marks(self._assigned.values())
        if marks:
            self._committing_until = now + self._request_timeout
            consumer.commit_async(marks, callback=self._answered)

    async def last_of(self, consumer: Any, partitions: Iterable[Partition]) -> None:
        """Commit `partitions`, which are given up, and wait for the answer, some seconds at most."""
        marks = _marks(partitions)
        if marks:
            future = consumer.commit_async(marks, callback=self._answered)
            await pause_for(lambda: bool(future.is_done), _LAST_WORDS)

    def finish(self, consumer: Any) -> None:
        """Commit everything before the consumer is closed."""
        marks = _marks(self._assigned.values())
        if marks:
            try:
                consumer.commit(marks, timeout_ms=LAST_COMMIT_MS)
            except KafkaError:
                self._told(ok=False)
            else:
                self._told(ok=True)

    def _answered(self, marks: dict[Any, Any], answer: Any) -> None:
        self._committing_until = 0.0
        ok = not isinstance(answer, Exception)
        if ok:
            for at, mark in marks.items():
                if at in self._assigned:
                    self._assigned[at].committed = mark.offset
        self._told(ok=ok)


def _marks(partitions: Iterable[Partition]) -> dict[Any, Any]:
    marks = {}
    for one in partitions:
        mark = one.offsets.mark
        if mark > one.committed:
            marks[one.at] = OffsetAndMetadata(mark, "", -1)
    return marks
