"""The one way to open a SQLite file: pragmas, version, migration, quick check, and the repair of a damaged file.

`Database` is a file that this process writes, `ReadOnly` queries a file that another process may be writing;
`monitor.storage.erasing` deletes from such a file. `open_database` is the function underneath.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from monitor.clock import Clock
from monitor.errors import InvalidData, MonitorError
from monitor.storage import damage
from monitor.storage.checks import (
    BackgroundCheck,
    Damaged,
    check_schema,
    full_check,
    is_damage,
    open_read_only,
    quick_check,
    readable,
)
from monitor.storage.damage import Repaired
from monitor.storage.files import make_private, size_of
from monitor.storage.folder import rolled_back

_PRAGMAS: Final[Mapping[str, str | int]] = {
    "journal_mode": "WAL",  # readers and one writer at the same time
    "synchronous": "NORMAL",  # safe from a crash of the process; a power cut may cost the last commits
    "secure_delete": "ON",  # deleted texts are overwritten, even if they filled whole pages
}
_CHECK_UP_TO: Final = 64 * 1024**2
"""Files up to this size are checked when they are opened, in some tenths of a second; larger ones in a thread."""
_CHECK_EVERY: Final = 86_400.0
_SUSPECT_EVERY: Final = 60.0
_REPAIR_EVERY: Final = 30.0
"""Seconds between two attempts at a repair that the disk refuses: each copies rows for up to ten seconds."""
_NEVER: Final = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError)
"""Errors in the data to write, not in the file or the disk: a retry would fail in the same way."""
_VERSIONS: Final = 10_000
"""Format numbers are lower than this: a higher one is damage, not a newer version."""


class SetAside(MonitorError):  # noqa: N818 - named after what was done, as the caller's `except` reads
    """The file was found damaged during a call and was replaced with what could be saved: the next call works."""


class DamagedFile(MonitorError):  # noqa: N818 - as above
    """The file cannot be read because it is damaged. The process that writes it replaces it."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a file.

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
    connection may be used from any thread, by one at a time. Raises `sqlite3.Error`, `Damaged`; `ConfigError` if a
    newer version of this program wrote the file.
    """
    db = sqlite3.connect(path, isolation_level=None, timeout=timeout, check_same_thread=False)
    db.text_factory = readable
    try:
        chosen = {**(pragmas or {}), **(form.pragmas or {})}
        for name, value in {**chosen, **{key: value for key, value in _PRAGMAS.items() if key not in chosen}}.items():
            db.execute(f"PRAGMA {name} = {value}")
        if _version(db, path, form) < form.version:
            db.executescript(f"BEGIN IMMEDIATE; {form.schema} PRAGMA user_version = {form.version}; COMMIT;")
    except UnicodeDecodeError as error:  # SQLite's own message quotes a schema that is not text
        db.close()
        raise Damaged(f"the schema is not text: {error}") from None
    except BaseException:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: Path, form: Format) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if not 0 <= version < _VERSIONS:
        raise Damaged(f"{version} is not the version of any format")
    if version > form.version:
        raise rolled_back(path, version, form.version)
    return version


def refuse_newer(path: Path, form: Format) -> None:
    """Raise `ConfigError` if a newer version of this program wrote the file. Other faults are found later."""
    with suppress(sqlite3.Error, Damaged, UnicodeDecodeError), closing(open_read_only(path, untouched=True)) as db:
        _version(db, path, form)


def used_bytes(db: sqlite3.Connection) -> int:
    """Return the bytes of the pages in use."""
    page, pages, unused = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
    )
    return int(page * (pages - unused))


def marks(values: Collection[object]) -> str:
    """Return placeholders for an `IN (...)`: one question mark per value."""
    return ", ".join("?" * len(values))


def empty_log(db: sqlite3.Connection, *, wait: bool = False) -> None:
    """Checkpoint the write-ahead log into the file and empty it, since it still contains deleted rows.

    Skipped while another process reads; the next call does it. With `wait`, skipped only after the connection's
    timeout.
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

    A damaged file is set aside, and replaced with a new one that has the readable rows. It is checked when it is
    opened, a large one in a background thread, and once a day. Safe in any thread, one caller at a time; several
    processes may write the same file.

    Args:
        path: the file; created private, with its folder, if it does not exist.
        form: its format.
        name: its name in messages, such as `the history`.
        clock: for the name of a damaged file, and for the time of checks.
        repaired: called after a damaged file was replaced, in the thread that found the damage.
        timeout: seconds to wait for another writer.
    """

    def __init__(
        self,
        path: Path,
        form: Format,
        *,
        name: str,
        clock: Clock,
        repaired: Callable[[Repaired], None] = lambda _: None,
        timeout: float = 5.0,
    ) -> None:
        self._path = path
        self._form = form
        self._name = name
        self._clock = clock
        self._repaired = repaired
        self._timeout = timeout
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._check: BackgroundCheck | None = None
        self._checked = self._suspected = float("-inf")
        self._refused: tuple[float, MonitorError] | None = None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection. Raises `MonitorError` if the file cannot be opened or a query fails.

        Raises `SetAside` if it was damaged; the caller may try once more.
        """
        with self._using("read") as db:
            yield db

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a write transaction: all of it is done, or nothing.

        Raises as `reading` does; `InvalidData` if the data is at fault, so that it can never be written.
        """
        with self._using("written") as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def suspect(self) -> bool:
        """Check the whole file, with its indexes, after a reader has met damage; return whether it was replaced.

        Takes seconds for a large file, so at most once a minute. Raises `MonitorError` if it cannot be repaired.
        """
        now = self._clock.monotonic()
        with self._lock:
            if now - self._suspected < _SUSPECT_EVERY:
                return False
            self._suspected = now
            self._close()  # the connection's cache may be intact
            try:
                with self.reading() as db:
                    full_check(db)
                    check_schema(db, self._form.schema)
            except SetAside:
                return True
        return False

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._lock:
            if self._check is not None:
                self._check.stop()
                self._check = None
                self._checked = float("-inf")
            self._close()

    def _close(self) -> None:
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
            except (sqlite3.Error, Damaged) as error:
                self._close()
                if isinstance(error, _NEVER):
                    raise InvalidData(f"{self._name} {self._path} cannot be {how}: {error}") from error
                if not is_damage(error):
                    raise MonitorError(f"{self._name} {self._path} cannot be {how}: {error}") from error
                self._repair(error)
                raise SetAside(f"{self._name} {self._path} was damaged and has been repaired: {error}") from error

    def _connection(self) -> sqlite3.Connection:
        if self._refused is not None and self._clock.monotonic() - self._refused[0] < _REPAIR_EVERY:
            raise self._refused[1]
        if self._db is not None and self._identity != _identity(self._path):
            self._close()  # another process has replaced it
        if self._check is not None and self._check.ended:
            found, self._check = self._check.found, None
            if found is not None:
                self._repair(found)
        if self._db is None:
            try:
                damage.finish(self._path, self._clock.now())
                make_private(self._path)
            except OSError as error:
                raise MonitorError(f"{self._name} {self._path} cannot be opened: {error.strerror}") from error
            try:
                self._db = self._open()
            except (sqlite3.Error, Damaged) as error:
                if not is_damage(error):
                    raise
                self._repair(error)
                self._db = self._open()
            self._identity = _identity(self._path)
        if self._check is None and self._clock.monotonic() - self._checked >= _CHECK_EVERY:
            self._checked = self._clock.monotonic()
            self._check = BackgroundCheck(self._path)
        return self._db

    def _open(self) -> sqlite3.Connection:
        db = open_database(self._path, self._form, timeout=self._timeout)
        try:
            if self._clock.monotonic() - self._checked >= _CHECK_EVERY and size_of(self._path) <= _CHECK_UP_TO:
                quick_check(db)
                self._checked = self._clock.monotonic()
            check_schema(db, self._form.schema)
        except BaseException:
            db.close()
            raise
        return db

    def _repair(self, why: Exception) -> None:
        self._close()
        if self._identity is not None and self._identity != _identity(self._path):
            self._identity = None  # another process has replaced it already
            return
        late = self._clock.monotonic() + damage.SALVAGE_SECONDS
        try:
            found = damage.rebuild(
                self._path,
                partial(open_database, form=self._form),
                now=self._clock.now(),
                why=str(why),
                is_late=lambda: self._clock.monotonic() >= late,
            )
        except (OSError, sqlite3.Error) as error:
            said = error.strerror if isinstance(error, OSError) else error
            refused = MonitorError(f"{self._name} {self._path} is damaged and cannot be replaced: {said}")
            self._refused = self._clock.monotonic(), refused
            raise refused from error
        self._refused = self._identity = None
        self._checked = self._clock.monotonic()
        self._repaired(found)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class ReadOnly:
    """Queries a file that another process may be writing, from any thread. Each query opens its own connection.

    `name` is what the file is called in messages.
    """

    def __init__(self, path: Path, form: Format, *, name: str) -> None:
        self.path = path
        self._form = form
        self._name = name

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows. Raises as `query_at_once` does."""
        return self.query_at_once((sql, values))[0]

    def query_at_once(self, *queries: tuple[str, Sequence[Any]]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each query, all as of one moment: no query sees a write in between.

        Raises `MonitorError` if there is no file, it cannot be read or another version wrote it; `DamagedFile` if its
        content is damaged.
        """
        try:
            with closing(open_read_only(self.path)) as db:
                if 0 < (version := _version(db, self.path, self._form)) < self._form.version:
                    raise MonitorError(
                        f"{self.path} has format {version} of an older version of rag-monitor, and this version reads "
                        f"{self._form.version}: start the monitor once, which brings it up to date"
                    )
                db.execute("BEGIN")
                return [db.execute(sql, values).fetchall() for sql, values in queries]
        except (sqlite3.Error, Damaged, UnicodeDecodeError) as error:
            kind = DamagedFile if is_damage(error) else MonitorError
            raise kind(f"{self._name} {self.path} cannot be read: {error}") from error
