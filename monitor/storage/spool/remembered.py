"""The ids of results that the sinks have had, as the database keeps them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

REMEMBER_AT_MOST = 200_000
"""How many result ids are kept, the newest."""


def read(db: sqlite3.Connection) -> list[str]:
    """The ids in the database, oldest first."""
    known = db.execute("SELECT id FROM remembered ORDER BY n DESC LIMIT ?", (REMEMBER_AT_MOST,)).fetchall()
    return [key.decode("utf-8", "replace") for (key,) in reversed(known) if isinstance(key, bytes)]


def write(db: sqlite3.Connection, ids: Iterable[str], at: float) -> None:
    """Add ids within the transaction of the caller."""
    remembers = [(key.encode("utf-8", "surrogatepass"), at) for key in ids]
    if remembers:
        db.executemany("INSERT INTO remembered (id, at) VALUES (?, ?)", remembers)


def prune(db: sqlite3.Connection, before: float) -> None:
    """Delete what is older, and what is beyond the newest."""
    oldest = "at < ? OR n <= (SELECT max(n) FROM remembered) - ?"
    db.execute(f"DELETE FROM remembered WHERE {oldest}", (before, REMEMBER_AT_MOST))  # noqa: S608


def copy(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Copy all that can be read into a new database. Raises `sqlite3.Error`."""
    new.executemany("INSERT INTO remembered (id, at) VALUES (?, ?)", old.execute("SELECT id, at FROM remembered"))
