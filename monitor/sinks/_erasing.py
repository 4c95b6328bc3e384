"""What leaves the history before its results do: texts that are kept for less long, and what is to be forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from typing import Any, Final

from monitor.model.outcome import result_id
from monitor.sinks._rows import dump, load

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS people (
  user TEXT, trace_id TEXT, at REAL NOT NULL, PRIMARY KEY (user, trace_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS people_by_time ON people (at);
CREATE TABLE IF NOT EXISTS blanked (until REAL NOT NULL);
"""
"""`people`: whose trace it is, by the pseudonym of `privacy`. `blanked`: up to when no result has a text."""

_AT_ONCE: Final = 200
_TEXTS: Final = ("request", "retrieved_context", "response", "user_id")


def keep_person(db: sqlite3.Connection, user: str, trace_id: str, at: float) -> None:
    """Remember whose trace it is, within the transaction of the caller."""
    db.execute("INSERT OR REPLACE INTO people VALUES (?, ?, ?)", (user, trace_id, at))


def prune(db: sqlite3.Connection, before: float) -> None:
    """Forget whose the traces of results are that are kept no longer."""
    db.execute("DELETE FROM people WHERE at < ?", (before,))


def blanked(row: dict[str, Any]) -> dict[str, Any]:
    """A result without any text: verdict, numbers, places and names of evaluators stay."""
    kept = {key: value for key, value in row.items() if key not in _TEXTS}
    for key in ("explanation", "detail"):
        if kept.get(key):
            kept[key] = ""
    kept["evidence"] = [{**one, "claim": "", "note": ""} for one in kept.get("evidence") or []]
    return kept


def blank(db: sqlite3.Connection, before: float) -> bool:
    """Take the texts out of some hundred results that were reached before `before`; whether there may be more.

    Goes on where it stopped the last time, also in an earlier process.
    """
    told = db.execute("SELECT max(until) FROM blanked").fetchone()[0]
    begin = told if told is not None and told <= before else 0.0  # beyond: the clock was set back, or a longer time
    found = db.execute(
        "SELECT at FROM results WHERE at >= ? AND at < ? ORDER BY at LIMIT ?", (begin, before, _AT_ONCE)
    ).fetchall()
    more = len(found) == _AT_ONCE
    until = found[-1][0] if more else before
    stretch = "at >= ? AND at <= ?" if more else "at >= ? AND at < ?"  # all of one moment, however many there are
    bodies = db.execute(f"SELECT id, body FROM results WHERE {stretch}", (begin, until))  # noqa: S608 - one of two constants
    for key, body in bodies.fetchall():
        row = load(body)
        empty = blanked(row)
        if empty != row:
            db.execute("UPDATE results SET body = ? WHERE id = ?", (dump(empty), key))
    if more and until == begin:  # a crowded moment: it is done with
        until = _after(db, until, before)
    db.execute("DELETE FROM blanked")
    db.execute("INSERT INTO blanked VALUES (?)", (until,))
    return more


def _after(db: sqlite3.Connection, at: float, before: float) -> float:
    found = db.execute("SELECT min(at) FROM results WHERE at > ? AND at < ?", (at, before)).fetchone()[0]
    return float(found) if found is not None else before


def traces_of(db: sqlite3.Connection, users: Iterable[str], user_id: str) -> set[str]:
    """The traces of a user: by any of the pseudonyms `users`, or by the id itself where a row tells it."""
    found: set[str] = set()
    for user in users:
        if _has(db, "people"):
            found.update(trace for (trace,) in db.execute("SELECT trace_id FROM people WHERE user = ?", (user,)))
    told = (
        "SELECT trace_id FROM results WHERE json_valid(CAST(body AS TEXT))"
        " AND json_extract(CAST(body AS TEXT), '$.user_id') = ?"
    )
    found.update(trace for (trace,) in db.execute(told, (user_id,)))
    return found


def lessons_of(db: sqlite3.Connection, traces: Collection[str]) -> list[int]:
    """The rows of the table `lessons` that came of these traces: a lesson is known by the hash that is its result."""
    found = []
    for number, body in db.execute("SELECT n, body FROM lessons").fetchall() if _has(db, "lessons") else ():
        lesson = load(body)
        by = (lesson.get("evaluator", ""), lesson.get("version", ""))
        if lesson.get("result") in {result_id(trace, *by) for trace in traces}:
            found.append(number)
    return found


def _has(db: sqlite3.Connection, table: str) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone() is not None
