"""Remembers recent ids in bounded memory; the spool also stores results and draws in its file.

An id is kept as a 64-bit hash under the key of this process, in a table without objects: 13 to 26 bytes, where a set of
the ids takes about a hundred. Among a million ids, any two collide with a probability of 3 in 100 million.

A case that is processed again after a restart must not be sampled a second time: it would have had two chances, and
count with the wrong weight. A result that the sinks already have must not be counted twice.
"""

from __future__ import annotations

import mmap
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MAX_DRAWS: Final = 100_000
"""Draws kept in the file, the newest. A draw is needed as long as its case may be processed again."""
MAX_RESULT_IDS: Final = 200_000
"""Ids of results kept in the file, the newest."""


_KEY: Final = 8
_NUMBER: Final = 8
_FILLED: Final = 0.6
"""Share of a table's slots that are used before the next generation begins: on average, a search looks at no more than
four slots."""
_LEAST: Final = 64
_FREE, _FORGOTTEN = 0, 1
_MASK: Final = 2**64 - 1


class _Generation:
    """One table with open addressing. `width` is how many numbers a key has."""

    __slots__ = ("keys", "numbers", "used")

    def __init__(self, slots: int, width: int) -> None:
        self.keys = _zeros(slots * _KEY).cast("Q")
        self.numbers = _zeros(slots * width * _NUMBER).cast("d")
        self.used = 0

    def find(self, key: int) -> int:
        """Return the slot of `key`; if it is missing, -1 minus the free slot that it would get."""
        keys, last = self.keys, len(self.keys) - 1
        slot = key & last
        while (found := keys[slot]) != key:
            if found == _FREE:
                return -1 - slot
            slot = (slot + 1) & last
        return slot


def _zeros(size: int) -> memoryview:
    """Return zeroed bytes that the system allocates only when written; a `bytearray` would allocate all at once."""
    return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE) if size else bytearray())


class _Recent:
    """Two generations: when the newer one is full it becomes the older one, and the old older one is dropped."""

    def __init__(self, max_bytes: int, width: int, most: int) -> None:
        slots = _LEAST
        while slots * 4 * (_KEY + width * _NUMBER) <= max_bytes and slots * _FILLED < most:
            slots *= 2
        self._slots, self._width = slots, width
        self.limit = min(int(slots * _FILLED), most)
        """At least this many keys are kept, and up to twice as many."""
        self._new, self._old = _Generation(slots, width), _Generation(1, width)

    def _insert(self, key: int, place: int) -> int:
        """Return the slot of `key` in the newer generation, in which `place` was found for it."""
        if place < 0 and self._new.used >= self.limit:
            self._old, self._new = self._new, _Generation(self._slots, self._width)
            place = self._new.find(key)
        if place < 0:
            place = -1 - place
            self._new.keys[place] = key
            self._new.used += 1
        return place


class RecentIds(_Recent):
    """The most recent ids, in at most `max_bytes`: no more than twice `most`, no fewer than `limit`."""

    def __init__(self, max_bytes: int, most: int = 200_000) -> None:
        super().__init__(max_bytes, 0, most)

    def __contains__(self, key: bytes | str) -> bool:
        hashed = _hashed(key)
        return self._new.find(hashed) >= 0 or (self._old.used > 0 and self._old.find(hashed) >= 0)

    def first(self, key: bytes | str) -> bool:
        """Return whether `key` is seen for the first time, and remember it."""
        hashed = _hashed(key)
        place = self._new.find(hashed)
        if place >= 0:
            return False
        known = self._old.used > 0 and self._old.find(hashed) >= 0
        self._insert(hashed, place)
        return not known

    def forget(self, key: bytes | str) -> None:
        """Forget `key`, so that it counts as new the next time."""
        hashed = _hashed(key)
        for generation in (self._new, self._old):
            if (place := generation.find(hashed)) >= 0:
                generation.keys[place] = _FORGOTTEN


class RecentPairs(_Recent):
    """Two numbers for each of the most recent ids, in at most `max_bytes`; `most` and `limit` as in `RecentIds`."""

    def __init__(self, max_bytes: int, most: int = 100_000) -> None:
        super().__init__(max_bytes, 2, most)

    def get(self, key: bytes | str) -> tuple[float, float] | None:
        """Return the numbers of `key`; None if they are not kept."""
        hashed = _hashed(key)
        for generation in (self._new, self._old):
            if generation.used and (place := generation.find(hashed)) >= 0:
                return generation.numbers[2 * place], generation.numbers[2 * place + 1]
        return None

    def put(self, key: bytes | str, one: float, other: float) -> None:
        """Keep the numbers of `key`."""
        hashed = _hashed(key)
        place = self._insert(hashed, self._new.find(hashed))
        self._new.numbers[2 * place], self._new.numbers[2 * place + 1] = one, other


