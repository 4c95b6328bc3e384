"""The backfill queue on disk: missed items, requested items and, for a time, how they ended.

Several processes use it at once, the monitor and any `rag-monitor backfill`: each change is one short transaction. A
requested item gets a new, higher number, so that a reader finds all new items above the highest number it has seen.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from monitor.clock import Clock
from monitor.errors import InvalidData
from monitor.jobs.backfill import cases
from monitor.jobs.backfill.cases import Item
from monitor.storage import files
from monitor.storage.damage import Repaired
from monitor.storage.erasing import erasing
from monitor.storage.sqlite import Database, Format, ReadOnly, marks

T = TypeVar("T")

NAME: Final = files.BACKFILL
"""The file, in the storage folder."""

FORMAT: Final = Format(
    1,
    """
CREATE TABLE IF NOT EXISTS items (
  n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL, app TEXT NOT NULL,
  evaluator TEXT NOT NULL, source TEXT NOT NULL, state TEXT NOT NULL, outcome TEXT NOT NULL, batch TEXT NOT NULL,
  answered REAL NOT NULL, at REAL NOT NULL, tries INTEGER NOT NULL, size INTEGER NOT NULL, body BLOB
);
CREATE INDEX IF NOT EXISTS items_by_state ON items (state, n);
CREATE INDEX IF NOT EXISTS items_by_size ON items (size);
CREATE INDEX IF NOT EXISTS items_by_batch ON items (batch, state) WHERE batch <> '';
""",
)

DONE: Final = ("defect", "passed", "skipped", "unscored", "expired", "known", "forgotten")
"""How a requested item may end."""

_FINAL: Final = ("defect", "passed", "skipped", "known")
_AT_ONCE: Final = 200
_INSERT: Final = (
    "INSERT INTO items (id, request_id, app, evaluator, source, state, outcome, batch, answered, at, tries, size, body)"
    " VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, 0, ?, ?)"
)
_OVERHEAD: Final = 256  # bytes of a row in addition to its body


class BackfillGroup(NamedTuple):
    """The labels that items are counted by."""

    app: str
    evaluator: str
    source: str


class Waiting(NamedTuple):
    """A requested item in the queue. `item` is None if its bytes cannot be read."""

    id: str
    request_id: str
    group: BackfillGroup
    tries: int
    item: Item | None


class Missed(NamedTuple):
    """Evaluations missed by an evaluator: their number, and the times of the first and last answer among them."""

    evaluator: str
    number: int
    since: float
    until: float


class EnqueueResult(NamedTuple):
    """The outcome of a request: items added, already in the queue, already evaluated, and without room."""

    new: int = 0
    there: int = 0
    known: int = 0
    full: int = 0


class BackfillQueue:
    """The queue in the file `path`, opened at its first use, for any thread.

    All methods block for some milliseconds and raise `MonitorError` if the file cannot be read or written.
    `repaired` is called after a damaged file was replaced by what could be saved.
    """

    def __init__(
        self, path: Path, *, at_most: int, clock: Clock, repaired: Callable[[Repaired], None] = lambda _: None
    ) -> None:
        self._file = Database(path, FORMAT, name="the backfill queue", clock=clock, repaired=repaired)
        self._paths = str(path), f"{path}-wal"
        self._at_most = at_most

    # -- putting in

    def miss(self, items: Sequence[Item], now: float) -> tuple[list[BackfillGroup], list[BackfillGroup]]:
        """Add items missed at `now`, once each. Returns the groups of those without room and of those dropped.

        Older missed items are dropped to make room; requested items are not.
        """
        dropped, displaced = [], []
        with self._file.transaction() as db:
            used = _used(db)
            for item in items:
                body = cases.dump(item)
                size = len(body) + _OVERHEAD
                if db.execute("SELECT 1 FROM items WHERE id = ?", (item.id,)).fetchone():
                    continue
                while used + size > self._at_most and (oldest := _oldest_missed(db)) is not None:
                    used -= oldest[1]
                    displaced.append(oldest[0])
                if used + size > self._at_most:
                    dropped.append(_group(item))
                    continue
                db.execute(_INSERT, _row(item, body, state="missed", now=now))
                used += size
        return dropped, displaced

    def ask(self, items: Iterable[Item], *, batch: str, now: float) -> EnqueueResult:
        """Request evaluations, under the name `batch`. Items that already wait, or have a result, do not change.

        A missed item that is requested no longer counts as missed.
        """
        new = there = known = full = 0
        for part in batched(items, _AT_ONCE):
            with self._file.transaction() as db:
                used = _used(db)
                for item in part:
                    found = db.execute("SELECT state, outcome, size FROM items WHERE id = ?", (item.id,)).fetchone()
                    state, outcome, before = found or ("", "", 0)
                    if state == "asked":
                        there += 1
                        continue
                    if outcome in _FINAL:
                        known += 1
                        continue
                    body = cases.dump(item)
                    size = len(body) + _OVERHEAD
                    if used - before + size > self._at_most:
                        full += 1
                        continue
                    db.execute("DELETE FROM items WHERE id = ?", (item.id,))
                    db.execute(_INSERT, _row(item, body, state="asked", batch=batch, now=now))
                    used += size - before
                    new += 1
        return EnqueueResult(new, there, known, full)

    def missed_items(self, evaluators: Collection[str] = (), app: str = "") -> Iterator[Item]:
        """Yield the missed items, oldest first: of these evaluators (empty: all), of one app (empty: all)."""

        def ask(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
            with self._file.reading() as db:
                return db.execute(sql, values).fetchall()

        return _missed(ask, evaluators, app)

    # -- working off

    def asked_after(self, number: int) -> tuple[int, dict[BackfillGroup, int]]:
        """Return the highest number of a requested item, and how many items are above `number`, by group."""
        with self._file.reading() as db:
            found = db.execute(
                "SELECT app, evaluator, source, count(*), max(n) FROM items WHERE state = 'asked' AND n > ?"
                " GROUP BY 1, 2, 3",
                (number,),
            ).fetchall()
        return max((row[4] for row in found), default=number), {BackfillGroup(*row[:3]): row[3] for row in found}

    def asked_up_to(self, number: int) -> dict[BackfillGroup, int]:
        """Count the requested items that wait with numbers up to `number`, by group."""
        with self._file.reading() as db:
            found = db.execute(
                "SELECT app, evaluator, source, count(*) FROM items WHERE state = 'asked' AND n <= ? GROUP BY 1, 2, 3",
                (number,),
            ).fetchall()
        return {BackfillGroup(*row[:3]): row[3] for row in found}

    def next(
        self, limit: int, *, up_to: int, among: Collection[str], without: Collection[str] = ()
    ) -> list[list[Waiting]]:
        """Return the `limit` requests that have waited longest for evaluators in `among`, each with its waiting items.

        Only items with numbers up to `up_to`; none of the requests in `without`.
        """
        columns = "id, request_id, app, evaluator, source, tries, body"
        where = f"state = 'asked' AND n <= ? AND evaluator IN ({marks(among)})"
        with self._file.reading() as db:
            first = db.execute(
                f"SELECT request_id, min(n) FROM items WHERE {where} AND request_id NOT IN ({marks(without)})"  # noqa: S608 - marks and constants
                " GROUP BY request_id ORDER BY 2 LIMIT ?",
                (up_to, *among, *without, limit),
            ).fetchall()
            found = [
                db.execute(
                    f"SELECT {columns} FROM items WHERE {where} AND request_id = ? ORDER BY n",  # noqa: S608 - as above
                    (up_to, *among, request_id),
                ).fetchall()
                for request_id, _ in first
            ]
        return [[_waiting(row) for row in rows] for rows in found]

    def finish(self, id_: str, outcome: str, now: float) -> bool:
        """Record how a requested item ended, and delete its case; return whether it was in the queue."""
        with self._file.transaction() as db:
            sql = (
                "UPDATE items SET state = 'done', outcome = ?, at = ?, size = 0, body = NULL"
                " WHERE id = ? AND state = 'asked'"
            )
            return db.execute(sql, (outcome, now, id_)).rowcount == 1

    def again(self, id_: str) -> None:
        """Count an attempt at an item that is to be retried."""
        with self._file.transaction() as db:
            db.execute("UPDATE items SET tries = tries + 1 WHERE id = ? AND state = 'asked'", (id_,))

    def expire(
        self, *, before: float, now: float, up_to: int, spare: Collection[str] = ()
    ) -> tuple[dict[BackfillGroup, int], list[BackfillGroup]]:
        """Expire items that have waited since before `before`: requested ones numbered up to `up_to`, and missed ones.

        Spares requested items of the requests in `spare`. Deletes the records of items that ended before `before`.
        """
        old = f"state = 'asked' AND n <= ? AND at < ? AND request_id NOT IN ({marks(spare)})"
        with self._file.transaction() as db:
            asked = db.execute(
                f"SELECT app, evaluator, source, count(*) FROM items WHERE {old} GROUP BY 1, 2, 3",  # noqa: S608 - marks and constants
                (up_to, before, *spare),
            ).fetchall()
            db.execute("DELETE FROM items WHERE state = 'done' AND at < ?", (before,))
            db.execute(
                f"UPDATE items SET state = 'done', outcome = 'expired', at = ?, size = 0, body = NULL WHERE {old}",  # noqa: S608 - as above
                (now, up_to, before, *spare),
            )
            missed = db.execute(
                "DELETE FROM items WHERE state = 'missed' AND at < ? RETURNING app, evaluator, source", (before,)
            ).fetchall()
        return {BackfillGroup(*row[:3]): row[3] for row in asked}, [BackfillGroup(*row) for row in missed]

    # -- looking

    def missed(self) -> list[Missed]:
        """Return the missed items that are not requested, by evaluator."""
        with self._file.reading() as db:
            found = db.execute(
                "SELECT evaluator, count(*), min(answered), max(answered) FROM items WHERE state = 'missed'"
                " GROUP BY 1 ORDER BY 1"
            ).fetchall()
        return [Missed(*row) for row in found]

    def counts(self, batch: str | None) -> dict[str, int]:
        """Count the items of a batch that wait (`asked`) and that are done, by outcome; None: of all batches."""
        sql = "SELECT CASE state WHEN 'done' THEN outcome ELSE state END, count(*) FROM items WHERE"
        with self._file.reading() as db:
            if batch is None:
                return dict(db.execute(f"{sql} state <> 'missed' GROUP BY 1").fetchall())
            return dict(db.execute(f"{sql} batch = ? GROUP BY 1", (batch,)).fetchall())

    def stamp(self) -> object:
        """Return a value that changes when a process writes to the file, except within some milliseconds. Quick."""
        return tuple(map(files.stamp_of, self._paths))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def missed_items(path: Path, evaluators: Collection[str] = (), app: str = "") -> Iterator[Item]:
    """Yield the missed items of the queue `path`, as the method does, without changing anything on disk.

    A missing file has no items. Raises `MonitorError` if the file cannot be read.
    """
    return (
        _missed(ReadOnly(path, FORMAT, name="the backfill queue").query, evaluators, app) if path.exists() else iter(())
    )


def _missed(
    ask: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], evaluators: Collection[str], app: str
) -> Iterator[Item]:
    after = 0
    wanted = f"(? OR evaluator IN ({marks(evaluators)})) AND (? OR app = ?)"
    sql = f"SELECT n, body FROM items WHERE state = 'missed' AND n > ? AND {wanted} ORDER BY n LIMIT ?"  # noqa: S608 - marks
    while found := ask(sql, (after, not evaluators, *evaluators, not app, app, _AT_ONCE)):
        for _, body in found:
            with suppress(InvalidData):
                yield cases.load(body)
        after = found[-1][0]


def _row(item: Item, body: bytes, *, state: str, now: float, batch: str = "") -> tuple[object, ...]:
    size = len(body) + _OVERHEAD
    app = item.case.app.encode("utf-8", "replace").decode()
    request_id = item.case.request_id.encode("utf-8", "replace").decode()
    answered = item.case.answered_at or now
    return (item.id, request_id, app, item.evaluator, item.origin.value, state, batch, answered, now, size, body)


def _group(item: Item) -> BackfillGroup:
    return BackfillGroup(item.case.app, item.evaluator, item.origin.value)


def _used(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(sum(size), 0) FROM items").fetchone()[0])


def _oldest_missed(db: sqlite3.Connection) -> tuple[BackfillGroup, int] | None:
    sql = "DELETE FROM items WHERE n = (SELECT min(n) FROM items WHERE state = 'missed')"
    row = db.execute(f"{sql} RETURNING app, evaluator, source, size").fetchone()
    return (BackfillGroup(*row[:3]), int(row[3])) if row is not None else None


def _waiting(row: tuple[object, ...]) -> Waiting:
    id_, request_id, app, evaluator, source, tries, body = row
    item = None
    with suppress(InvalidData):
        item = cases.load(body) if isinstance(body, bytes) else None
    return Waiting(
        str(id_), str(request_id), BackfillGroup(str(app), str(evaluator), str(source)), int(str(tries)), item
    )


def traces_of(path: Path, users: Collection[str]) -> set[str]:
    """Find the requests of these users (ids or pseudonyms) in the queue `path`. Raises `MonitorError`."""
    found = set()
    with erasing(path, dry_run=True) as eraser:
        if eraser.has("items"):
            for request_id, body in eraser.db.execute("SELECT request_id, body FROM items WHERE body IS NOT NULL"):
                with suppress(InvalidData):
                    if cases.load(body).case.user_id in users:
                        found.add(request_id)
    return found


def erase(path: Path, traces: Collection[str], *, dry_run: bool) -> dict[str, int]:
    """Delete the items of these requests from the queue `path`, beside a running monitor.

    Returns the number of rows by table; with `dry_run` deletes nothing. Raises `MonitorError`.
    """
    with erasing(path, dry_run=dry_run) as eraser:
        eraser.delete("items", "request_id", eraser.requests_of("items", "request_id", traces))
    return eraser.rows


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of `size`, the last one shorter."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
