"""Processed deliveries, kept for a time for `rag-monitor backfill --from spool`, in a file of their own.

Other processes may read it while it is written; the spool's file is locked by one process. The monitor never processes
its content again. An error here loses only what would have been kept, and is counted; the spool continues.
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import orjson

from monitor.clock import Clock
from monitor.errors import MonitorError
from monitor.storage import files
from monitor.storage.checks import Damaged
from monitor.storage.damage import remove, reporter
from monitor.storage.erasing import erasing
from monitor.storage.spool.table import COLUMNS, SpoolRecord, decode
from monitor.storage.sqlite import Database, Format, ReadOnly, marks
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics

NAME: Final = files.RETAINED
"""The file, beside the spool's."""

FORMAT: Final = Format(
    1,
    """
CREATE TABLE IF NOT EXISTS records (
  n INTEGER PRIMARY KEY, id INTEGER NOT NULL, head BLOB, meta BLOB, body BLOB, checksum INTEGER NOT NULL,
  received REAL NOT NULL, at REAL NOT NULL, size INTEGER NOT NULL, UNIQUE (id, checksum)
);
CREATE INDEX IF NOT EXISTS records_by_time ON records (at);
CREATE INDEX IF NOT EXISTS records_by_size ON records (size);
""",
)
_OVERHEAD: Final = 256
_AT_ONCE: Final = 64
_TRACE_ID: Final = 32


class Retained:
    """The file for writing, by the one thread that calls it. `keep` in seconds, `at_most` in bytes, compressed."""

    def __init__(
        self, path: Path, *, keep: float, at_most: int, clock: Clock, metrics: Metrics, events: Events
    ) -> None:
        report = reporter("retained", events, metrics)
        self._file = Database(path, FORMAT, name="the retained deliveries", clock=clock, repaired=report, timeout=1)
        self._keep = keep
        self._at_most = at_most
        self._clock = clock
        self._bytes = metrics.spool_retained_bytes
        self._dropped = metrics.spool_retained_dropped
        self._used: int | None = None

    def take(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Keep these rows of the spool unchanged; drop those that are too old or too many. Never raises."""
        try:
            with self._file.transaction() as db:
                if self._used is None:
                    self._used = db.execute("SELECT coalesce(sum(size), 0) FROM records").fetchone()[0]
                now = self._clock.now()
                used = self._used + sum(_add(db, row, now) for row in rows)
                self._used = self._make_room(db, now, used)
        except (MonitorError, ValueError, TypeError):
            self._dropped.inc(len(rows))
            self.close()
        else:
            self._bytes.set(self._used)

    def _make_room(self, db: sqlite3.Connection, now: float, used: int) -> int:
        """Delete old rows, then the oldest until the rest fits; return the remaining bytes."""
        old = db.execute("DELETE FROM records WHERE at < ? RETURNING size", (now - self._keep,)).fetchall()
        used -= sum(size for (size,) in old)
        oldest = "SELECT n FROM records ORDER BY n LIMIT 1"
        while used > self._at_most:
            gone = db.execute(f"DELETE FROM records WHERE n IN ({oldest}) RETURNING size").fetchall()  # noqa: S608 - a constant
            if not gone:
                break
            used -= gone[0][0]
            self._dropped.inc()
        return used

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._used = None


def _add(db: sqlite3.Connection, row: tuple[Any, ...], now: float) -> int:
    """Add a row of the spool; return its size, 0 if it was already there."""
    size = len(row[1]) + len(row[2]) + len(row[3]) + _OVERHEAD
    added = db.execute(
        "INSERT OR IGNORE INTO records (id, head, meta, body, checksum, received, at, size)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, orjson.loads(row[1])[2], now, size),
    ).rowcount
    return size if added else 0


def discard(path: Path) -> None:
    """Delete the file, since nothing is kept any more; ignore errors of the disk."""
    with suppress(OSError):
        remove(path)


def read(path: Path, since: float) -> Iterator[SpoolRecord]:
    """Yield the deliveries received since that wall-clock second, in the order in which they were processed.

    Skips damaged ones. Raises `MonitorError` if the file cannot be read.
    """
    file = ReadOnly(path, FORMAT, name="the retained deliveries")
    sql = f"SELECT n, {COLUMNS} FROM records WHERE n > ? AND received >= ? ORDER BY n LIMIT ?"  # noqa: S608 - a constant
    after = 0
    while found := file.query(sql, (after, since, _AT_ONCE)):
        for row in found:
            with suppress(Damaged):
                yield decode(row[1:])
        after = found[-1][0]


def erase(path: Path, ids: Collection[str], *, dry_run: bool) -> dict[str, int]:
    """Delete whole deliveries that contain any of these ids of traces or users, regardless of what else is in them.

    Returns the number of rows by table; deletes nothing with `dry_run`. Raises `MonitorError`.
    """
    wanted = [form for word in ids if word for form in forms_of(word)]
    with erasing(path, dry_run=dry_run) as eraser:
        gone = []
        for number, *row in eraser.db.execute(f"SELECT n, {COLUMNS} FROM records"):  # noqa: S608 - a constant
            with suppress(Damaged):
                payload = decode(tuple(row)).payload
                if any(form in payload for form in wanted):
                    gone.append(number)
        eraser.delete("records", "n", gone)
    return eraser.rows


def forms_of(word: str) -> Iterator[bytes]:
    """Yield the forms of an id in a delivery: text, a JSON string, and for a trace id its bytes."""
    yield word.encode("utf-8", "surrogatepass")
    yield json.dumps(word)[1:-1].encode("ascii")
    with suppress(ValueError):
        if len(word) == _TRACE_ID:
            yield from (bytes.fromhex(word), word.upper().encode("ascii"), base64.b64encode(bytes.fromhex(word)))


def rows_of(db: sqlite3.Connection, numbers: Iterable[int]) -> list[tuple[Any, ...]]:
    """Return the rows of the spool with these numbers."""
    wanted = list(numbers)
    return db.execute(f"SELECT {COLUMNS} FROM records WHERE id IN ({marks(wanted)})", wanted).fetchall()  # noqa: S608 - constants
