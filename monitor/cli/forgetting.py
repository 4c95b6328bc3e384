"""What `rag-monitor forget` deletes, where, and what it cannot reach."""

from __future__ import annotations

import base64
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from monitor.backfill import cases as queued
from monitor.config.model import Config
from monitor.errors import ConfigError, InvalidData
from monitor.privacy import audit, erasure, pseudonyms
from monitor.sinks import _erasing
from monitor.sinks.history import History
from monitor.spool import retained
from monitor.spool.files import make_private
from monitor.spool.format import Damaged, decode
from monitor.stages import type_name
from monitor.telemetry.events import Event

_FILES: Final = ("history.db", "backfill.db", "trail.db")
_COLUMNS: Final = ("request_id", "trace_id")
"""Which of a table's columns says what request a row is about."""

_AT_ONCE: Final = 500
_WAIT: Final = 60.0
"""Seconds that another writer of a file is waited for."""

SETTLE: Final = 1.5
"""Seconds until a running monitor has surely read the marks, so that nothing is kept after it was deleted."""

_TRACE_ID: Final = 32
_KEPT_LEAST: Final = 7 * 86400.0
_PLACES: Final = ("path", "url", "endpoint", "brokers", "topic")


class Wanted(NamedTuple):
    """What is to be forgotten: one of both is empty."""

    trace: str
    user: str


@dataclass(frozen=True, slots=True)
class Found:
    """Rows by file and table, the requests that they were of, and where else something may be."""

    rows: Mapping[str, int]
    requests: int
    elsewhere: Sequence[str]
    aside: Sequence[Path]


def forget(config: Config, wanted: Wanted, *, dry_run: bool, now: float) -> Found:
    """Find it, and delete it unless `dry_run`. Raises `ConfigError` where a file cannot be read or written."""
    folder = config.storage.path
    files = [folder / name for name in _FILES]
    files += [sink.path for sink in config.sinks if isinstance(sink, History) and sink.path is not None]
    there = [path for path in dict.fromkeys(files) if path.exists()]
    try:
        users = _pseudonyms(wanted.user, {folder, *(path.parent for path in there)})
        if not dry_run:  # before anything is deleted: what is in hand must not follow
            for at in {folder, *(path.parent for path in there)}:
                if at.is_dir():
                    _mark(at, wanted, users, now, max(config.storage.retention, _KEPT_LEAST))
            time.sleep(SETTLE)
        traces = {wanted.trace} if wanted.trace else _traces_of(wanted.user, users, there)
        rows: dict[str, int] = dict(_retained(folder / retained.NAME, {*traces, wanted.user}, dry_run=dry_run))
        for path in there:
            rows |= _deleted(path, traces, dry_run=dry_run)
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(f"storage.path: nothing is promised, since a file there cannot be used: {error}") from None
    if not dry_run and folder.is_dir():
        whose = {"requests": sorted(traces)} if wanted.trace else {"users": sorted(users), "requests": sorted(traces)}
        audit.record(folder, Event.TEXTS_FORGOTTEN, rows=sum(rows.values()), **whose)
    return Found(rows, len(traces) if rows else 0, list(_elsewhere(config)), list(_aside(there)))


def lines(found: Found, *, dry_run: bool) -> Iterator[str]:
    """What was done, in words."""
    verb = "would be deleted" if dry_run else "deleted"
    for where, number in found.rows.items():
        yield f"{where}: {number} {verb}"
    if not found.rows:
        yield "Nothing is kept of it."
    if not dry_run:
        yield "What still waits in the spool, or is being judged, is dropped when the monitor comes to it."
    for path in found.aside:
        yield f"A damaged file that was kept aside may hold more, delete it by hand: {path}"
    if found.elsewhere:
        yield "Delete what was sent elsewhere there:"
        yield from (f"  {one}" for one in found.elsewhere)


def _pseudonyms(user: str, folders: set[Path]) -> set[str]:
    if not user:
        return set()
    keys = [pseudonyms.load(folder) for folder in sorted(folders)]
    return {key.of(user) for key in keys if key is not None}


def _mark(folder: Path, wanted: Wanted, users: set[str], now: float, keep: float) -> None:
    marks = [erasure.Mark(now, trace=wanted.trace)] if wanted.trace else []
    marks += [erasure.Mark(now, user=user) for user in sorted(users)]
    if marks:
        erasure.add(folder, marks, since=now - keep)


def _traces_of(user: str, users: set[str], there: Sequence[Path]) -> set[str]:
    found: set[str] = set()
    for path in there:
        with closing(_open(path)) as db:
            tables = _tables(db)
            if "results" in tables:
                found |= _erasing.traces_of(db, users, user)
            if "items" in tables:
                found |= _waiting_of(db, {user, *users})
    return found


