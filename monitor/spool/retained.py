"""Deliveries that are done with and kept for a while, for `rag-monitor backfill --from spool`: a file of their own.

Apart from the spool, whose file one process holds for itself: this one others may read while it is written. Nothing in
it is ever taken up again by itself. A fault here costs what would have been kept, and is counted; the spool goes on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import orjson

from monitor.clock import Clock
from monitor.errors import MonitorError
from monitor.spool.files import make_private
from monitor.spool.format import Damaged, Record, decode
from monitor.spool.salvage import set_aside
from monitor.telemetry.metrics import Metrics

NAME: Final = "retained.db"
"""The file, beside the spool's."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records (
  n INTEGER PRIMARY KEY, id INTEGER NOT NULL, head BLOB, meta BLOB, body BLOB, checksum INTEGER NOT NULL,
  received REAL NOT NULL, at REAL NOT NULL, size INTEGER NOT NULL, UNIQUE (id, checksum)
);
CREATE INDEX IF NOT EXISTS records_by_time ON records (at);
CREATE INDEX IF NOT EXISTS records_by_size ON records (size);
"""
_OVERHEAD: Final = 256
_AT_ONCE: Final = 64


class Retained:
    """The file at work, in the one thread that calls it. `keep` in seconds, `at_most` in bytes, compressed."""

    def __init__(self, path: Path, *, keep: float, at_most: int, clock: Clock, metrics: Metrics) -> None:
        self._path = path
        self._keep = keep
        self._at_most = at_most
        self._clock = clock
        self._bytes = metrics.spool_retained_bytes
        self._dropped = metrics.spool_retained_dropped
        self._db: sqlite3.Connection | None = None
        self._used = 0

    def take(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Keep these rows of the spool, as they stand there; let go of what is too old or too much. Never raises."""
        try:
            db = self._connection()
            now = self._clock.now()
            db.execute("BEGIN IMMEDIATE")
            for row in rows:
                size = len(row[1]) + len(row[2]) + len(row[3]) + _OVERHEAD
                added = db.execute(
                    "INSERT OR IGNORE INTO records (id, head, meta, body, checksum, received, at, size)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (*row, orjson.loads(row[1])[2], now, size),
                ).rowcount
                self._used += size if added else 0
            self._make_room(db, now)
            db.execute("COMMIT")
        except (sqlite3.Error, OSError, ValueError, TypeError):
            self._dropped.inc(len(rows))
            self.close()
        self._bytes.set(self._used)

    def _make_room(self, db: sqlite3.Connection, now: float) -> None:
        old = db.execute("DELETE FROM records WHERE at < ? RETURNING size", (now - self._keep,)).fetchall()
        self._used -= sum(size for (size,) in old)
        while self._used > self._at_most:
            oldest = "SELECT n FROM records ORDER BY n LIMIT 1"
            gone = db.execute(f"DELETE FROM records WHERE n IN ({oldest}) RETURNING size").fetchall()  # noqa: S608 - a constant
            if not gone:
                return
            self._used -= gone[0][0]
            self._dropped.inc()

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            make_private(self._path)
            try:
                self._db = _open(self._path)
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                    raise
                set_aside(self._path, self._clock.now())
                make_private(self._path)
                self._db = _open(self._path)
            self._used = self._db.execute("SELECT coalesce(sum(size), 0) FROM records").fetchone()[0]
        return self._db

    def close(self) -> None:
        """Let go of the file."""
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None


def discard(path: Path) -> None:
    """Delete the file, as nothing is to be kept any more; what the disk refuses is left."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=1)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")
        db.executescript(_SCHEMA)
    except sqlite3.Error:
        db.close()
        raise
    return db


def read(path: Path, since: float) -> Iterator[Record]:
    """The deliveries that came in since that wall-clock second, in the order in which they were done with.

    Damaged ones are passed over. Raises `MonitorError` where the file cannot be read.
    """
    after = 0
    while True:
        try:
            db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5)
            try:
                found = db.execute(
                    "SELECT n, id, head, meta, body, checksum FROM records WHERE n > ? AND received >= ?"
                    " ORDER BY n LIMIT ?",
                    (after, since, _AT_ONCE),
                ).fetchall()
            finally:
                db.close()
        except sqlite3.Error as error:
            raise MonitorError(f"{path} cannot be read: {error}") from error
        if not found:
            return
        for row in found:
            with suppress(Damaged):
                yield decode(row[1:])
        after = found[-1][0]


def rows_of(db: sqlite3.Connection, columns: str, numbers: Iterable[int]) -> list[tuple[Any, ...]]:
    """The rows of the spool with these numbers."""
    wanted = list(numbers)
    marks = ", ".join("?" * len(wanted))
    return db.execute(f"SELECT {columns} FROM records WHERE id IN ({marks})", wanted).fetchall()  # noqa: S608 - constants
