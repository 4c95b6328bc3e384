"""The spool's file: a SQLite database, its tables, and how a record becomes a row that can prove itself undamaged.

Measured on records of 64 RAG spans (153 kB, of which gzip level 1 leaves 16 kB): writing them plain costs 6 to 9 us of
processor a span, compressed 3 us, nearly all of it the compression. Pages of 16 KiB suit rows of that size.
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
from monitor.spool.draws import SCHEMA

VERSION = 2
PAGE = 16 * 1024
_LOG_PAGES = 1024
"""After how many pages (16 MiB) the log is folded into the database: a page that changes often is copied once."""

_SCHEMA = f"""{SCHEMA}
CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, head BLOB, meta BLOB, body BLOB, checksum INTEGER);
CREATE TABLE IF NOT EXISTS remembered (n INTEGER PRIMARY KEY, id BLOB, at REAL);
"""
_DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,  # a table or column is gone: the schema itself was hit
    sqlite3.SQLITE_CONSTRAINT,  # a number is taken that was beyond the highest
)

INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?)"
COLUMNS = "id, head, meta, body, checksum"


@dataclass(frozen=True, slots=True)
class Record:
    """One delivery as it is kept.

    `payload` is the data with what head sampling kept (an OTLP request, or rows or verdicts as lines of JSON), `meta`
    whatever else its writer needs to take it up again after a restart; the spool reads neither. `received_at` in
    wall-clock seconds since 1970.
    """

    source: str
    signal: Signal | Literal["cases", "verdicts"]
    received_at: float
    payload: bytes
    meta: bytes = b""


class Damaged(Exception):  # noqa: N818 - named after the trouble, as the caller's `except` reads
    """What is in the file is not what was written to it."""


def encode(number: int, record: Record) -> tuple[int, bytes, bytes, bytes, int]:
    """The row of `record`, compressed and with its checksum."""
    head = orjson.dumps([record.source, record.signal, record.received_at])
    body = isal_zlib.compress(record.payload, 1)
    return number, head, record.meta, body, _checksum(number, head, record.meta, body)


def decode(row: tuple[Any, ...]) -> Record:
    """The record of a row. Raises `Damaged` where anything about it has changed since it was written."""
    number, head, meta, body, checksum = row
    whole = isinstance(head, bytes) and isinstance(meta, bytes) and isinstance(body, bytes)
    if not whole or checksum != _checksum(number, head, meta, body):
        raise Damaged(f"record {number} does not have the checksum that it was written with")
    source, signal, received_at = orjson.loads(head)
    return Record(source, signal, received_at, isal_zlib.decompress(body), meta)


def _checksum(number: int, head: bytes, meta: bytes, body: bytes) -> int:
    start: int = isal_zlib.crc32(b"%d %d " % (number, len(head)) + head + meta)
    whole: int = isal_zlib.crc32(body, start)
    return whole


def connect(path: Path, *, most_pages: int, erase: bool = False) -> sqlite3.Connection:
    """Open the database for this process alone, for writes that are on disk when they return.

    `most_pages` is a hard limit on the file, beyond which writes fail. With `erase` a deletion overwrites all that was
    there. Raises `sqlite3.Error`, `OSError`; `ConfigError` where another process has it open, or a newer version of
    this program wrote it.
    """
    db = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        db.text_factory = bytes  # a damaged row may claim to hold text that is none
        db.execute(f"PRAGMA page_size = {PAGE}")
        db.execute("PRAGMA locking_mode = EXCLUSIVE")  # no shared-memory file, and a second process is told
        db.execute("PRAGMA cell_size_check = ON")
        # Fully on, as some builds are, a deletion writes all its pages again.
        db.execute(f"PRAGMA secure_delete = {'ON' if erase else 'FAST'}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        log = log_pages(os.statvfs(path.parent))
        db.execute(f"PRAGMA wal_autocheckpoint = {log}")
        db.execute(f"PRAGMA journal_size_limit = {log * PAGE}")
        db.execute(f"PRAGMA max_page_count = {most_pages}")
        version = _version(db, path)
        if version < VERSION:
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
    except sqlite3.Error as error:
        db.close()
        if code_of(error) == sqlite3.SQLITE_BUSY:
            raise ConfigError(f"{path} is in use by another process; each needs a storage path of its own") from None
        raise
    except ConfigError:
        db.close()
        raise
    return db


def check(db: sqlite3.Connection) -> None:
    """Read the whole structure of the file, not its content. Raises `Damaged`, `sqlite3.Error`.

    Without it a damaged inner page can hide records from a search without an error.
    """
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != b"ok":
        raise Damaged(found.decode("ascii", "replace"))


def log_pages(disk: os.statvfs_result) -> int:
    """How many pages the write-ahead log may have before it is folded in: fewer on a very small disk."""
    return max(16, min(_LOG_PAGES, disk.f_blocks * disk.f_frsize // 16 // PAGE))


def _version(db: sqlite3.Connection, path: Path) -> int:
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    if not 0 <= version <= VERSION:
        raise ConfigError(f"{path} was written by a newer version of this program (format {version}, not {VERSION})")
    return version


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code, which its extended codes refine."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)) & 0xFF


def is_damage(error: Exception) -> bool:
    """Whether the file's content is at fault, rather than the disk or its fill."""
    if isinstance(error, sqlite3.Error):
        return code_of(error) in _DAMAGE
    return isinstance(error, Damaged)