def _hashed(key: bytes | str) -> int:
    """Return a hash that is neither `_FREE` nor `_FORGOTTEN`."""
    return max(hash(key) & _MASK, _FORGOTTEN + 1)


class Draw(NamedTuple):
    """A sampling decision as it is stored: the key of the case, its probability, and the target share."""

    key: bytes
    probability: float
    target: float


class FirstDraws:
    """The draws kept, in at most `max_bytes` of memory. Calls `changed` when there are new draws to write."""

    def __init__(self, changed: Callable[[], None], max_bytes: int) -> None:
        self._changed = changed
        self._known = RecentPairs(max_bytes, MAX_DRAWS)
        self._pending: deque[Draw] = deque(maxlen=MAX_DRAWS)

    def __bool__(self) -> bool:
        """Return whether there are draws to write."""
        return bool(self._pending)

    def drawn(self, key: str) -> tuple[float, float] | None:
        """Return the probability and target share of the draw with this key; None if it is not kept."""
        return self._known.get(key.encode())

    def keep_draw(self, key: str, probability: float, target: float) -> None:
        """Keep a draw. It is written soon, no later than any result that is still unwritten."""
        draw = Draw(key.encode(), probability, target)
        self._known.put(draw.key, probability, target)
        self._pending.append(draw)
        self._changed()

    def load(self, draws: Iterable[Draw]) -> None:
        """Add the draws of the previous process, oldest first."""
        for one in draws:
            if self._known.get(one.key) is None:
                self._known.put(one.key, one.probability, one.target)

    def take(self) -> list[Draw]:
        """Return the unwritten draws, and treat them as written from now on."""
        taken = list(self._pending)
        self._pending.clear()
        return taken

    def give_back(self, taken: list[Draw]) -> None:
        """Put back draws that could not be written."""
        self._pending.extendleft(reversed(taken))


def read_draws(db: sqlite3.Connection) -> list[Draw]:
    """Return the draws in the database, oldest first, without damaged ones."""
    found = db.execute("SELECT id, probability, target FROM draws ORDER BY n DESC LIMIT ?", (MAX_DRAWS,)).fetchall()
    return [Draw(*row) for row in reversed(found) if _is_valid(row)]


def read_result_ids(db: sqlite3.Connection) -> list[str]:
    """Return the ids of delivered results in the database, oldest first."""
    known = db.execute("SELECT id FROM remembered ORDER BY n DESC LIMIT ?", (MAX_RESULT_IDS,)).fetchall()
    return [key.decode("utf-8", "replace") for (key,) in reversed(known) if isinstance(key, bytes)]


def write(db: sqlite3.Connection, result_ids: Iterable[str], draws: list[Draw], at: float) -> None:
    """Add ids and draws within the caller's transaction; delete draws beyond the newest `MAX_DRAWS`."""
    ids = [(key.encode("utf-8", "surrogatepass"), at) for key in result_ids]
    if ids:
        db.executemany("INSERT INTO remembered (id, at) VALUES (?, ?)", ids)
    if draws:
        db.executemany("INSERT INTO draws (id, probability, target, at) VALUES (?, ?, ?, ?)", [(*d, at) for d in draws])
        db.execute("DELETE FROM draws WHERE n <= (SELECT max(n) FROM draws) - ?", (MAX_DRAWS,))


def prune(db: sqlite3.Connection, before: float) -> None:
    """Delete entries older than any case can be, and ids beyond the newest `MAX_RESULT_IDS`."""
    oldest = "at < ? OR n <= (SELECT max(n) FROM remembered) - ?"
    db.execute(f"DELETE FROM remembered WHERE {oldest}", (before, MAX_RESULT_IDS))  # noqa: S608 - a constant
    db.execute("DELETE FROM draws WHERE at < ?", (before,))


def _is_valid(row: tuple[object, ...]) -> bool:
    key, probability, target = row
    return (
        isinstance(key, bytes)
        and isinstance(probability, float)
        and isinstance(target, float)
        and 0 < probability <= 1
        and 0 <= target <= 1
    )
