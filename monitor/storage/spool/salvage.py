"""The spool's part in the repair of a damaged file: checksums of its records, and its write-ahead log."""

from __future__ import annotations

import contextlib
import shutil
import struct
from functools import partial
from pathlib import Path
from typing import Any

from monitor.storage import damage
from monitor.storage.checks import Damaged
from monitor.storage.damage import Repaired, timestamp
from monitor.storage.files import make_private
from monitor.storage.spool.table import connect, decode


def rebuild(path: Path, *, most_pages: int, now: float, why: str) -> Repaired:
    """Replace the damaged database at `path` with a new one that has all readable and intact records.

    There is no time limit, because these records were acknowledged. Raises as `damage.rebuild` does.
    """
    return damage.rebuild(path, partial(connect, most_pages=most_pages), now=now, why=why, is_whole=_is_whole)


def _is_whole(table: str, row: tuple[Any, ...]) -> bool:
    if table == "records":
        with contextlib.suppress(Damaged):
            decode(row)
            return True
        return False
    return True


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
            break  # frames of an earlier round follow, which are already in the database
        lost += log[start + 4 : start + 8] != b"\0\0\0\0"
    return lost


def copy_log(path: Path, now: float) -> Path | None:
    """Copy the write-ahead log, which the next write overwrites; None if there is no room for a copy."""
    aside = path.with_name(f"{path.name}-wal.damaged-{timestamp(now)}")
    try:
        make_private(aside)
        shutil.copyfile(path.with_name(path.name + "-wal"), aside)
    except OSError:
        return None
    return aside
