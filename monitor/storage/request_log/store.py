"""The tables of the request log: a record for each request, and sums of steps by the minute, kept longer."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from monitor.clock import Clock
from monitor.model.case import Joined
from monitor.model.outcome import Attempt
from monitor.model.request_log import EvaluatorDecision, RequestRecord, RequestStep, Sum
from monitor.storage.damage import Repaired
from monitor.storage.erasing import erasing
from monitor.storage.sqlite import Database, Format, ReadOnly, open_database, used_bytes

T = TypeVar("T")


def _defaults(kind: type) -> dict[str, Any]:
    return {one.name: one.default for one in dataclasses.fields(kind)}


_RECORD: Final = _defaults(RequestRecord)
_DECISION: Final = _defaults(EvaluatorDecision)


def pack(record: RequestRecord) -> bytes:
    """Write a record as the body of its row."""
    kept = _non_defaults(record, _RECORD)
    if record.joined:
        kept["joined"] = [list(one) for one in record.joined]
    if record.decisions:
        kept["decisions"] = [_decision(one) for one in record.decisions]
    try:
        return orjson.dumps(kept)
    except TypeError:  # half a surrogate pair, in the name of an app or a span, is not valid UTF-8
        return json.dumps(kept).encode("ascii")


def unpack(body: bytes) -> RequestRecord:
    """Read what `pack` wrote; ignores unknown fields. Raises `ValueError`, `KeyError` or `TypeError`."""
    try:
        kept = orjson.loads(body)
    except orjson.JSONDecodeError:
        kept = json.loads(body)
    decisions = []
    for one in kept.get("decisions", ()):
        tries = tuple(Attempt(*each) for each in one.get("tries", ()))
        decisions.append(EvaluatorDecision(**{**_known(one, _DECISION), "tries": tries}))
    joined = tuple(Joined(*one) for one in kept.get("joined", ()))
    return RequestRecord(**{**_known(kept, _RECORD), "joined": joined, "decisions": tuple(decisions)})


def _decision(decision: EvaluatorDecision) -> dict[str, Any]:
    kept = _non_defaults(decision, _DECISION)
    if decision.tries:
        kept["tries"] = [(one.seconds, one.result, one.detail) for one in decision.tries]
    return kept


def _non_defaults(value: object, defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: given for name, default in defaults.items() if (given := getattr(value, name)) != default}


def _known(kept: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kept.items() if name in defaults}


FORMAT: Final = Format(
    1,
    """
