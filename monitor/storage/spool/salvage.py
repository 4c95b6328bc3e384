"""Repairing a damaged spool: records with a valid checksum are copied to a new file; the old file is kept.

A damaged file is never written to again: deleting a row whose chain of pages is broken would free pages of other rows.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import struct
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monitor.storage.files import make_private, sync_folder
from monitor.storage.spool import memory
from monitor.storage.spool.table import COLUMNS, INSERT, connect, decode
from monitor.storage.sqlite import Damaged, remove, set_aside, timestamp

_FIRST, _LAST = 0, 2**62
"""Below and above every number that a record can have."""

_PROBES = 50_000
"""Numbers that are tried one by one between two unreadable places; in a longer gap, evenly spaced ones."""

_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The outcome: records copied, records lost (at least), and the path of the damaged file."""

    kept: int
    lost: int
    aside: Path


def rebuild(path: Path, *, most_pages: int, now: float) -> Salvaged:
    """Replace the damaged database at `path` by a new one with all records that can still be read.

    Needs as much free space as these records take. Survives a crash at any moment: see `finish`. Raises
    `sqlite3.Error` or `OSError` where the new file cannot be written; the old one is then unchanged.
    """
    building = path.with_name(path.name + ".building")
    remove(building)
    make_private(building)
    kept: set[int] = set()
    lost = 0
    new = connect(building, most_pages=most_pages)
    with contextlib.closing(new), contextlib.closing(_open_damaged(path)) as old:
        batch: list[tuple[Any, ...]] = []
        for row in _rows(old):
            if isinstance(row, int):
                lost += row
                continue
            if row[0] in kept:  # reached from both sides
                continue
            kept.add(row[0])
            batch.append(row)
            if len(batch) >= _AT_ONCE:
                _insert(new, batch)
                batch = []
        _insert(new, batch)
        with contextlib.suppress(sqlite3.Error):  # without it some work is done twice
            memory.copy_result_ids(old, new)
        with contextlib.suppress(sqlite3.Error):
            memory.copy_draws(old, new)
    building.replace(path.with_name(path.name + ".rebuilt"))
    sync_folder(path.parent)
    aside = finish(path, now)
    return Salvaged(len(kept), lost, aside if aside is not None else path)


def finish(path: Path, now: float) -> Path | None:
    """Move a completed rebuild into place, also after a crash in between; the new path of the old file, if any."""
    rebuilt = path.with_name(path.name + ".rebuilt")
    if not rebuilt.exists():
        return None
    aside = set_aside(path, now)
    rebuilt.replace(path)
    sync_folder(path.parent)
    return aside


def lost_in_log(path: Path, read: int) -> int:
    """Count the committed transactions of the write-ahead log that SQLite skipped after `read` valid frames.

    SQLite stops silently at the first frame with a wrong checksum, as it must for a write torn by a power cut. One of
    the skipped transactions may be such a write, which was never acknowledged; it is counted all the same.
    Layout: https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
    """
    try:
        log = path.with_name(path.name + "-wal").read_bytes()
    except OSError:
        return 0
    header, frame_header = 32, 24
    if len(log) < header + frame_header:
        return 0
    frame = frame_header + struct.unpack_from(">I", log, 8)[0]
    if not 512 <= frame - frame_header <= 65536:  # noqa: PLR2004 - the page sizes that SQLite allows
        return 0
    salts = log[16:24] if read else log[header + 8 : header + 16]
    lost = 0
    for start in range(header + read * frame, len(log) - frame + 1, frame):
        if log[start + 8 : start + 16] != salts:
            break  # frames of an earlier round follow, long since in the database
        lost += log[start + 4 : start + 8] != b"\0\0\0\0"
    return lost


def copy_log(path: Path, now: float) -> Path | None:
    """Copy the write-ahead log, which the next write overwrites; None where there is no room for a copy."""
    aside = path.with_name(f"{path.name}-wal.damaged-{timestamp(now)}")
    try:
        make_private(aside)
        shutil.copyfile(path.with_name(path.name + "-wal"), aside)
    except OSError:
        return None
    return aside


def _open_damaged(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=0)
    db.text_factory = bytes
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA writable_schema = ON")  # makes SQLite read a file that is shorter than its header says
        db.execute("PRAGMA cell_size_check = ON")
    return db


def _rows(db: sqlite3.Connection) -> Generator[tuple[Any, ...] | int, None, None]:
    """Yield all valid rows, in any order, and in between the number of rows that were lost.

    Reads upwards to the first error, downwards to the last, then number by number between the two. An unreadable
    number there may have been deleted before: each counts as lost, or all of them as one where the gap has no readable
    end.
    """
    low = yield from _walk(db, "id > ? ORDER BY id ASC", _FIRST)
    if low is None:
        return
    high = yield from _walk(db, "id < ? ORDER BY id DESC", _LAST)
    if high is None:
        return
    unread = 0
    between = range(low + 1, high) if high < _LAST else range(low + 1, low + _PROBES)
    for number in between[:: max(1, len(between) // _PROBES)]:
        try:
            found = db.execute(f"SELECT {COLUMNS} FROM records WHERE id = ?", (number,)).fetchone()  # noqa: S608 - a constant
        except sqlite3.Error:
            unread += 1
        else:
            if found is not None:
                yield _checked(found)
    yield unread if unread and low > _FIRST and high < _LAST else 1


def _walk(db: sqlite3.Connection, where: str, start: int) -> Generator[tuple[Any, ...] | int, None, int | None]:
    """Yield rows one by one; returns the number of the last row before an error, None without an error."""
    reached = start
    try:
        for row in db.execute(f"SELECT {COLUMNS} FROM records WHERE {where}", (start,)):  # noqa: S608 - a constant
            checked = _checked(row)
            yield checked
            if not isinstance(checked, int):
                reached = checked[0]
    except sqlite3.Error:
        return reached
    return None


def _checked(row: tuple[Any, ...]) -> tuple[Any, ...] | int:
    try:
        decode(row)
    except Damaged:
        return 1
    return row


def _insert(db: sqlite3.Connection, rows: list[tuple[Any, ...]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    db.executemany(INSERT, rows)
    db.execute("COMMIT")
