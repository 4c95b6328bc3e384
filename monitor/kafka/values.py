"""What passes between the owner of a consumer and the event loop."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from monitor.kafka.offsets import Offsets

if TYPE_CHECKING:
    from monitor.kafka.owner import Owner


class PartitionStuck(Exception):  # noqa: N818 - never leaves this room
    """Messages are there, none comes, and nothing is paused."""


class Partition:
    """A partition while it is assigned here.

    To the event loop belong `offsets`, `closed` (nothing more of it is taken) and `released` (what was left of it is
    void); the rest to the owner.
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
        """What lies before `position` is on its way to the event loop."""
        self.position, self.moved_at, self.waits_since = position, now, None


class Unreadable(NamedTuple):
    """Messages from `offset` to before `following` that nobody can read: in place of them in the order of messages."""

    offset: int
    following: int
    reason: str
    error: str


class Passed(NamedTuple):
    """Nothing is there before `offset`."""

    offset: int


@dataclass(slots=True)
class Look:
    """What a look around found.

    Where partitions end, how many there are in all, which topics are missing, and whether this process is a member of
    the group that knows its part.
    """

    ends: list[tuple[Partition, int]]
    total: int
    missing: tuple[str, ...]
    joined: bool


class Group(Protocol):
    """The event loop's side. Every method is called there."""

    def assigned(self, partitions: list[Partition]) -> None:
        """These are read from now on."""

    def give_up(self, partitions: list[Partition], answered: threading.Event) -> None:
        """Another member will have these. `answered` is set once their marks are final and the rest is void."""

    def lost(self, partitions: list[Partition]) -> None:
        """Another member has these already."""

    def arrived(self, owner: Owner, found: list[tuple[Partition, list[Any]]]) -> None:
        """Messages, and what stands for them, in order."""

    def looked(self, look: Look) -> None:
        """Once a second."""

    def committed(self, *, ok: bool) -> None:
        """An offset commit was answered, or not."""

    def expired(self, topic: str, messages: int) -> None:
        """Retention has deleted messages before they were read."""

    def answering(self, *, ok: bool, why: str = "") -> None:
        """Whether the brokers answered a question."""
