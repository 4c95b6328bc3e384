"""Removes from the history what must go before its results do: texts with a shorter retention, and erased requests."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

from monitor.model.outcome import result_id
from monitor.storage.erasing import Eraser, erasing
from monitor.storage.history.rows import dump, load

_AT_ONCE: Final = 200
_TEXTS: Final = ("request", "retrieved_context", "response", "user_id", "used")


def blanked(row: dict[str, Any]) -> dict[str, Any]:
    """Remove all texts from a result: scores, numbers, offsets and names of evaluators stay."""
    kept = {key: value for key, value in row.items() if key not in _TEXTS}
    for key in ("explanation", "detail"):
        if kept.get(key):
            kept[key] = ""
    kept["evidence"] = [{**one, "claim": "", "note": ""} for one in kept.get("evidence") or []]
    return kept


def blank(db: sqlite3.Connection, before: float) -> bool:
    """Remove the texts of some hundred results from before `before`; return whether to call again.

    Continues where it stopped, even after a restart.
    """
    done = db.execute("SELECT max(until) FROM blanked").fetchone()[0]
    begin = done if done is not None and done <= before else 0.0  # else the clock was set back, or the retention raised
    found = db.execute(
        "SELECT at FROM results WHERE at >= ? AND at < ? ORDER BY at LIMIT ?", (begin, before, _AT_ONCE)
    ).fetchall()
    more = len(found) == _AT_ONCE
    until = found[-1][0] if more else before
    stretch = "at >= ? AND at <= ?" if more else "at >= ? AND at < ?"  # all of one moment, however many
    bodies = db.execute(f"SELECT id, body FROM results WHERE {stretch}", (begin, until))  # noqa: S608 - one of two constants
    for key, body in bodies.fetchall():
        row = load(body)
        empty = blanked(row)
        if empty != row:
            db.execute("UPDATE results SET body = ? WHERE id = ?", (dump(empty), key))
    if more and until == begin:  # all results of that moment are done
        until = _after(db, until, before)
    db.execute("DELETE FROM blanked")
    db.execute("INSERT INTO blanked (until) VALUES (?)", (until,))
    return more


def _after(db: sqlite3.Connection, at: float, before: float) -> float:
    found = db.execute("SELECT min(at) FROM results WHERE at > ? AND at < ?", (at, before)).fetchone()[0]
    return float(found) if found is not None else before


def traces_of(path: Path, users: Iterable[str], user_id: str) -> set[str]:
    """Find the trace ids of a user in the history `path`: by any of the pseudonyms `users`, or by the id itself.

    Raises `MonitorError` if the file cannot be read.
    """
    found: set[str] = set()
    with erasing(path, dry_run=True) as eraser:
        if eraser.has("people"):
            for user in users:
                rows = eraser.db.execute("SELECT trace_id FROM people WHERE user = ?", (user,))
                found.update(trace for (trace,) in rows)
        if eraser.has("results"):
            by_id = (
                "SELECT trace_id FROM results WHERE json_valid(CAST(body AS TEXT))"
                " AND json_extract(CAST(body AS TEXT), '$.user_id') = ?"
            )
            found.update(trace for (trace,) in eraser.db.execute(by_id, (user_id,)))
    return found


def erase(path: Path, traces: Collection[str], *, dry_run: bool) -> dict[str, int]:
    """Delete everything about these traces from the history `path`, beside a running monitor.

    The sums by the minute stay: they name no trace. Returns the number of rows by table; deletes nothing with
    `dry_run`. Raises `MonitorError`.
    """
    with erasing(path, dry_run=dry_run) as eraser:
        traces = eraser.requests_of("results", "trace_id", traces)
        if not dry_run and eraser.has("feed"):  # a sink that has not sent one of them counts it as forgotten
            eraser.db.executemany(
                "UPDATE feed SET id = '' WHERE id IN (SELECT id FROM results WHERE trace_id = ?)",
                [(trace,) for trace in traces],
            )
        eraser.delete("results", "trace_id", traces)
        eraser.delete("people", "trace_id", traces)
        eraser.delete("features", "request_id", traces)
        eraser.delete("past_results", "n", _past_results_of(eraser, traces))
    return eraser.rows


def _past_results_of(eraser: Eraser, traces: Collection[str]) -> list[int]:
    """Find the rows of `past_results` that came from these traces: each has only its result's id, a hash."""
    found = []
    for number, body in (
        eraser.db.execute("SELECT n, body FROM past_results").fetchall() if eraser.has("past_results") else ()
    ):
        past = load(body)
        by = (past.get("evaluator", ""), past.get("version", ""))
        if past.get("result") in {result_id(trace, *by) for trace in traces}:
            found.append(number)
    return found
