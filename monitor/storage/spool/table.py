"""The spool's file: its tables, how a record becomes a row with a checksum, and how full the file and its disk are.

Measured on records of 64 RAG spans (153 kB, 16 kB after gzip level 1): writing them plain costs 6 to 9 us of CPU per
span, compressed 3 us, nearly all of it for the compression. Pages of 16 KiB suit rows of that size.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from isal import isal_zlib

from monitor.errors import ConfigError
from monitor.model.span import Signal
from monitor.storage.checks import Damaged, code_of
from monitor.storage.files import size_of
from monitor.storage.sqlite import Format, open_database

PAGE = 16 * 1024
_LOG_PAGES = 1024
"""Pages (16 MiB) after which the log is checkpointed: a page that changes often is copied once."""

FORMAT = Format(
    2,
    """
CREATE TABLE IF NOT EXISTS draws (n INTEGER PRIMARY KEY, id BLOB, probability REAL, target REAL, at REAL);
CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, head BLOB, meta BLOB, body BLOB, checksum INTEGER);
CREATE TABLE IF NOT EXISTS remembered (n INTEGER PRIMARY KEY, id BLOB, at REAL);
""",
)
_DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,  # a table or column is missing: the schema itself is damaged
    sqlite3.SQLITE_CONSTRAINT,  # a number above the highest known one is in use
)

_LOOK_EVERY = 0.25
"""Seconds between two looks at the free space of the disk."""

COLUMNS = "id, head, meta, body, checksum"
INSERT = f"INSERT INTO records ({COLUMNS}) VALUES (?, ?, ?, ?, ?)"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class SpoolRecord:
    """One delivery as it is stored.

    `payload` is the part of the data that head sampling kept (an OTLP request, or rows or external scores as lines of
    JSON), `meta` everything else that its writer needs to process it after a restart; the spool reads neither.
    `received_at` is in wall-clock seconds since 1970.
    """

    source: str
    signal: Signal | Literal["cases", "feedback"]
    received_at: float
    payload: bytes
    meta: bytes = b""


def encode(number: int, record: SpoolRecord) -> tuple[int, bytes, bytes, bytes, int]:
    """Make the row of `record`, compressed, with a checksum."""
    head = orjson.dumps([record.source, record.signal, record.received_at])
    body = isal_zlib.compress(record.payload, 1)
    return number, head, record.meta, body, _checksum(number, head, record.meta, body)


def decode(row: tuple[Any, ...]) -> SpoolRecord:
    """Read the record of a row. Raises `Damaged` if any byte of it has changed since it was written."""
    number, head, meta, body, checksum = row
    whole = isinstance(head, bytes) and isinstance(meta, bytes) and isinstance(body, bytes)
    if not whole or checksum != _checksum(number, head, meta, body):
        raise Damaged(f"record {number} does not have the checksum that it was written with")
    source, signal, received_at = orjson.loads(head)
    return SpoolRecord(source, signal, received_at, isal_zlib.decompress(body), meta)


def _checksum(number: int, head: bytes, meta: bytes, body: bytes) -> int:
    start: int = isal_zlib.crc32(b"%d %d " % (number, len(head)) + head + meta)
    whole: int = isal_zlib.crc32(body, start)
    return whole


def connect(path: Path, *, most_pages: int, erase: bool = False) -> sqlite3.Connection:
    """Open the database for this process alone; a write is on disk when it returns.

    `most_pages` is a hard limit on the file, beyond which writes fail. With `erase`, deleted bytes are overwritten.
    Raises `sqlite3.Error`, `OSError`; `ConfigError` if another process has the file open, or a newer version of this
    program wrote it.
    """
    log = log_pages(os.statvfs(path.parent))
    pragmas: dict[str, str | int] = {
        "page_size": PAGE,
        "locking_mode": "EXCLUSIVE",  # no shared-memory file, and a second process fails to open it
        "cell_size_check": "ON",
        "secure_delete": "ON" if erase else "FAST",  # fully on, a deletion rewrites all its pages
        "journal_mode": "WAL",
        "synchronous": "FULL",
        "wal_autocheckpoint": log,
        "journal_size_limit": log * PAGE,
        "max_page_count": most_pages,
    }
    try:
        db = open_database(path, FORMAT, timeout=0, pragmas=pragmas)
    except sqlite3.Error as error:
        if code_of(error) == sqlite3.SQLITE_BUSY:
            raise ConfigError(
                f"storage.path: {path} is in use by another process; give each process its own folder"
            ) from None
        raise
    db.text_factory = bytes  # a damaged row may have text that is not valid UTF-8
    return db


def log_pages(disk: os.statvfs_result) -> int:
    """Return the pages after which the write-ahead log is checkpointed: fewer on a very small disk."""
    return max(16, min(_LOG_PAGES, disk.f_blocks * disk.f_frsize // 16 // PAGE))


def is_damage(error: Exception) -> bool:
    """Return whether the file's content is at fault, rather than the disk or its free space."""
    if isinstance(error, sqlite3.Error):
        return code_of(error) in _DAMAGE
    return isinstance(error, Damaged)


@dataclass(frozen=True, slots=True)
class Room:
    """How full the spool is: bytes used in the file, and whether the disk itself has room for more."""

    used: int
    disk_has_room: bool


class Fullness:
    """Measures how full the database at `path` is, and at intervals its disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._disk_has_room = False
        self._looked_at = 0.0, 0
        self._log_pages = 0

    def of(self, db: sqlite3.Connection, now: float) -> Room:
        """Measure how full the file is now, and how full the disk was less than a second ago.

        A disk counts as full while some space is left, because checkpoints and deletions need it.
        Raises `sqlite3.Error`, `OSError`.
        """
        pages: int = db.execute("PRAGMA page_count").fetchone()[0]
        unused: int = db.execute("PRAGMA freelist_count").fetchone()[0]
        grown = pages - self._looked_at[1] > self._log_pages // 4
        if grown or not self._disk_has_room or abs(now - self._looked_at[0]) >= _LOOK_EVERY:
            self._looked_at = now, pages
            self._disk_has_room = self._look(unused * PAGE)
        return Room((pages - unused) * PAGE, self._disk_has_room)

    def _look(self, unused: int) -> bool:
        disk = os.statvfs(self._path.parent)
        free = disk.f_bavail * disk.f_frsize
        self._log_pages = log_pages(disk)
        most_log = self._log_pages * PAGE
        log_fits = free + size_of(self._path.with_name(self._path.name + "-wal")) > most_log * 5 // 4
        return log_fits and free + unused > 3 * most_log
