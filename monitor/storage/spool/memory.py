"""What the spool remembers beside its records: delivered results, and the first sampling decision on each case.

A case that is processed again after a restart must not be sampled a second time: it would have had two chances, and
count with the wrong weight. A result that the sinks have must not be counted twice.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

MAX_DRAWS: Final = 100_000
"""Draws that are kept, the newest. One is needed as long as its case may be processed again."""
MAX_RESULT_IDS: Final = 200_000
"""Ids of results that are kept, the newest."""


class Draw(NamedTuple):
    """A sampling decision as it is stored: the key of the case, its probability, and the target share."""

    key: bytes
    probability: float
    target: float


class FirstDraws:
    """The draws that are kept, in memory. Calls `changed` when there are new ones to write."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._known: OrderedDict[bytes, tuple[float, float]] = OrderedDict()
        self._pending: deque[Draw] = deque(maxlen=MAX_DRAWS)

    def __bool__(self) -> bool:
        """Return whether there are draws to write."""
        return bool(self._pending)

    def drawn(self, key: str) -> tuple[float, float] | None:
        """Probability and target share of the draw with this key; None where it is not kept."""
        return self._known.get(key.encode())

    def keep_draw(self, key: str, probability: float, target: float) -> None:
        """Keep a draw. It is written soon, in the same commit as results remembered then or earlier, or before them."""
        draw = Draw(key.encode(), probability, target)
        self._known[draw.key] = (probability, target)
        self._pending.append(draw)
        self._drop_oldest()
        self._changed()

    def load(self, draws: Iterable[Draw]) -> None:
        """Add the draws of the previous process, oldest first."""
        self._known = OrderedDict([*((one.key, (one.probability, one.target)) for one in draws), *self._known.items()])
        self._drop_oldest()

    def take(self) -> list[Draw]:
        """Return the draws that are not written yet, and treat them as written."""
        taken = list(self._pending)
        self._pending.clear()
        return taken

    def give_back(self, taken: list[Draw]) -> None:
        """Return draws that could not be written."""
        self._pending.extendleft(reversed(taken))

    def _drop_oldest(self) -> None:
        while len(self._known) > MAX_DRAWS:
            self._known.popitem(last=False)


def read_draws(db: sqlite3.Connection) -> list[Draw]:
    """Return the draws in the database, oldest first, without damaged ones."""
    found = db.execute("SELECT id, probability, target FROM draws ORDER BY n DESC LIMIT ?", (MAX_DRAWS,)).fetchall()
    return [Draw(*row) for row in reversed(found) if _is_valid(row)]


def read_result_ids(db: sqlite3.Connection) -> list[str]:
    """Return the ids of delivered results in the database, oldest first."""
    known = db.execute("SELECT id FROM remembered ORDER BY n DESC LIMIT ?", (MAX_RESULT_IDS,)).fetchall()
    return [key.decode("utf-8", "replace") for (key,) in reversed(known) if isinstance(key, bytes)]


def write(db: sqlite3.Connection, result_ids: Iterable[str], draws: list[Draw], at: float) -> None:
    """Add ids and draws within the caller's transaction; deletes draws beyond the newest `MAX_DRAWS`."""
    ids = [(key.encode("utf-8", "surrogatepass"), at) for key in result_ids]
    if ids:
        db.executemany("INSERT INTO remembered (id, at) VALUES (?, ?)", ids)
    if draws:
        db.executemany("INSERT INTO draws (id, probability, target, at) VALUES (?, ?, ?, ?)", [(*d, at) for d in draws])
        db.execute("DELETE FROM draws WHERE n <= (SELECT max(n) FROM draws) - ?", (MAX_DRAWS,))


def prune(db: sqlite3.Connection, before: float) -> None:
    """Delete what is older than any case can be, and ids beyond the newest `MAX_RESULT_IDS`."""
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
