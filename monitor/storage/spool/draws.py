"""With which probability a case was drawn first. One that is taken up again after a restart must not be drawn anew.

By then the probability would be another one, and the case, having had two chances, would count by the wrong weight.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

DRAWS_AT_MOST = 100_000
"""How many draws are kept, the newest. One is needed for as long as its case may be taken up again."""

SCHEMA = "CREATE TABLE IF NOT EXISTS draws (n INTEGER PRIMARY KEY, id BLOB, probability REAL, target REAL, at REAL);"


class Draw(NamedTuple):
    """A draw as it is stored."""

    key: bytes
    probability: float
    target: float


class FirstDraws:
    """The draws kept. `written` is called when there is something new to write."""

    def __init__(self, written: Callable[[], None]) -> None:
        self._written = written
        self._known: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        self._pending: deque[Draw] = deque(maxlen=DRAWS_AT_MOST)

    def __bool__(self) -> bool:
        """Whether there is something to write."""
        return bool(self._pending)

    def drawn(self, key: str) -> tuple[float, float] | None:
        """Probability and target share of the draw with this id, if it is kept."""
        return self._known.get(key.encode())

    def keep_draw(self, key: str, probability: float, target: float) -> None:
        """Keep a draw. Written soon, in one commit with what is remembered at that time or before it."""
        draw = Draw(key.encode(), probability, target)
        self._known[draw.key] = (probability, target)
        self._pending.append(draw)
        self._bound()
        self._written()

    def load(self, draws: Iterable[Draw]) -> None:
        """Those of the previous process, oldest first."""
        self._known = OrderedDict([*((one.key, (one.probability, one.target)) for one in draws), *self._known.items()])
        self._bound()

    def take(self) -> list[Draw]:
        """What is to be written."""
        taken = list(self._pending)
        self._pending.clear()
        return taken

    def give_back(self, taken: list[Draw]) -> None:
        """It was not written."""
        self._pending.extendleft(reversed(taken))

    def _bound(self) -> None:
        while len(self._known) > DRAWS_AT_MOST:
            self._known.popitem(last=False)


def read(db: sqlite3.Connection) -> list[Draw]:
    """The draws in the database, oldest first."""
    found = db.execute("SELECT id, probability, target FROM draws ORDER BY n DESC LIMIT ?", (DRAWS_AT_MOST,)).fetchall()
    return [Draw(*row) for row in reversed(found) if _whole(row)]


def write(db: sqlite3.Connection, draws: list[Draw], at: float) -> None:
    """Add draws within the transaction of the caller; those beyond the newest `DRAWS_AT_MOST` go."""
    if draws:
        db.executemany("INSERT INTO draws (id, probability, target, at) VALUES (?, ?, ?, ?)", [(*d, at) for d in draws])
        db.execute("DELETE FROM draws WHERE n <= (SELECT max(n) FROM draws) - ?", (DRAWS_AT_MOST,))


def prune(db: sqlite3.Connection, before: float) -> None:
    """Delete what is older than any case can be."""
    db.execute("DELETE FROM draws WHERE at < ?", (before,))


def copy(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Copy all that can be read into a new database. Raises `sqlite3.Error`."""
    rows = old.execute("SELECT id, probability, target, at FROM draws ORDER BY n")
    new.executemany("INSERT INTO draws (id, probability, target, at) VALUES (?, ?, ?, ?)", rows)


def _whole(row: tuple[object, ...]) -> bool:
    key, probability, target = row
    return (
        isinstance(key, bytes)
        and isinstance(probability, float)
        and isinstance(target, float)
        and 0 < probability <= 1
        and 0 <= target <= 1
    )
