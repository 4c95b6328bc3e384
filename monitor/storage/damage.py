"""Damaged databases: set aside, salvaged into a new file, and counted; the copies set aside are bounded.

A damaged file is never written to again: deleting a row with a broken chain of pages would free pages of other rows.
It is read from its newest rows down to the oldest, around the pages that cannot be read.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from monitor.storage.checks import readable
from monitor.storage.files import make_private, size_of, sync_folder
from monitor.telemetry.events import Event, Events
from monitor.telemetry.metrics import Metrics

COPIES: Final = 3
"""Damaged copies kept of each database: the newest."""
COPIES_BYTES: Final = 1024**3
"""Bytes that the copies of a database may take together. The newest stays, however large it is."""
SALVAGE_SECONDS: Final = 10.0
"""How long rows are copied from a damaged file; rows not reached stay in the copy that is set aside."""

_AT_ONCE: Final = 64
_IN_A_TRANSACTION: Final = 4096
_GAPS: Final = 20_000
"""The most unreadable places of a table that are skipped."""
_ONE_BY_ONE: Final = 64
"""Row numbers tried one by one below an unreadable one, before the steps double."""
_HIGHEST: Final = 2**62
"""Above every row number."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A damaged file that was replaced: why, where it is kept, and by table the rows saved and (at least) lost."""

    aside: Path
    why: str
    kept: Mapping[str, int] = field(default_factory=dict)
    lost: Mapping[str, int] = field(default_factory=dict)


def reporter(database: str, events: Events, metrics: Metrics) -> Callable[[Repaired], None]:
    """Return a function that counts and logs the repairs of a database; `database` is the label in the metrics."""
    damaged = metrics.database_damaged.labels(database)
    rows = {outcome: metrics.database_rows.labels(database, outcome) for outcome in ("saved", "lost")}

    def report(found: Repaired) -> None:
        kept, lost = sum(found.kept.values()), sum(found.lost.values())
        damaged.inc()
        rows["saved"].inc(kept)
        rows["lost"].inc(lost)
        missing = f"{lost} or more lost" if lost else "none is known to be lost"
        message = f"the database {database} was damaged: {kept} rows saved, {missing}; the damaged file is kept"
        events.error(Event.DATABASE_DAMAGED, message, database=database, aside=str(found.aside), why=found.why)

    return report


# -- files


def timestamp(at: float) -> str:
    """Write a time (wall-clock seconds) as part of a file name: `20260131T120000Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))


def set_aside(path: Path, now: float) -> Path:
    """Rename a damaged database and its log to `*.damaged-<time>`; return the new name. Raises `OSError`.

    Deletes the oldest of such copies beyond `COPIES` and `COPIES_BYTES`.
    """
    stamp = timestamp(now)
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    for again in range(1, 1000):
        if not aside.exists():
            break
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{again}")
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)  # an index of the log that is gone
    bound_copies(path)
    return aside


def damaged_copies(path: Path) -> list[Path]:
    """Return the damaged files that were set aside for the database `path`, sorted by name."""
    return sorted(path.parent.glob(f"{path.name}*.damaged-*"))


def bound_copies(path: Path) -> None:
    """Delete the oldest damaged copies of the database `path` beyond the limits. Leave those the disk won't delete."""
    room, copies = COPIES_BYTES, 0
    with suppress(OSError):
        for copy in sorted(damaged_copies(path), key=lambda one: (one.stat().st_ctime_ns, one.name), reverse=True):
            if copy.name.endswith("-wal"):
                continue  # goes with its database
            whole = [copy, copy.with_name(f"{copy.name}-wal")]
            copies += 1
            room -= sum(size_of(one) for one in whole)
            if copies > 1 and (copies > COPIES or room < 0):
                for one in whole:
                    one.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Delete a database, if there is one, with its companion files. Raises `OSError`."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


# -- salvage


