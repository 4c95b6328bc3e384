"""The spool's database, for one thread: blocking calls, with every error mapped to `StoreFailed`.

An error closes the connection; the next call opens it again, and first repairs the file if its content is damaged.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from monitor.clock import Clock
from monitor.errors import ConfigError
from monitor.storage import damage
from monitor.storage.checks import Damaged, code_of, quick_check
from monitor.storage.damage import Repaired
from monitor.storage.files import make_private, size_of, why_not_opened
from monitor.storage.spool import memory, salvage, table
from monitor.storage.spool.memory import Draw
from monitor.storage.spool.retained import NAME as RETAINED
from monitor.storage.spool.retained import Retained, discard, rows_of
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics

_NEVER = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG)

_CHECK_AT_OPEN = 256 * 1024 * 1024
"""Files up to this size are checked before a record is accepted (some tenths of a second), others before replay."""

_READ_BYTES = 4 * 1024 * 1024
_PRUNE_EVERY = 3600.0

_OPEN_EVERY = 1.0
"""Seconds between two attempts to open: a repair that runs out of space copies a lot before it fails."""

Trouble: TypeAlias = Literal["full", "failed", "damaged"]


class StoreFailed(Exception):  # noqa: N818 - named after the trouble, as the caller's `except` reads
    """A call failed and changed nothing. A retry may succeed at any time."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble


@dataclass(slots=True)
class Batch:
    """One transaction: records to add, numbers of records to delete, ids of results and draws to remember."""

    records: list[table.SpoolRecord] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)
    remembers: list[str] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)


