"""The history as a feed: its results in the order in which they were written, and the position of each sink in it.

Results are numbered consecutively in the order in which they are written. A missing number belonged to a result that
has passed its retention. Each call opens the file anew, since it may be replaced while the monitor runs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from monitor.errors import MonitorError
from monitor.model.outcome import EvaluationResult
from monitor.storage.checks import Damaged
from monitor.storage.history.rows import from_json, load
from monitor.storage.history.tables import FORMAT
from monitor.storage.sqlite import marks, open_database

_TIMEOUT: Final = 30.0  # seconds to wait for another writer
_NEWEST: Final = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'feed'), 0)"
_NEXT: Final = (
    "SELECT feed.n, feed.id, results.body FROM feed LEFT JOIN results ON results.id = feed.id"
    " WHERE feed.n > ? ORDER BY feed.n LIMIT ?"
)

Lost = Literal["expired", "forgotten", "unreadable"]
"""Why a number has no result: it has passed its retention, a person asked to erase it, or its row cannot be read."""


class FeedEntry(NamedTuple):
    """One number of the feed: its result, or why there is none."""

    number: int
    result: EvaluationResult | None
    lost: Lost | None = None


class FeedWindow(NamedTuple):
    """The results after `position`, up to and including `until`; `end` is the number of the newest result of all."""

    position: int
    entries: list[FeedEntry]
    until: int
    end: int


class Standing(NamedTuple):
    """A sink's position: the number reached, the newest number, and when its oldest unsent result was evaluated."""

    position: int
    end: int
    oldest: float | None


class Feed:
    """Reads the history `path` for the sinks that follow it. All methods block and raise `MonitorError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, names: Collection[str]) -> list[str]:
        """Record that only these sinks follow the history; return the new ones, which begin with the next result."""
        with self._open() as db:
            known = {name for (name,) in db.execute("SELECT name FROM followers")}
            db.execute(f"DELETE FROM followers WHERE name NOT IN ({marks(names)})", list(names))  # noqa: S608 - constant
            new = [name for name in names if name not in known]
            db.executemany(f"INSERT INTO followers (name, position) VALUES (?, ({_NEWEST}))", [(name,) for name in new])  # noqa: S608 - constant
        return new

    def read(self, name: str, *, at_most: int, at_most_bytes: int) -> FeedWindow:
        """Return the next results for a sink: up to `at_most`, and no further ones once their rows exceed the bytes."""
        with self._open() as db:
            end = int(db.execute(_NEWEST).fetchone()[0])
            found = db.execute("SELECT position FROM followers WHERE name = ?", (name,)).fetchone()
            if found is None or found[0] > end:  # the history was started over after damage: everything in it is new
                found = db.execute("SELECT coalesce(min(n) - 1, ?) FROM feed", (end,)).fetchone()
                db.execute("INSERT OR REPLACE INTO followers (name, position) VALUES (?, ?)", (name, found[0]))
            position = int(found[0])
            entries: list[FeedEntry] = []
            taken = 0
            for number, key, body in db.execute(_NEXT, (position, at_most)):
                entries.append(_entry(number, key, body))
                taken += len(body or b"")
                if taken >= at_most_bytes:
                    break
            cut = bool(entries) and (len(entries) == at_most or taken >= at_most_bytes)
        return FeedWindow(position, entries, entries[-1].number if cut else end, end)

    def advance(self, name: str, until: int) -> None:
        """Record that a sink has everything up to and including the number `until`."""
        with self._open() as db:
            db.execute("INSERT OR REPLACE INTO followers (name, position) VALUES (?, ?)", (name, until))

    def standings(self) -> dict[str, Standing]:
        """Return the position of every sink, by name."""
        with self._open() as db:
            end = int(db.execute(_NEWEST).fetchone()[0])
            found = db.execute(
                "SELECT name, position, (SELECT at FROM feed WHERE n > position ORDER BY n LIMIT 1) FROM followers"
            ).fetchall()
        return {name: Standing(min(position, end), end, oldest) for name, position, oldest in found}

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection within one transaction."""
        if not self._path.exists():  # the writer makes it, and makes it private
            raise MonitorError(f"the history {self._path} does not exist")
        try:
            with closing(open_database(self._path, FORMAT, timeout=_TIMEOUT)) as db:
                db.execute("BEGIN")
                yield db
                db.execute("COMMIT")
        except (sqlite3.Error, Damaged) as error:
            raise MonitorError(f"the history {self._path} cannot be followed: {error}") from error


def _entry(number: int, key: str, body: bytes | None) -> FeedEntry:
    if not key:
        return FeedEntry(number, None, "forgotten")
    if body is None:
        return FeedEntry(number, None, "expired")
    try:
        return FeedEntry(number, from_json(load(body)))
    except ValueError:
        return FeedEntry(number, None, "unreadable")