def rebuild(
    path: Path,
    create: Callable[[Path], sqlite3.Connection],
    *,
    now: float,
    why: str,
    is_late: Callable[[], bool] = lambda: False,
    is_whole: Callable[[str, tuple[Any, ...]], bool] = lambda _table, _row: True,
) -> Repaired:
    """Replace the damaged database at `path` with a new one, made by `create`, with all rows that can still be read.

    Reads the tables in the order of the new schema, each from its newest row, until it `is_late`. `is_whole` gets a
    table and a row in the order of the columns. Needs as much free space as the rows take. Survives a crash at any
    moment: see `finish`. Raises `sqlite3.Error` or `OSError` if the new file cannot be written; the old one is then
    unchanged.
    """
    building = path.with_name(path.name + ".building")
    remove(building)
    make_private(building)
    kept, lost = {}, {}
    with closing(create(building)) as new, closing(_open_damaged(path)) as old:
        new.text_factory = str
        for table in _tables(new):
            kept[table.name], lost[table.name] = _copy(old, new, table, is_whole, is_late)
    for suffix in ("-wal", "-shm"):  # empty once the last connection is closed
        building.with_name(building.name + suffix).unlink(missing_ok=True)
    building.replace(path.with_name(path.name + ".rebuilt"))
    sync_folder(path.parent)
    return Repaired(finish(path, now) or path, why, kept, lost)


def finish(path: Path, now: float) -> Path | None:
    """Move a completed rebuild into place, even after a crash; return the new path of the old file, if any."""
    rebuilt = path.with_name(path.name + ".rebuilt")
    if not rebuilt.exists():
        return None
    aside = set_aside(path, now)
    rebuilt.replace(path)
    sync_folder(path.parent)
    return aside


class _Rows(NamedTuple):
    """A table of the new file. `number` is the integer column that its rows are sorted by; empty: none."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    number: str


def _tables(db: sqlite3.Connection) -> list[_Rows]:
    found = []
    listed = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    for name, sql in db.execute(listed).fetchall():
        columns = db.execute(f"PRAGMA table_info({name})").fetchall()
        key = tuple(column[1] for column in sorted(columns, key=lambda one: one[5]) if column[5])
        kinds = {column[1]: column[2] for column in columns}
        number = "rowid" if "WITHOUT ROWID" not in sql else key[0] if kinds[key[0]] == "INTEGER" else ""
        found.append(_Rows(name, tuple(kinds), key, number))
    return found


def _open_damaged(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=0)
    db.text_factory = readable
    with suppress(sqlite3.Error):
        db.execute("PRAGMA writable_schema = ON")  # makes SQLite read a file that is shorter than its header says
        db.execute("PRAGMA cell_size_check = ON")
    return db


def _copy(
    old: sqlite3.Connection,
    new: sqlite3.Connection,
    table: _Rows,
    is_whole: Callable[[str, tuple[Any, ...]], bool],
    is_late: Callable[[], bool],
) -> tuple[int, int]:
    """Copy a table; return the numbers of rows saved and lost."""
    insert = f"INSERT OR IGNORE INTO {table.name} ({', '.join(table.columns)}) VALUES ({_marks(table)})"  # noqa: S608 - names of our schema
    kept = lost = 0
    batch: list[tuple[Any, ...]] = []
    new.execute("BEGIN IMMEDIATE")
    for row in _rows(old, table):
        if isinstance(row, int):
            lost += row
            if is_late():
                break
        elif is_whole(table.name, row):
            batch.append(row)
        else:
            lost += 1
        if len(batch) >= _AT_ONCE:
            added = new.executemany(insert, batch).rowcount
            kept, lost, batch = kept + added, lost + len(batch) - added, []
            if kept % _IN_A_TRANSACTION < added:
                new.execute("COMMIT")
                new.execute("BEGIN IMMEDIATE")
            if is_late():
                lost += 1
                break
    added = new.executemany(insert, batch).rowcount if batch else 0
    new.execute("COMMIT")
    return kept + added, lost + len(batch) - added


def _marks(table: _Rows) -> str:
    return ", ".join("?" * len(table.columns))


def _rows(db: sqlite3.Connection, table: _Rows) -> Generator[tuple[Any, ...] | int, None, None]:
    """Yield the rows that can be read and, in between, the number of rows that were lost.

    An unreadable row number may have been deleted before: each counts as lost, or all of them as one if no row above or
    below them can be read.
    """
    try:
        there = {row[1] for row in db.execute(f"PRAGMA table_info({table.name})")}
    except (sqlite3.Error, ValueError):
        there = set()
    missing = set(table.columns) - there
    if not there:
        yield 1  # without its description no table can be read
        return
    columns = ", ".join("NULL" if name in missing else name for name in table.columns)
    if not table.number:
        yield from _both_ways(db, f"SELECT {columns} FROM {table.name}", table)  # noqa: S608 - as above
        return
    sql = f"SELECT {table.number}, {columns} FROM {table.name} WHERE {table.number} <= ? ORDER BY {table.number} DESC"  # noqa: S608
    bound: int | None = _HIGHEST
    for _ in range(_GAPS):
        if bound is None or bound < 0:
            return
        reached = yield from _walk(db, sql, bound, once=table.number == "rowid")
        if reached is None:
            return
        bound = _below(db, sql, min(reached, bound))
        between = bound is not None and reached < _HIGHEST and table.number == "rowid"
        yield reached - bound - 1 if between and bound is not None else 1


def _walk(
    db: sqlite3.Connection, sql: str, bound: int, *, once: bool
) -> Generator[tuple[Any, ...] | int, None, int | None]:
    """Yield rows up to `bound`; return the number of the last one before an error, None without an error.

    With `once`, each number may come only once. Numbers descend: a number below those that follow it is from an empty
    page.
    """
    before = reached = bound + 1
    try:
        for number, *row in _stream(db, sql, bound):
            if not isinstance(number, int):
                break
            if number < reached or (number == reached and not once):
                before, reached = reached, number
            elif number < before:
                reached = number
            else:
                break  # pages that are linked in a circle
            yield tuple(row)
        else:
            return None
    except (sqlite3.Error, OverflowError, TypeError, ValueError):
        pass
    return reached if reached > bound or _reads(db, sql, reached, itself=True) else before


def _stream(db: sqlite3.Connection, sql: str, bound: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows up to `bound`, the first by itself.

    `sqlite3` reads one row ahead, and does not hand out a row if the next cannot be read. The rest is not queried by
    the number of the first: on a page that was cut short it is 0, with every other row above it.
    """
    first = db.execute(f"{sql} LIMIT 1", (bound,)).fetchone()
    if first is not None:
        yield first
        yield from islice(db.execute(sql, (bound,)), 1, None)


