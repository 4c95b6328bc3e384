"""How far a partition may be committed: up to the first message that is not settled.

Messages are taken in the order of their offsets and settled in any order. The committed offset is the one to read next,
so everything below it is done: a restart reads all unsettled messages again, and skips none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from monitor.model.ack import Ack


class _Taken(NamedTuple):
    offset: int
    following: int
    timestamp: float


class Offsets:
    """The messages of one partition that were taken, in order, and which of them are not settled.

    `start` is the offset where reading begins. For one thread; only `mark` may be read from another.
    """

    def __init__(self, start: int = 0) -> None:
        self.mark = start
        """The offset to commit: everything before it is settled. Never decreases."""
        self._next = start
        self._taken: deque[_Taken] = deque()
        self._open: dict[int, Ack] = {}

    @property
    def position(self) -> int:
        """The offset after the last message taken."""
        return self._next

    @property
    def held(self) -> int:
        """How many messages were taken from the mark on, settled ones included."""
        return len(self._taken)

    @property
    def outstanding(self) -> Collection[Ack]:
        """The acks that are not settled yet."""
        return self._open.values()

    @property
    def oldest(self) -> float | None:
        """The timestamp of the first unsettled message; None without one."""
        return self._taken[0].timestamp if self._taken else None

    def take(self, offset: int, following: int | None = None, timestamp: float = 0.0) -> Ack:
        """Take the message at `offset`, or all from there up to but without `following`; returns the ack.

        Offsets may be missing (a compacted log has gaps). Raises `ValueError` for an offset that was taken before.
        """
        if offset < self._next:
            raise ValueError(f"offset {offset} comes after {self._next} was reached")
        self._next = offset + 1 if following is None else following
        self._taken.append(_Taken(offset, self._next, timestamp))
        ack = self._open[offset] = Ack(partial(self._settled, offset))
        return ack

    def pass_to(self, offset: int) -> None:
        """Skip offsets before `offset` that hold no message (the end of a transaction)."""
        if offset <= self._next:
            return
        if self._taken:
            self._taken.append(_Taken(offset - 1, offset, self._taken[-1].timestamp))
        else:
            self.mark = offset
        self._next = offset

    def _settled(self, offset: int) -> None:
        del self._open[offset]
        taken, still_open = self._taken, self._open
        while taken and taken[0].offset not in still_open:
            self.mark = taken.popleft().following
