"""Define the values that pass between a consumer's poll thread and the event loop, and track offsets of partitions.

Messages are taken in offset order and settled in any order. The committed offset is the next one to read, and
everything before it is settled: a restart reads all unsettled messages again and skips none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from monitor.model.ack import Ack


class _Taken(NamedTuple):
    offset: int
    following: int
    timestamp: float


class Offsets:
    """The messages taken from one partition, in order, and which of them are unsettled.

    `start` is the first offset to read. Use from one thread; only `mark` may be read from another.
    """

    def __init__(self, start: int = 0) -> None:
        self.mark = start
        """The offset to commit: everything before it is settled. Never decreases."""
        self._next = start
        self._taken: deque[_Taken] = deque()
        self._open: dict[int, Ack] = {}

    @property
    def position(self) -> int:
        """Offset after the last message taken."""
        return self._next

    @property
    def held(self) -> int:
        """Number of messages taken since the mark, including settled ones."""
        return len(self._taken)

    @property
    def outstanding(self) -> Collection[Ack]:
        """The unsettled acks."""
        return self._open.values()

    @property
    def oldest(self) -> float | None:
        """Timestamp of the first unsettled message; None if there is none."""
        return self._taken[0].timestamp if self._taken else None

    def take(self, offset: int, following: int | None = None, timestamp: float = 0.0) -> Ack:
        """Take the message at `offset`, or all messages from there up to but excluding `following`; return the ack.

        Offsets may be missing (a compacted log has gaps). Raises `ValueError` for an offset that was already taken.
        """
        if offset < self._next:
            raise ValueError(f"offset {offset} comes after {self._next} was reached")
        self._next = offset + 1 if following is None else following
        self._taken.append(_Taken(offset, self._next, timestamp))
        ack = self._open[offset] = Ack(partial(self._settled, offset))
        return ack

    def pass_to(self, offset: int) -> None:
        """Skip offsets before `offset` that contain no message (the end of a transaction)."""
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


class PartitionStuck(Exception):  # noqa: N818 - never leaves this package
    """A partition that is not paused has messages, but none arrives."""


@dataclass(slots=True)
class Flow:
    """The volume that the poll thread has sent and that the event loop has accepted. Each writes its own fields."""

    sent: int = 0
    sent_bytes: int = 0
    accepted: int = 0
    accepted_bytes: int = 0

    @property
    def messages(self) -> int:
        """Messages that the event loop has not accepted yet."""
        return self.sent - self.accepted

    @property
    def size(self) -> int:
        """Bytes that the event loop has not accepted yet."""
        return self.sent_bytes - self.accepted_bytes


class Partition:
    """A partition while it is assigned here.

    The event loop writes `offsets`, `closed` (no more of its messages are taken) and `released` (its open acks are
    void); the poll thread writes the rest.
    """

    def __init__(self, at: Any, start: int, now: float) -> None:
        self.topic: str = at.topic
        self.number: int = at.partition
        self.at = at
        self.offsets = Offsets(start)
        self.closed = self.released = False
        self.committed = self.position = self.end = start
        self.moved_at = now
        self.waits_since: float | None = None

    def moved(self, position: int, now: float) -> None:
        """Record that all messages before the offset `position` have been sent to the event loop."""
        self.position, self.moved_at, self.waits_since = position, now, None


class Unreadable(NamedTuple):
    """A placeholder for messages that cannot be read, from `offset` up to but excluding `following`."""

    offset: int
    following: int
    reason: str
    error: str


class Passed(NamedTuple):
    """A placeholder for the end of a transaction: there is no message before `offset`."""

    offset: int


@dataclass(slots=True)
class GroupStatus:
    """The state of the group, reported once a second.

    It has the end offset of each assigned partition, the number of partitions of all topics, the topics that do not
    exist, and whether this process is a member of the group and knows its partitions.
    """

    ends: list[tuple[Partition, int]]
    total: int
    missing: tuple[str, ...]
    joined: bool


class GroupMember(Protocol):
    """The callbacks of a member. Each method is called on the event loop."""

    def assigned(self, partitions: list[Partition]) -> None:
        """Start reading partitions."""

    def give_up(self, partitions: list[Partition], answered: threading.Event) -> None:
        """Give partitions up to another member. Set `answered` once their offsets are final and open acks are void."""

    def lost(self, partitions: list[Partition]) -> None:
        """Drop partitions that another member already has."""

    def arrived(self, flow: Flow, found: list[tuple[Partition, list[Any]]]) -> None:
        """Accept messages or their placeholders, in order. Each counts as accepted in `flow` once it is taken."""

    def looked(self, look: GroupStatus) -> None:
        """Receive the state of the group, once a second."""

    def committed(self, *, ok: bool) -> None:
        """Record whether an offset commit succeeded."""

    def expired(self, topic: str, messages: int) -> None:
        """Record that the topic's retention deleted messages before they were read."""

    def answering(self, *, ok: bool, why: str = "") -> None:
        """Record whether the brokers answered a request and, if not, why."""