class SpoolDatabase:
    """The database. All methods must be called from one thread, and block."""

    def __init__(
        self,
        path: Path,
        *,
        at_most: int,
        keep: float,
        retain: float,
        clock: Clock,
        metrics: Metrics,
        events: Events,
        erase: bool = False,
    ) -> None:
        self._erase = erase
        self._retained: Retained | None = None
        if retain > 0:
            place = path.with_name(RETAINED)
            self._retained = Retained(
                place, keep=retain, at_most=at_most // 2, clock=clock, metrics=metrics, events=events
            )
        else:
            discard(path.with_name(RETAINED))
        self._path = path
        self._fullness = table.Fullness(path)
        self._keep = keep
        self._clock = clock
        self._lost = metrics.spool_damaged
        self._report = damage.reporter("spool", events, metrics)
        # Deletions leave half-filled pages: allow for some before SQLite itself calls the file full.
        self._most_pages = at_most * 5 // 4 // table.PAGE + 64
        self._db: sqlite3.Connection | None = None
        self._damaged: Exception | None = None
        self._checked = False
        self._doomed: set[int] = set()
        self._next = 1
        self._left: int | None = None
        self._pruned_at = -_PRUNE_EVERY
        self._opening_failed: tuple[float, StoreFailed] | None = None

    def load(self) -> tuple[table.Room, list[str], list[Draw]]:
        """Open; return the remembered ids and draws, oldest first. Raises `StoreFailed`; `ConfigError`: never retry."""
        db = self._connection()
        try:
            known = memory.read_result_ids(db)
            drawn = memory.read_draws(db)
        except sqlite3.Error as error:
            self._fail(error)
        return self._room(db, self._clock.now()), known, drawn

    def write(self, batch: Batch) -> tuple[range, table.Room]:
        """Do all of `batch`, durably; return the numbers of new records. Raises `StoreFailed`; nothing is done then."""
        db, now = self._connection(), self._clock.now()
        numbers = range(self._next, self._next + len(batch.records))
        self._next = numbers.stop
        rows = [table.encode(number, record) for number, record in zip(numbers, batch.records, strict=True)]
        try:
            if self._retained is not None and batch.deletes:
                self._retained.take(rows_of(db, batch.deletes))
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "DELETE FROM records WHERE id = ?", [(number,) for number in (*self._doomed, *batch.deletes)]
            )
            db.executemany(table.INSERT, rows)
            memory.write(db, batch.remembers, batch.draws, now)
            self._prune(db, now)
            db.execute("COMMIT")
            if self._erase and batch.deletes and not batch.records and _is_empty(db):
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # deleted bytes are still in the log
            room = self._room(db, now)
        except sqlite3.Error as error:
            # A commit whose sync failed may still be in the file: these rows were never acknowledged to a sender.
            self._doomed.update(numbers)
            self._fail(error)
        self._doomed.clear()
        return numbers, room

    def read(self, after: int) -> list[tuple[int, table.SpoolRecord]]:
        """Read some megabytes of the records that the previous process left, after number `after`; empty at the end.

        Skips damaged ones, and counts them. Raises `StoreFailed`.
        """
        for _ in range(2):
            db = self._connection()
            found: list[tuple[int, table.SpoolRecord]] = []
            size = 0
            try:
                if not self._checked:
                    self._check(db)
                for row in db.execute(
                    f"SELECT {table.COLUMNS} FROM records WHERE id > ? AND id <= ? ORDER BY id",  # noqa: S608 - a constant
                    (after, self._left),
                ):
                    found.append((row[0], table.decode(row)))
                    size += len(found[-1][1].payload)
                    if size >= _READ_BYTES:
                        break
            except (sqlite3.Error, Damaged) as error:
                with contextlib.suppress(StoreFailed):
                    self._fail(error)
                if self._damaged is None:
                    raise StoreFailed("failed", f"reading {self._path}: {error}") from error
            else:
                return found
        raise StoreFailed("damaged", f"{self._path} was repaired and still cannot be read")

    def count_left(self) -> int:
        """Count the records that the previous process left. Raises `StoreFailed`."""
        db = self._connection()
        try:
            return int(db.execute("SELECT count(*) FROM records WHERE id <= ?", (self._left,)).fetchone()[0])
        except sqlite3.Error as error:
            self._fail(error)

    def close(self) -> None:
        """Checkpoint the log and close the file. If the disk refuses, that is done at the next start."""
        if self._retained is not None:
            self._retained.close()
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    # -- opening, failing, repairing

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            if self._opening_failed and self._clock.monotonic() - self._opening_failed[0] < _OPEN_EVERY:
                raise self._opening_failed[1]
            try:
                self._db = self._open()
                self._opening_failed = None
            except (sqlite3.Error, OSError) as error:
                try:
                    self._fail(error)
                except StoreFailed as failed:
                    self._opening_failed = (self._clock.monotonic(), failed)
                    raise
        return self._db

    def _open(self) -> sqlite3.Connection:
        damage.finish(self._path, self._clock.now())
        self._make_private()
        if self._damaged is None:
            try:
                return self._survey(table.connect(self._path, most_pages=self._most_pages, erase=self._erase))
            except (sqlite3.Error, Damaged) as error:
                if not table.is_damage(error):
                    raise
                self._damaged = error
        why = str(self._damaged)
        found = salvage.rebuild(self._path, most_pages=self._most_pages, now=self._clock.now(), why=why)
        self._damaged = None
        self._repaired(found)
        return self._survey(table.connect(self._path, most_pages=self._most_pages, erase=self._erase))

    def _check(self, db: sqlite3.Connection) -> None:
        quick_check(db)
        self._checked = True

    def _make_private(self) -> None:
        try:
            make_private(self._path)
        except OSError as error:
            if self._left is None and error.errno in _NEVER:
                raise ConfigError(
                    f"storage.path: {self._path} cannot be opened: {why_not_opened(self._path, error)}"
                ) from None
            raise

    def _survey(self, db: sqlite3.Connection) -> sqlite3.Connection:
        """Find the highest number, and whether the log was read to its end; return the connection."""
        try:
            if not self._checked and size_of(self._path) <= _CHECK_AT_OPEN:
                self._check(db)
            highest = db.execute("SELECT max(id) FROM records").fetchone()[0] or 0
            frames = _frames_in_log(db)
        except BaseException:
            db.close()
            raise
        self._next = max(self._next, highest + 1)
        if self._left is None:
            self._left = highest
            lost = salvage.lost_in_log(self._path, frames) if frames is not None else 0
            if lost:
                aside = salvage.copy_log(self._path, self._clock.now())
                why = f"commits at the end of its log cannot be read, up to {lost}"
                self._repaired(Repaired(aside or self._path, why, lost={"records": lost}))
        return db

    def _repaired(self, found: Repaired) -> None:
        self._lost.inc(found.lost["records"])
        self._report(found)

    def _fail(self, error: Exception) -> NoReturn:
        """Close the connection, since nothing in it is certain after a failed sync, and raise `StoreFailed`."""
        self.close()
        trouble: Trouble = "failed"
        if table.is_damage(error):
            self._damaged = error
            trouble = "damaged"
        elif isinstance(error, sqlite3.Error) and code_of(error) == sqlite3.SQLITE_FULL:
            trouble = "full"
        raise StoreFailed(trouble, f"{self._path}: {error}") from error

    def _room(self, db: sqlite3.Connection, now: float) -> table.Room:
        try:
            return self._fullness.of(db, now)
        except (sqlite3.Error, OSError) as error:
            self._fail(error)

    def _prune(self, db: sqlite3.Connection, now: float) -> None:
        if abs(now - self._pruned_at) >= _PRUNE_EVERY:
            self._pruned_at = now
            memory.prune(db, now - self._keep)


def _is_empty(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM records LIMIT 1").fetchone() is None


def _frames_in_log(db: sqlite3.Connection) -> int | None:
    """Checkpoint the log; return the number of valid frames in it, None if the disk has no room for that now."""
    try:
        frames: int = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
    except sqlite3.Error as error:
        if table.is_damage(error):
            raise
        return None
    return max(0, frames)
