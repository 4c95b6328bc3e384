"""How full the spool is: its file, and the disk that it is on."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from monitor.clock import Clock
from monitor.spool.files import size_of
from monitor.spool.format import PAGE, log_pages

_LOOK_EVERY = 0.25
"""Seconds between two looks at the free space of the disk."""


@dataclass(frozen=True, slots=True)
class Room:
    """How full it is: bytes in use in the file, and whether the disk itself has room for more."""

    used: int
    disk_has_room: bool


class Fullness:
    """Looks how full the database at `path` is, and now and then at its disk."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._disk_has_room = False
        self._looked_at = 0.0, 0
        self._log_pages = 0

    def of(self, db: sqlite3.Connection) -> Room:
        """How full the file is now, and how full the disk was less than a second ago.

        Appends leave some space alone: without it the log could not be folded in, and not even a deletion be written.
        Raises `sqlite3.Error`, `OSError`.
        """
        pages: int = db.execute("PRAGMA page_count").fetchone()[0]
        unused: int = db.execute("PRAGMA freelist_count").fetchone()[0]
        now = self._clock.monotonic()
        grown = pages - self._looked_at[1] > self._log_pages // 4
        if grown or not self._disk_has_room or now - self._looked_at[0] >= _LOOK_EVERY:
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
