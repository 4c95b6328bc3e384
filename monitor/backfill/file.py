"""The queue's file: private, opened at its first use, shared among processes, begun anew where it is damaged."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from monitor.errors import MonitorError
from monitor.spool.files import make_private
from monitor.spool.salvage import set_aside

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS items (
  n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL, app TEXT NOT NULL,
  evaluator TEXT NOT NULL, source TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL, batch TEXT NOT NULL,
  answered REAL NOT NULL, at REAL NOT NULL, tries INTEGER NOT NULL, size INTEGER NOT NULL, body BLOB
);
CREATE INDEX IF NOT EXISTS items_by_state ON items (state, n);
CREATE INDEX IF NOT EXISTS items_by_size ON items (size);
CREATE INDEX IF NOT EXISTS items_by_batch ON items (batch, state) WHERE batch <> '';
"""
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class QueueFile:
    """The database in the file `path`, for one caller at a time, in any thread.

    `damaged` is told of the place where a damaged file was put, in whose stead a new one was begun.
    """

    def __init__(self, path: Path, damaged: Callable[[Path], None]) -> None:
        self._path = path
        self._damaged = damaged
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The database. What fails within is raised as `MonitorError`, and the next call opens it anew."""
        with self._lock:
            try:
                yield self._connection()
            except sqlite3.Error as error:
                self._let_go()
                raise MonitorError(f"the backfill queue {self._path} cannot be used: {error}") from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The database in a transaction: all of what is done within, or nothing. Raises as `reading` does."""
        with self.reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._let_go()

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            try:
                make_private(self._path)
                self._db = _open(self._path)
            except OSError as error:
                raise MonitorError(f"the backfill queue {self._path} cannot be opened: {error.strerror}") from None
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
                    raise
                self._damaged(set_aside(self._path, self._path.stat().st_mtime))
                make_private(self._path)
                self._db = _open(self._path)
        return self._db

    def _let_go(self) -> None:
        if self._db is not None:
            with suppress(sqlite3.Error):
                self._db.close()
            self._db = None


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=5, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")  # texts that are deleted are overwritten
        db.executescript(_SCHEMA)
    except sqlite3.Error:
        db.close()
        raise
    return db
