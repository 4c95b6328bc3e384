"""The tables of the trails: one row for each request, and sums by the minute of what was done, for longer."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from monitor.errors import MonitorError
from monitor.model.trail import Step, Sum, Trail
from monitor.trail.format import pack, unpack

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS trails (request_id TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS trails_by_request ON trails (request_id);
CREATE INDEX IF NOT EXISTS trails_by_time ON trails (at);
CREATE TABLE IF NOT EXISTS steps (
  at INTEGER, app TEXT, source TEXT, evaluator TEXT, step TEXT, number INTEGER NOT NULL, expected REAL NOT NULL,
  last REAL NOT NULL, PRIMARY KEY (at, app, source, evaluator, step)
) WITHOUT ROWID;
"""
MINUTE: Final = 60
_PRUNE_AT_ONCE: Final = 500
_MOST_OF_ONE: Final = 20


class Minute(NamedTuple):
    """A step in the minute that began at `at`, in wall-clock seconds."""

    at: int
    step: Step


class Counted(NamedTuple):
    """How often a step was taken, the sum of the probabilities drawn with, and when last, in wall-clock seconds."""

    number: int
    expected: float
    last: float


def create(path: Path) -> sqlite3.Connection:
    """Open for writing, for use in this thread. Raises `sqlite3.Error`."""
    db = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = FAST")
        db.executescript(_SCHEMA)
    except sqlite3.Error:
        db.close()
        raise
    return db


def insert(db: sqlite3.Connection, trails: Iterable[Trail], sums: Mapping[Minute, Counted]) -> None:
    """Add trails and sums within the transaction of the caller."""
    rows = ((_whole(one.request_id), one.ended_at, pack(one)) for one in trails)
    db.executemany("INSERT INTO trails VALUES (?, ?, ?)", rows)
    db.executemany(
        "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number,"
        " expected = expected + excluded.expected, last = max(last, excluded.last)",
        ((minute.at, *map(_whole, minute.step), *counted) for minute, counted in sums.items()),
    )


def prune(db: sqlite3.Connection, *, before: float, sums_before: float, at_most: int, added: int = 0) -> bool:
    """Delete what is too old, or the oldest of too much, as fast as it is `added`; whether there may be more."""
    page, pages, unused = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
    )
    too_full = page * (pages - unused) > at_most
    limit = _PRUNE_AT_ONCE + 2 * added
    oldest = "SELECT rowid FROM trails WHERE at < ? OR ? ORDER BY at LIMIT ?"
    deleted = db.execute(f"DELETE FROM trails WHERE rowid IN ({oldest})", (before, too_full, limit)).rowcount  # noqa: S608
    if too_full and not deleted:  # the sums alone are too much
        first = db.execute("SELECT min(at) FROM steps").fetchone()[0]
        sums_before = max(sums_before, (first or 0) + 60 * MINUTE)
    db.execute("DELETE FROM steps WHERE at < ?", (sums_before,))
    return deleted >= limit


class Reader:
    """Reads the trails, from any thread or process, also while they are written.

    All methods block for some milliseconds and raise `MonitorError` where there is no file or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, request_id: str) -> list[Trail]:
        """The trails of one request, oldest first: more than one where more of it came after it was closed."""
        sql = "SELECT body FROM trails WHERE request_id = ? ORDER BY at LIMIT ?"
        found = []
        for (body,) in self._query(sql, [_whole(request_id), _MOST_OF_ONE]):
            with contextlib.suppress(ValueError, KeyError, TypeError):  # of a version to come
                found.append(unpack(body))
        return found

    def between(self, since: float, until: float, limit: int) -> list[Trail]:
        """The newest `limit` trails of requests that ended between two wall-clock seconds, newest first."""
        sql = "SELECT body FROM trails WHERE at >= ? AND at <= ? ORDER BY at DESC LIMIT ?"
        found = []
        for (body,) in self._query(sql, [since, until, limit]):
            with contextlib.suppress(ValueError, KeyError, TypeError):  # as above
                found.append(unpack(body))
        return found

    def sums(self, since: float, until: float, app: str | None = None) -> list[Sum]:
        """What was done from the minute that holds `since` up to `until`, in wall-clock seconds, by step."""
        where, values = "at >= ? AND at <= ?", [since // MINUTE * MINUTE, until]
        only: list[Any] = [*values]
        if app is not None:
            where, only = f"{where} AND app = ?", [*values, _whole(app)]
        sql = (
            "SELECT app, source, evaluator, step, sum(number), sum(expected), max(last) FROM steps"  # noqa: S608 - ours
            f" WHERE {where} GROUP BY 1, 2, 3, 4"
        )
        return [Sum(Step(*row[:4]), *row[4:]) for row in self._query(sql, only)]

    def span(self) -> tuple[float, float] | None:
        """The first minute that is summed, and when the newest step was taken; None where there is nothing."""
        ((first, last),) = self._query("SELECT min(at), max(last) FROM steps", [])
        return None if first is None else (float(first), float(last))

    def oldest(self) -> float | None:
        """When the oldest request ended whose trail is kept; None where there is none."""
        ((at,),) = self._query("SELECT min(at) FROM trails", [])
        return None if at is None else float(at)

    def _query(self, sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
        try:
            db = sqlite3.connect(f"file:{quote(str(self.path))}?mode=ro", uri=True, timeout=5)
            try:
                return db.execute(sql, values).fetchall()
            finally:
                db.close()
        except sqlite3.Error as error:
            raise MonitorError(f"the trails {self.path} cannot be read: {error}") from error


def _whole(text: str) -> str:
    """`text` without halves of surrogate pairs, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode()
