"""The spool's database as one thread sees it: blocking calls, and every fault mapped to `StoreFailed`.

A fault closes the connection; the next call opens it again, and repairs the file first where its content was at fault.
So whatever the trouble, the way back is the same, and it is tried by whoever comes next.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from monitor.clock import Clock
from monitor.errors import ConfigError
from monitor.spool import draws, salvage
from monitor.spool.draws import Draw
from monitor.spool.files import make_private, size_of
from monitor.spool.format import (
    COLUMNS,
    INSERT,
    PAGE,
    Damaged,
    Record,
    check,
    code_of,
    connect,
    decode,
    encode,
    is_damage,
    log_pages,
)
from monitor.telemetry.events import Event, Events
from monitor.telemetry.metrics import Metrics

REMEMBER_AT_MOST = 200_000
"""How many result ids are kept, the newest."""

_NEVER = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG)

_CHECK_AT_OPEN = 256 * 1024 * 1024
"""Files up to this size are checked before anything is accepted (some tenths of a second), others before the replay."""

_READ_BYTES = 4 * 1024 * 1024
_PRUNE_EVERY = 3600.0

_LOOK_EVERY = 0.25
"""Seconds between two looks at the free space of the disk."""

_OPEN_EVERY = 1.0
"""Seconds between two tries to open: a repair that fails for want of room copies a lot before it does."""

Trouble: TypeAlias = Literal["full", "failed", "damaged"]


class StoreFailed(Exception):  # noqa: N818 - named after the trouble, as the caller's `except` reads
    """A call that changed nothing. Another may succeed at any time."""

    def __init__(self, trouble: Trouble, message: str) -> None:
        super().__init__(message)
        self.trouble = trouble


@dataclass(slots=True)
class Batch:
    """What one transaction does: records to add, numbers of records to delete, result ids and draws to remember."""

    records: list[Record] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)
    remembers: list[str] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Room:
    """How full it is: bytes in use in the file, and whether the disk itself has room for more."""

    used: int
    disk_has_room: bool


class Store:
    """The database. All methods must be called from one thread, and block."""

    def __init__(
        self, path: Path, *, at_most: int, keep: float, clock: Clock, metrics: Metrics, events: Events
    ) -> None:
        self._path = path
        self._keep = keep
        self._clock = clock
        self._metrics = metrics
        self._events = events
        # What is deleted leaves half-filled pages: allow for some before SQLite itself calls the file full.
        self._most_pages = at_most * 5 // 4 // PAGE + 64
        self._db: sqlite3.Connection | None = None
        self._damaged = False
        self._checked = False
        self._disk_has_room = False
        self._looked_at = 0.0, 0
        self._log_pages = 0
        self._doomed: set[int] = set()
        self._next = 1
        self._left: int | None = None
        self._pruned_at = -_PRUNE_EVERY
        self._opening_failed: tuple[float, StoreFailed] | None = None

    def load(self) -> tuple[Room, list[str], list[Draw]]:
        """Open; the ids and draws remembered, oldest first. Raises `StoreFailed` (not now) or `ConfigError` (never)."""
        db = self._connection()
        try:
            known = db.execute("SELECT id FROM remembered ORDER BY n DESC LIMIT ?", (REMEMBER_AT_MOST,)).fetchall()
            drawn = draws.read(db)
        except sqlite3.Error as error:
            self._fail(error)
        ids = [key.decode("utf-8", "replace") for (key,) in reversed(known) if isinstance(key, bytes)]
        return self._room(db), ids, drawn

    def write(self, batch: Batch) -> tuple[range, Room]:
        """Do all of `batch`, on disk when this returns; the new records' numbers. Raises `StoreFailed`: did none."""
        db = self._connection()
        numbers = range(self._next, self._next + len(batch.records))
        self._next = numbers.stop
        rows = [encode(number, record) for number, record in zip(numbers, batch.records, strict=True)]
        try:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(
                "DELETE FROM records WHERE id = ?", [(number,) for number in (*self._doomed, *batch.deletes)]
            )
            db.executemany(INSERT, rows)
            if batch.remembers:
                at = self._clock.now()
                remembers = [(key.encode("utf-8", "surrogatepass"), at) for key in batch.remembers]
                db.executemany("INSERT INTO remembered (id, at) VALUES (?, ?)", remembers)
            draws.write(db, batch.draws, self._clock.now())
            self._prune(db)
            db.execute("COMMIT")
            room = self._room(db)
        except sqlite3.Error as error:
            # A commit whose sync failed may yet be found in the file: such rows belong to nobody.
            self._doomed.update(numbers)
            self._fail(error)
        self._doomed.clear()
        return numbers, room

    def read(self, after: int) -> list[tuple[int, Record]]:
        """Some megabytes of the records left by the previous process, beyond number `after`; none: that was all.

        Damaged ones are counted, given up, and not among them. Raises `StoreFailed`.
        """
        for _ in range(2):
            db = self._connection()
            found: list[tuple[int, Record]] = []
            size = 0
            try:
                if not self._checked:
                    self._check(db)
                for row in db.execute(
                    f"SELECT {COLUMNS} FROM records WHERE id > ? AND id <= ? ORDER BY id",  # noqa: S608 - a constant
                    (after, self._left),
                ):
                    found.append((row[0], decode(row)))
                    size += len(found[-1][1].payload)
                    if size >= _READ_BYTES:
                        break
            except (sqlite3.Error, Damaged) as error:
                with contextlib.suppress(StoreFailed):
                    self._fail(error)
                if not self._damaged:
                    raise StoreFailed("failed", f"reading {self._path}: {error}") from error
            else:
                return found
        raise StoreFailed("damaged", f"{self._path} was repaired and still cannot be read")

    def count_left(self) -> int:
        """How many records the previous process left. Raises `StoreFailed`."""
        db = self._connection()
        try:
            return int(db.execute("SELECT count(*) FROM records WHERE id <= ?", (self._left,)).fetchone()[0])
        except sqlite3.Error as error:
            self._fail(error)

    def close(self) -> None:
        """Fold the log into the database and let go of the file. What the disk refuses is done at the next start."""
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
        salvage.finish(self._path, self._clock.now())
        self._make_private()
        if not self._damaged:
            try:
                return self._survey(connect(self._path, most_pages=self._most_pages))
            except (sqlite3.Error, Damaged) as error:
                if not is_damage(error):
                    raise
                self._damaged = True
        came = salvage.rebuild(self._path, most_pages=self._most_pages, now=self._clock.now())
        self._damaged = False
        self._report_damage(
            came.lost,
            f"the spool was damaged: {came.kept} records saved, {came.lost} or more lost, the damaged file is kept",
            aside=came.aside,
        )
        return self._survey(connect(self._path, most_pages=self._most_pages))

    def _check(self, db: sqlite3.Connection) -> None:
        check(db)
        self._checked = True

    def _make_private(self) -> None:
        try:
            make_private(self._path)
        except OSError as error:
            if self._left is None and error.errno in _NEVER:
                raise ConfigError(f"the spool cannot be at {self._path}: {error.strerror}") from None
            raise

    def _survey(self, db: sqlite3.Connection) -> sqlite3.Connection:
        """Learn where the numbers stand, and whether the log was read to its end; hands the connection through."""
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
                message = (
                    f"the spool's log was damaged: up to {lost} of its last commits are lost, a copy of it is kept"
                )
                self._report_damage(lost, message, aside=aside)
        return db

    def _report_damage(self, lost: int, message: str, *, aside: Path | None) -> None:
        self._metrics.spool_damaged.inc(lost)
        self._events.error(Event.SPOOL_DAMAGED, message, path=str(self._path), aside=str(aside))

    def _fail(self, error: Exception) -> NoReturn:
        """Close, even where it might go on (after a failed sync nothing it holds is sure), and say what it was."""
        self.close()
        trouble: Trouble = "failed"
        if is_damage(error):
            self._damaged = True
            trouble = "damaged"
        elif isinstance(error, sqlite3.Error) and code_of(error) == sqlite3.SQLITE_FULL:
            trouble = "full"
        raise StoreFailed(trouble, f"{self._path}: {error}") from error

    def _room(self, db: sqlite3.Connection) -> Room:
        """How full the file is now, and how full the disk was less than a second ago.

        Appends leave some space alone: without it the log could not be folded in, and not even a deletion be written.
        """
        try:
            pages: int = db.execute("PRAGMA page_count").fetchone()[0]
            unused: int = db.execute("PRAGMA freelist_count").fetchone()[0]
            now = self._clock.monotonic()
            grown = pages - self._looked_at[1] > self._log_pages // 4
            if grown or not self._disk_has_room or now - self._looked_at[0] >= _LOOK_EVERY:
                self._looked_at = now, pages
                self._disk_has_room = self._look(unused * PAGE)
        except (sqlite3.Error, OSError) as error:
            self._fail(error)
        return Room((pages - unused) * PAGE, self._disk_has_room)

    def _look(self, unused: int) -> bool:
        disk = os.statvfs(self._path.parent)
        free = disk.f_bavail * disk.f_frsize
        self._log_pages = log_pages(disk)
        most_log = self._log_pages * PAGE
        log_fits = free + size_of(self._path.with_name(self._path.name + "-wal")) > most_log * 5 // 4
        return log_fits and free + unused > 3 * most_log

    def _prune(self, db: sqlite3.Connection) -> None:
        if self._clock.monotonic() - self._pruned_at < _PRUNE_EVERY:
            return
        self._pruned_at = self._clock.monotonic()
        oldest = "at < ? OR n <= (SELECT max(n) FROM remembered) - ?"
        db.execute(f"DELETE FROM remembered WHERE {oldest}", (self._clock.now() - self._keep, REMEMBER_AT_MOST))  # noqa: S608
        draws.prune(db, self._clock.now() - self._keep)


def _frames_in_log(db: sqlite3.Connection) -> int | None:
    """How many good frames SQLite found in the log, which it folds in; None where the disk has no room for that now."""
    try:
        frames: int = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
    except sqlite3.Error as error:
        if is_damage(error):
            raise
        return None
    return max(0, frames)