def _waiting_of(db: sqlite3.Connection, users: set[str]) -> set[str]:
    """The requests of a user that wait to be judged afterwards."""
    found = set()
    for request_id, body in db.execute("SELECT request_id, body FROM items WHERE body IS NOT NULL"):
        with suppress(InvalidData):
            if queued.load(body).case.user_id in users:
                found.add(request_id)
    return found


def _deleted(path: Path, traces: set[str], *, dry_run: bool) -> dict[str, int]:
    """Rows by table."""
    found: dict[str, int] = {}
    with closing(_open(path)) as db:
        db.execute("PRAGMA secure_delete = ON")
        db.execute("BEGIN" if dry_run else "BEGIN IMMEDIATE")
        for table, column in _tables(db).items():
            if column:
                found[table] = _each(db, table, column, traces, dry_run=dry_run)
        lessons = _erasing.lessons_of(db, traces)
        found["lessons"] = _each(db, "lessons", "n", lessons, dry_run=dry_run) if lessons else 0
        db.execute("COMMIT")
        if not dry_run and any(found.values()):
            _empty_log(db)
    return {f"{path.name}, {table}": number for table, number in found.items() if number}


def _retained(path: Path, words: set[str], *, dry_run: bool) -> Iterator[tuple[str, int]]:
    """Whole deliveries that hold any of the ids: others were in them too, and are only kept for judging afterwards."""
    if not path.exists():
        return
    wanted = [form for word in words if word for form in _forms(word)]
    with closing(_open(path)) as db:
        db.execute("PRAGMA secure_delete = ON")
        db.execute("BEGIN" if dry_run else "BEGIN IMMEDIATE")
        gone = []
        for number, *row in db.execute("SELECT n, id, head, meta, body, checksum FROM records"):
            try:
                payload = decode(tuple(row)).payload
            except Damaged:
                continue
            if any(form in payload for form in wanted):
                gone.append(number)
        deleted = _each(db, "records", "n", gone, dry_run=dry_run)
        db.execute("COMMIT")
        if deleted and not dry_run:
            _empty_log(db)
    if deleted:
        yield f"{path.name}, records", deleted


def _empty_log(db: sqlite3.Connection) -> None:
    """The write-ahead log holds what was deleted. Where somebody reads at this moment, the monitor does it next."""
    with suppress(sqlite3.OperationalError):
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _forms(word: str) -> Iterator[bytes]:
    """How an id may stand in a delivery: as text, as a JSON string, and a trace id as its bytes."""
    yield word.encode("utf-8", "surrogatepass")
    yield json.dumps(word)[1:-1].encode("ascii")
    with suppress(ValueError):
        if len(word) == _TRACE_ID:
            yield from (bytes.fromhex(word), word.upper().encode("ascii"), base64.b64encode(bytes.fromhex(word)))


def _each(db: sqlite3.Connection, table: str, column: str, values: Any, *, dry_run: bool) -> int:
    """Rows whose `column` is one of `values`; names of tables and columns come from the file's own schema."""
    number, wanted = 0, sorted(values)
    for at in range(0, len(wanted), _AT_ONCE):
        part = wanted[at : at + _AT_ONCE]
        where = f'FROM "{table}" WHERE "{column}" IN ({", ".join("?" * len(part))})'
        if dry_run:
            number += int(db.execute(f"SELECT count(*) {where}", part).fetchone()[0])
        else:
            number += db.execute(f"DELETE {where}", part).rowcount
    return number


def _tables(db: sqlite3.Connection) -> dict[str, str]:
    """Each table with the column that names a request; empty where it has none."""
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    found = {}
    for name in names:
        columns = {row[0] for row in db.execute("SELECT name FROM pragma_table_info(?)", (name,)).fetchall()}
        found[name] = next((column for column in _COLUMNS if column in columns), "")
    return found


def _open(path: Path) -> sqlite3.Connection:
    make_private(path)
    return sqlite3.connect(path, isolation_level=None, timeout=_WAIT)


def _elsewhere(config: Config) -> Iterator[str]:
    """Where this program has sent results, or takes traces from, in words."""
    for sink in config.sinks:
        if type_name(sink) in ("prometheus", "history"):
            continue
        yield _place(type_name(sink), sink)
    for source in config.sources:
        if type_name(source) == "kafka":
            yield f"{_place('kafka', source)}: the traces themselves, in its topics and in that of dead letters"


def _place(name: str, component: Any) -> str:
    told = []
    for field in _PLACES:
        value = getattr(component, field, None)
        if value:
            told.append(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    return f"{name} {' '.join(told)}".rstrip()


def _aside(there: Sequence[Path]) -> Iterator[Path]:
    for path in there:
        yield from sorted(path.parent.glob(f"{path.name}.damaged-*"))
    yield from sorted({one for path in there for one in path.parent.glob("spool.db*.damaged-*")})