def _below(db: sqlite3.Connection, sql: str, failed: int) -> int | None:
    """Return nearly the highest number below `failed` from which rows can be read again, or None."""
    for step in range(1, _ONE_BY_ONE):
        if _reads(db, sql, failed - step):
            return failed - step
    steps = (2**power for power in range(_ONE_BY_ONE.bit_length() - 1, 63))
    good = next((failed - step for step in steps if _reads(db, sql, failed - step)), None)
    return None if good is None else _climb(db, sql, good, failed)


def _climb(db: sqlite3.Connection, sql: str, good: int, failed: int) -> int:
    """Move up from a readable number, past unreadable ones, until `_ONE_BY_ONE` in a row are unreadable."""
    step = (failed - good) // 2
    while step:
        if good + step < failed and _reads(db, sql, good + step):
            good += step
            step *= 2
        else:
            step //= 2
        if not step:
            near = range(good + 1, min(good + _ONE_BY_ONE, failed))
            step = next((number - good for number in near if _reads(db, sql, number)), 0)
    return good


def _reads(db: sqlite3.Connection, sql: str, bound: int, *, itself: bool = False) -> bool:
    """Return whether the highest row up to `bound`, if any, can be read and is found by its own number.

    With `itself` that number must be `bound`. A row on an empty page is found only by numbers above its own.
    """
    try:
        found = db.execute(f"{sql} LIMIT 1", (bound,)).fetchone()
    except (sqlite3.Error, OverflowError, ValueError):
        return False
    if found is None:
        return not itself
    number = found[0]
    return number == bound or (not itself and isinstance(number, int) and _reads(db, sql, number, itself=True))


def _both_ways(db: sqlite3.Connection, sql: str, table: _Rows) -> Generator[tuple[Any, ...] | int, None, None]:
    """Yield the rows up to the first error, and from the other end down to the last."""
    for order in ("ASC", "DESC"):
        try:
            yield from db.execute(f"{sql} ORDER BY {', '.join(f'{name} {order}' for name in table.key)}")
        except (sqlite3.Error, OverflowError, ValueError):
            yield int(order == "DESC")
        else:
            return
