"""Files in the storage folder: their names, and how to make them readable by their owner only."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from monitor.privacy.private_file import open_private

SPOOL: Final = "spool.db"
"""Deliveries that are not processed yet."""
RETAINED: Final = "retained.db"
"""Processed deliveries, kept for `rag-monitor backfill --from spool`."""
HISTORY: Final = "history.db"
"""Results, and their sums by the minute."""
REQUEST_LOG: Final = "request_log.db"
"""What happened to each request."""
SEVERE_CASES: Final = "severe_cases.db"
"""Answers that were judged severe twice."""
INCIDENTS: Final = "incidents.db"
"""Incidents, with their worst answers and people's notes."""
LABELS: Final = "labels.db"
"""Human labels of results."""
STATE: Final = "state.db"
"""Spent budgets, and what pacers know about the traffic."""
BACKFILL: Final = "backfill.db"
"""Evaluations that were missed or requested later."""

DATABASES: Final = frozenset({SPOOL, RETAINED, HISTORY, REQUEST_LOG, SEVERE_CASES, INCIDENTS, LABELS, STATE, BACKFILL})
"""All databases: nothing else may write to these files."""


def make_private(path: Path) -> None:
    """Create `path` with mode 0600, or restrict an existing file to it. Creates missing folders with mode 0700.

    SQLite gives its companion files (`-wal`, `-journal`) the mode of the database. Raises `OSError`, also if `path` is
    a symbolic link: whoever planted the link would choose the file.
    """
    for folder in reversed([path.parent, *path.parent.parents]):
        if not folder.exists():
            folder.mkdir(mode=0o700)
    descriptor = open_private(path, os.O_RDWR)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def why_not_opened(path: Path, error: OSError) -> str:
    """Return why a file cannot be opened, with the owner of its folder if that is a different user."""
    said = error.strerror or str(error)
    with suppress(OSError):
        owner, user = path.parent.stat().st_uid, os.geteuid()
        if isinstance(error, PermissionError) and owner != user:
            return f"{said}: {path.parent} belongs to user {owner}, and the monitor runs as user {user}"
    return said


def write_whole(path: Path, content: bytes) -> None:
    """Replace a private file atomically: after a crash it has the old content or the new one. Raises `OSError`."""
    building = path.with_name(f"{path.name}.new")
    make_private(building)
    with building.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    building.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames within `folder` durable. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def stamp_of(path: str) -> tuple[int, ...]:
    """Return the identity of a file, its size and its write time in nanoseconds; empty if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a third of the cost of a `Path`, and asked every second
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is no file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