CREATE TABLE IF NOT EXISTS requests (request_id TEXT NOT NULL, at REAL NOT NULL, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS requests_by_request ON requests (request_id);
CREATE INDEX IF NOT EXISTS requests_by_time ON requests (at);
CREATE TABLE IF NOT EXISTS steps (
  at INTEGER, app TEXT, source TEXT, evaluator TEXT, step TEXT, number INTEGER NOT NULL, expected REAL NOT NULL,
  last REAL NOT NULL, PRIMARY KEY (at, app, source, evaluator, step)
) WITHOUT ROWID;
""",
    {"secure_delete": "FAST"},  # there are no texts in it
)
MINUTE: Final = 60
_PRUNE_AT_ONCE: Final = 500
_MOST_OF_ONE: Final = 250
_FAULTS: Final = (ValueError, KeyError, TypeError, AttributeError)


class Minute(NamedTuple):
    """A step within the minute that began at `at`, in wall-clock seconds."""

    at: int
    step: RequestStep


class StepCount(NamedTuple):
    """How often a step was taken, the sum of its sampling probabilities, and when last, in wall-clock seconds."""

    number: int
    expected: float
    last: float


def database(path: Path, clock: Clock, repaired: Callable[[Repaired], None]) -> Database:
    """Open the file for writing; `repaired` is called as in `Database`."""
    return Database(path, FORMAT, name="the request log", clock=clock, repaired=repaired)


def create(path: Path) -> sqlite3.Connection:
    """Open the file for writing. Raises `sqlite3.Error`, `ConfigError`."""
    return open_database(path, FORMAT)


def erase(path: Path, traces: Collection[str], *, dry_run: bool) -> dict[str, int]:
    """Delete the records of these requests from the file `path`, beside a running monitor.

    Returns the number of rows by table; deletes nothing with `dry_run`. Raises `MonitorError`.
    """
    with erasing(path, dry_run=dry_run) as eraser:
        eraser.delete("requests", "request_id", eraser.requests_of("requests", "request_id", traces))
    return eraser.rows


def insert(db: sqlite3.Connection, records: Iterable[RequestRecord], sums: Mapping[Minute, StepCount]) -> None:
    """Add records and sums within the caller's transaction."""
    rows = ((_whole(one.request_id), one.ended_at, pack(one)) for one in records)
    db.executemany("INSERT INTO requests (request_id, at, body) VALUES (?, ?, ?)", rows)
    db.executemany(
        "INSERT INTO steps (at, app, source, evaluator, step, number, expected, last) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET number = number + excluded.number,"
        " expected = expected + excluded.expected, last = max(last, excluded.last)",
        ((minute.at, *map(_whole, minute.step), *counted) for minute, counted in sums.items()),
    )


def prune(db: sqlite3.Connection, *, before: float, sums_before: float, at_most: int, added: int = 0) -> bool:
    """Delete old records, or the oldest of too large a file, as fast as `added`. Return whether to call again."""
    too_full = used_bytes(db) > at_most
    limit = _PRUNE_AT_ONCE + 2 * added
    oldest = "SELECT rowid FROM requests WHERE at < ? OR ? ORDER BY at LIMIT ?"
    deleted = db.execute(f"DELETE FROM requests WHERE rowid IN ({oldest})", (before, too_full, limit)).rowcount  # noqa: S608
    if too_full and not deleted:  # the sums alone are too large
        first = db.execute("SELECT min(at) FROM steps").fetchone()[0]
        sums_before = max(sums_before, (first or 0) + 60 * MINUTE)
    db.execute("DELETE FROM steps WHERE at < ?", (sums_before,))
    return deleted >= limit


class RequestLogReader:
    """Reads the request log, from any thread or process, while it is written.

    All methods block for some milliseconds and raise `MonitorError` if there is no file or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = ReadOnly(path, FORMAT, name="the request log")

    def of(self, request_id: str) -> list[RequestRecord]:
        """Return the records of one request, oldest first: more than one if spans came after it was closed.

        For a trace or row with several requests, return the records of all of them.
        """
        sql = (
            "SELECT body FROM requests WHERE request_id = ? OR (request_id > ? AND request_id < ?) ORDER BY at LIMIT ?"
        )
        found, whole = [], _whole(request_id)
        for (body,) in self._file.query(sql, [whole, f"{whole}/", f"{whole}0", _MOST_OF_ONE]):  # 0 comes after /
            with contextlib.suppress(*_FAULTS):  # a newer version wrote it, or its bytes are damaged
                found.append(unpack(body))
        return found

    def between(self, since: float, until: float, limit: int) -> list[RequestRecord]:
        """Return the newest `limit` records of requests that ended between two wall-clock seconds, newest first."""
        sql = "SELECT body FROM requests WHERE at >= ? AND at <= ? ORDER BY at DESC LIMIT ?"
        found = []
        for (body,) in self._file.query(sql, [since, until, limit]):
            with contextlib.suppress(*_FAULTS):  # as above
                found.append(unpack(body))
        return found

    def sums(self, since: float, until: float, app: str | None = None) -> list[Sum]:
        """Add up the steps from the minute that contains `since` up to `until`, in wall-clock seconds, by step."""
        where, values = "at >= ? AND at <= ?", [since // MINUTE * MINUTE, until]
        only: list[Any] = [*values]
        if app is not None:
            where, only = f"{where} AND app = ?", [*values, _whole(app)]
        sql = (
            "SELECT app, source, evaluator, step, sum(number), sum(expected), max(last) FROM steps"  # noqa: S608 - ours
            f" WHERE {where} GROUP BY 1, 2, 3, 4"
        )
        found = self._file.query(sql, only)
        whole = [row for row in found if all(isinstance(name, str) for name in row[:4])]
        return [Sum(RequestStep(*row[:4]), *row[4:]) for row in whole]

    def span(self) -> tuple[float, float] | None:
        """Return the first minute with sums, and when the newest step was taken; None without any."""
        ((first, last),) = self._file.query("SELECT min(at), max(last) FROM steps", [])
        return None if first is None else (float(first), float(last))

    def oldest(self) -> float | None:
        """Return when the request of the oldest record ended; None without any."""
        ((at,),) = self._file.query("SELECT min(at) FROM requests", [])
        return None if at is None else float(at)


def _whole(text: str) -> str:
    """Return `text` without halves of surrogate pairs, which SQLite refuses."""
    return text.encode("utf-8", "replace").decode()
