"""Marks of erased traces and users, for data that is still on its way: in the spool, in a queue, in a broker.

They are in a file in the storage folder. `rag-monitor forget` adds to it; a running monitor reloads it when it changes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from monitor.clock import Clock

NAME: Final = "forgotten.jsonl"
_LOOK_EVERY: Final = 1.0


class Mark(NamedTuple):
    """An erased trace, or the requests of a user (by pseudonym) up to `at`, in wall-clock seconds."""

    at: float
    trace: str = ""
    user: str = ""


class ErasureMarks:
    """The marks of one folder. A file that cannot be read counts as empty."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / NAME
        self._clock = clock
        self._looked_at = float("-inf")
        self._as_of: tuple[int, int, int] | None = None
        self._traces: frozenset[str] = frozenset()
        self._users: dict[str, float] = {}

    def holds(self, trace: str, user: str, at: float) -> bool:
        """Return whether a request is erased: by its `trace`, or by its `user` and its time `at` (wall-clock seconds).

        Checks the file at most once per second.
        """
        self._look()
        whole = trace.rpartition("/")[0]  # the trace or row, if the request is one of several in it
        return (
            trace in self._traces
            or whole in self._traces
            or (bool(user) and self._users.get(user, float("-inf")) >= at)
        )

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at < _LOOK_EVERY:
            return
        self._looked_at = now
        try:
            found = self._path.stat()
            as_of = (found.st_mtime_ns, found.st_size, found.st_ino)
            if as_of == self._as_of:
                return
            marks = read(self._path.parent)
        except OSError:
            self._as_of, marks = None, []
        else:
            self._as_of = as_of
        self._traces = frozenset(mark.trace for mark in marks if mark.trace)
        self._users = {}
        for mark in marks:
            if mark.user:
                self._users[mark.user] = max(mark.at, self._users.get(mark.user, mark.at))


def read(folder: Path) -> list[Mark]:
    """Read the marks in `folder`, oldest first, and skip invalid lines. Raises `OSError`."""
    found = []
    try:
        lines = (folder / NAME).read_text("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    for line in lines:
        try:
            entry = json.loads(line)
            found.append(Mark(float(entry["at"]), str(entry.get("trace", "")), str(entry.get("user", ""))))
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
    return found


def add(folder: Path, marks: Iterable[Mark], *, since: float) -> None:
    """Add `marks`, and drop those from before `since`: their data has expired anyway. Raises `OSError`."""
    kept = [mark for mark in read(folder) if mark.at >= since]
    lines = [json.dumps({key: value for key, value in mark._asdict().items() if value}) for mark in (*kept, *marks)]
    fresh = folder / f"{NAME}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / NAME)
