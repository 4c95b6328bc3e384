"""The one way to open a SQLite file: pragmas, version, quick check, migration, and what to do with a damaged file.

`Database` is a file that this process writes, `ReadOnly` queries a file that another process may be writing,
`erasing` deletes from a file that another process may be writing. `open_database` is the function beneath them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from monitor.clock import Clock
from monitor.errors import ConfigError, MonitorError
from monitor.storage.files import make_private, size_of

_PRAGMAS: Final[Mapping[str, str | int]] = {
    "journal_mode": "WAL",  # readers and one writer at the same time
    "synchronous": "NORMAL",  # safe from a crash of the process; a power cut may cost the last commits
    "secure_delete": "ON",  # deleted texts are overwritten, also where they filled whole pages
}
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CHECK_UP_TO: Final = 64 * 1024**2
"""Larger files are not checked as a whole when they are opened: that would take seconds."""

_WAIT_TO_ERASE: Final = 60.0
_ERASE_AT_ONCE: Final = 500


class Damaged(Exception):  # noqa: N818 - named after the trouble, as the caller's `except` reads
    """What is in the file is not what was written to it."""


class SetAside(MonitorError):  # noqa: N818 - as above
    """The file turned out to be damaged during a call and was set aside: the next call begins a new one."""


@dataclass(frozen=True, slots=True)
class Format:
    """What a file holds.

    Args:
        version: the number of the current format, from 1, kept in the file as `PRAGMA user_version`.
        schema: an idempotent script that turns an empty file, or one of any earlier version, into this version.
        pragmas: settings that replace or precede the common ones, in this order.
    """

    version: int
    schema: str
    pragmas: Mapping[str, str | int] | None = None


def open_database(
    path: Path, form: Format, *, timeout: float = 5.0, pragmas: Mapping[str, str | int] | None = None
) -> sqlite3.Connection:
    """Open the file for writing, in autocommit mode, and bring it to the current version.

    Creates a missing file. Waits `timeout` seconds for another writer. `pragmas` come before those of `form`. The
    connection may be used from any thread, by one at a time. Raises `sqlite3.Error`; `ConfigError` where a newer
    version of this program wrote the file.
    """
    db = sqlite3.connect(path, isolation_level=None, timeout=timeout, check_same_thread=False)
    try:
        chosen = {**(pragmas or {}), **(form.pragmas or {})}
        for name, value in {**chosen, **{key: value for key, value in _PRAGMAS.items() if key not in chosen}}.items():
            db.execute(f"PRAGMA {name} = {value}")
        if _version(db, path, form) < form.version:
            db.executescript(f"BEGIN IMMEDIATE; {form.schema} PRAGMA user_version = {form.version}; COMMIT;")
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: Path, form: Format) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if not 0 <= version <= form.version:
        known = f"format {version}, not {form.version}"
        raise ConfigError(f"{path} was written by a newer version of this program ({known})")
    return version


def quick_check(db: sqlite3.Connection) -> None:
    """Read the structure of the whole file, not its content. Raises `Damaged`, `sqlite3.Error`.

    Without it a damaged inner page can hide rows from a search without an error.
    """
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    said = found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)
    if said != "ok":
        raise Damaged(said)


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, which its extended codes refine."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)) & 0xFF


def is_damage(error: Exception) -> bool:
    """Return whether the content of the file is at fault, rather than the disk or a lock."""
    if isinstance(error, sqlite3.Error):
        return code_of(error) in _DAMAGE
    return isinstance(error, Damaged)


def timestamp(at: float) -> str:
    """Write a moment (wall-clock seconds) as part of a file name: `20260131T120000Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))


def set_aside(path: Path, now: float) -> Path:
    """Rename a damaged database and its log to `*.damaged-<time>`; returns the new name. Raises `OSError`."""
    stamp = timestamp(now)
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    for again in range(1, 1000):
        if not aside.exists():
            break
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{again}")
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


def damaged_copies(path: Path) -> list[Path]:
    """Return the damaged files that were set aside for the database `path`, sorted by name."""
    return sorted(path.parent.glob(f"{path.name}*.damaged-*"))


def remove(path: Path) -> None:
    """Delete a database, if there is one, with its companion files. Raises `OSError`."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def used_bytes(db: sqlite3.Connection) -> int:
    """Bytes of the pages in use."""
    page, pages, unused = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
    )
    return int(page * (pages - unused))


def marks(values: Collection[object]) -> str:
    """Placeholders for an `IN (...)`: one question mark a value."""
    return ", ".join("?" * len(values))


def empty_log(db: sqlite3.Connection, *, wait: bool = False) -> None:
    """Fold the write-ahead log into the file and empty it: deleted rows still stand there.

    Skipped while another process reads: the next call does it. With `wait`, only after the connection's timeout.
    """
    with suppress(sqlite3.Error):
        (timeout,) = db.execute("PRAGMA busy_timeout").fetchone()
        try:
            if not wait:
                db.execute("PRAGMA busy_timeout = 0")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            db.execute(f"PRAGMA busy_timeout = {timeout}")


class Database:
    """A file that this process writes: opened at its first use, and again after any error.

    A damaged file is set aside and a new one begun. Safe in any thread, one caller at a time.

    Args:
        path: the file; made private, with its folder, where it does not exist.
        form: what it holds.
        name: what it is called in messages, such as `the history`.
        clock: for the name of a damaged file.
        damaged: called with the new place of a damaged file, and what was wrong with it.
        timeout: seconds to wait for another writer.
    """

    def __init__(
        self,
        path: Path,
        form: Format,
        *,
        name: str,
        clock: Clock,
        damaged: Callable[[Path, str], None] = lambda _aside, _why: None,
        timeout: float = 5.0,
    ) -> None:
        self._path = path
        self._form = form
        self._name = name
        self._clock = clock
        self._damaged = damaged
        self._timeout = timeout
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._checked = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection. Raises `MonitorError` where the file cannot be opened or a query fails.

        `SetAside` where it was damaged; the caller may try once more.
        """
        with self._using("read") as db:
            yield db

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a write transaction: all of it is done, or nothing. Raises as `reading` does."""
        with self._using("written") as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            if self._db is not None:
                with suppress(sqlite3.Error):
                    self._db.close()
                self._db = None

    @contextmanager
    def _using(self, how: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                db = self._connection()
                yield db
            except sqlite3.Error as error:
                self.close()
                if not is_damage(error):
                    raise MonitorError(f"{self._name} {self._path} cannot be {how}: {error}") from error
                self._replace(error)
                raise SetAside(f"{self._name} {self._path} was damaged and is begun again: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            try:
                make_private(self._path)
            except OSError as error:
                raise MonitorError(f"{self._name} {self._path} cannot be opened: {error.strerror}") from error
            try:
                self._db = self._open()
            except (sqlite3.Error, Damaged) as error:
                if not is_damage(error):
                    raise
                self._replace(error)
                self._db = self._open()
        return self._db

    def _open(self) -> sqlite3.Connection:
        db = open_database(self._path, self._form, timeout=self._timeout)
        try:
            if not self._checked and size_of(self._path) <= _CHECK_UP_TO:
                quick_check(db)
                self._checked = True
        except BaseException:
            db.close()
            raise
        return db

    def _replace(self, why: Exception) -> None:
        try:
            aside = set_aside(self._path, self._clock.now())
            make_private(self._path)
        except OSError as error:
            message = f"{self._name} {self._path} is damaged and cannot be replaced: {error.strerror}"
            raise MonitorError(message) from error
        self._damaged(aside, str(why))


class ReadOnly:
    """Queries of a file that another process may be writing, from any thread. Each opens a connection of its own.

    `name` is what the file is called in messages.
    """

    def __init__(self, path: Path, form: Format, *, name: str) -> None:
        self.path = path
        self._form = form
        self._name = name

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows. Raises `MonitorError` if there is no file, it cannot be read or a newer version wrote it."""
        try:
            with closing(_open_read_only(self.path)) as db:
                _version(db, self.path, self._form)
                return db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise MonitorError(f"{self._name} {self.path} cannot be read: {error}") from error


def _open_read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fspath(path))}?mode=ro", uri=True, timeout=5)


class Eraser:
    """Deletes, or with `dry_run` counts, rows of a file within one transaction; counts them by table."""

    def __init__(self, db: sqlite3.Connection, *, dry_run: bool) -> None:
        self.db = db
        self._dry_run = dry_run
        self.rows: dict[str, int] = {}

    def has(self, table: str) -> bool:
        """Return whether the file has this table."""
        sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        return self.db.execute(sql, (table,)).fetchone() is not None

    def delete(self, table: str, column: str, values: Collection[Any]) -> None:
        """Delete the rows whose `column` is one of `values`. A table that does not exist has none."""
        if not values or not self.has(table):
            return
        wanted, number = sorted(values), 0
        for at in range(0, len(wanted), _ERASE_AT_ONCE):
            part = wanted[at : at + _ERASE_AT_ONCE]
            where = f"FROM {table} WHERE {column} IN ({marks(part)})"
            if self._dry_run:
                number += int(self.db.execute(f"SELECT count(*) {where}", part).fetchone()[0])
            else:
                number += self.db.execute(f"DELETE {where}", part).rowcount
        if number:
            self.rows[table] = self.rows.get(table, 0) + number

    def requests_of(self, table: str, column: str, ids: Collection[str]) -> set[str]:
        """Return `ids` with the ids of all requests in `column` that are part of one of these traces or rows."""
        found = set(ids)
        if self.has(table):
            sql = f"SELECT DISTINCT {column} FROM {table} WHERE {column} > ? AND {column} < ?"  # noqa: S608 - ours
            for one in ids:
                found.update(name for (name,) in self.db.execute(sql, (f"{one}/", f"{one}0")))  # 0 comes after /
        return found


@contextmanager
def erasing(path: Path, *, dry_run: bool) -> Iterator[Eraser]:
    """Open the existing file `path` to delete from it, beside a running monitor.

    Deleted rows are overwritten on the disk. Waits up to 60 s for another writer. Raises `MonitorError`: then nothing
    was deleted.
    """
    try:
        make_private(path)
        with closing(sqlite3.connect(path, isolation_level=None, timeout=_WAIT_TO_ERASE)) as db:
            db.execute("PRAGMA secure_delete = ON")
            db.execute("BEGIN" if dry_run else "BEGIN IMMEDIATE")
            eraser = Eraser(db, dry_run=dry_run)
            yield eraser
            db.execute("COMMIT")
            if eraser.rows and not dry_run:
                empty_log(db, wait=True)
    except (sqlite3.Error, OSError) as error:
        raise MonitorError(f"{path} cannot be used: {error}") from error
