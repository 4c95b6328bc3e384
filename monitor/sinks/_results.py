"""The tables of the history: results, newest seven days or so, and their sums by the minute, for longer."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from monitor.errors import MonitorError
from monitor.model.generation import Generation, Known
from monitor.model.outcome import Judged, Score, Standing
from monitor.privacy.pseudonyms import UserKey
from monitor.sinks import _erasing, _lessons
from monitor.sinks._rows import as_json, dump, load
from monitor.sinks._search import BY_TRACE, Search
from monitor.stages import Lesson

_SCHEMA = """
CREATE TABLE IF NOT EXISTS results (
  id TEXT PRIMARY KEY, at REAL NOT NULL, app TEXT NOT NULL, evaluator TEXT NOT NULL, trace_id TEXT NOT NULL,
  outcome TEXT NOT NULL, defect INTEGER NOT NULL, score REAL, body BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS results_by_time ON results (at);
CREATE INDEX IF NOT EXISTS results_by_trace ON results (trace_id);
CREATE INDEX IF NOT EXISTS results_by_score ON results (evaluator, defect, score) WHERE outcome = 'score';
DROP TABLE IF EXISTS sums;  -- of before sums were told apart by version: nothing can be compared with them
CREATE TABLE IF NOT EXISTS version_sums (
  at INTEGER, app TEXT, evaluator TEXT, version TEXT, defect INTEGER, judged INTEGER, weight REAL, weight_squares REAL,
  PRIMARY KEY (at, app, evaluator, version, defect)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS generations (
  app TEXT, evaluator TEXT, fingerprint TEXT, parts TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL,
  PRIMARY KEY (app, evaluator, fingerprint)
) WITHOUT ROWID;
"""
_MINUTE = 60
_PRUNE_AT_ONCE = 500


class Sums(NamedTuple):
    """Scored results of one minute, which began at `at` (seconds since 1970): their number, weights, squares.

    Results of two versions of an evaluator are never in one sum.
    """

    at: int
    app: str
    evaluator: str
    version: str
    defect: bool
    judged: int
    weight: float
    weight_squares: float


def create(path: Path) -> sqlite3.Connection:
    """Open for writing, for use in this thread. Raises `sqlite3.Error`."""
    db = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten, also where it filled whole pages
        db.executescript(_SCHEMA + _lessons.SCHEMA + _erasing.SCHEMA)
    except sqlite3.Error:
        db.close()
        raise
    return db


def insert(
    db: sqlite3.Connection,
    results: Iterable[Judged],
    *,
    texts: bool,
    quotes: bool = True,
    users: UserKey | None = None,
) -> None:
    """Add results within the transaction of the caller; one whose id is known changes nothing.

    `texts` and `quotes` as in `_rows.as_json`; with `users` it is remembered whose results they are.
    """
    for one in results:
        score = one.outcome.value if isinstance(one.outcome, Score) else None
        app = one.case.app.encode("utf-8", "replace").decode()
        row = as_json(one, texts=texts, quotes=quotes)
        values = (
            one.id,
            one.judged_at,
            app,
            one.evaluator,
            one.case.request_id,
            row["outcome"],
            one.defect,
            score,
            dump(row),
        )
        if one.standing is Standing.BACKFILL:  # what was due and came to nothing has been judged since
            db.execute("DELETE FROM results WHERE id = ? AND outcome = 'unscored'", (one.id,))
        added = db.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values).rowcount
        if added:
            _lessons.keep(db, row, one.judged_at)
            if users is not None and one.case.user_id:
                _erasing.keep_person(db, users.of(one.case.user_id), one.case.request_id, one.judged_at)
        if added and score is not None and one.standing is Standing.LIVE:
            answered_at = min(one.case.answered_at or one.judged_at, one.judged_at)
            minute = int(answered_at // _MINUTE * _MINUTE)
            db.execute(
                "INSERT INTO version_sums VALUES (?, ?, ?, ?, ?, 1, ?, ?)"
                " ON CONFLICT DO UPDATE SET judged = judged + 1, weight = weight + excluded.weight,"
                " weight_squares = weight_squares + excluded.weight_squares",
                (minute, app, one.evaluator, one.version, one.defect, one.weight, one.weight**2),
            )
            parts = dump(one.generation.parts).decode()
            db.execute(
                "INSERT INTO generations VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
                " seen = max(seen, excluded.seen)",
                (app, one.evaluator, one.generation.fingerprint, parts, one.judged_at, one.judged_at),
            )


def prune(db: sqlite3.Connection, *, before: float, sums_before: float, at_most: int) -> bool:
    """Delete some hundred results that are too old, or the oldest of too many; whether there may be more."""
    page, pages, unused = (
        db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
    )
    too_full = page * (pages - unused) > at_most
    oldest = "SELECT rowid FROM results WHERE at < ? OR ? ORDER BY at LIMIT ?"
    deleted = db.execute(f"DELETE FROM results WHERE rowid IN ({oldest})", (before, too_full, _PRUNE_AT_ONCE)).rowcount  # noqa: S608
    db.execute("DELETE FROM version_sums WHERE at < ?", (sums_before,))
    db.execute("DELETE FROM generations WHERE seen < ?", (sums_before,))
    _lessons.prune(db, before)
    _erasing.prune(db, before)
    return deleted == _PRUNE_AT_ONCE


class Reader:
    """Reads the history, from any thread or process, also while it is written. Rows are those of `_rows.as_json`.

    All methods block for some milliseconds and raise `MonitorError` where there is no history or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def results(
        self, *, app: str | None = None, evaluator: str | None = None, since: float = 0.0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """The newest results of any outcome, newest first."""
        return self._rows("at >= ?", [since], "at DESC", limit, app=app, evaluator=evaluator)

    def worst(
        self,
        *,
        app: str | None = None,
        evaluator: str | None = None,
        since: float = 0.0,
        limit: int = 10,
        better: Literal["higher", "lower"] = "higher",
    ) -> list[dict[str, Any]]:
        """The worst scores: defects first, then by score from the bad end of the scale, newest first among equals.

        `better` is the good end of the evaluator's scale.
        """
        order = f"defect DESC, score {'ASC' if better == 'higher' else 'DESC'}, at DESC"
        return self._rows("outcome = 'score' AND at >= ?", [since], order, limit, app=app, evaluator=evaluator)

    def search(self, wanted: Search) -> list[dict[str, Any]]:
        """The results that are looked for, in the order that is asked for; long ones without context and history."""
        return [load(body) for (body,) in self._query(*wanted.sql())]

    def by_trace(self, trace_id: str) -> list[dict[str, Any]]:
        """All results of one trace, oldest first; long texts of the case stand in the first that has them alone."""
        return [load(body) for (body,) in self._query(BY_TRACE, [trace_id])]

    def sums_since(self, since: float) -> list[Sums]:
        """Sums of scored results by the minute, oldest first, from the minute that holds `since` on."""
        minute = since // _MINUTE * _MINUTE
        found = self._query("SELECT * FROM version_sums WHERE at >= ? ORDER BY 1, 2, 3, 4, 5", [minute])
        return [_sums(row) for row in found]

    def hourly_sums(self, since: float, until: float) -> list[Sums]:
        """The same by the hour, from the hour that holds `since` up to, and without, the one that holds `until`."""
        found = self._query(
            "SELECT at / 3600 * 3600, app, evaluator, version, defect, SUM(judged), SUM(weight), SUM(weight_squares)"
            " FROM version_sums WHERE at >= ? AND at < ? GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5",
            [since // 3600 * 3600, until // 3600 * 3600],
        )
        return [_sums(row) for row in found]

    def generations(self) -> list[Known]:
        """The generations that had verdicts, those of an app and evaluator by their beginning."""
        found = self._query("SELECT app, evaluator, parts, began, seen FROM generations ORDER BY began", [])
        return [
            Known(app, evaluator, Generation(**load(parts)), began, seen)
            for app, evaluator, parts, began, seen in found
        ]

    def verdicts(self, ids: Collection[str]) -> set[str]:
        """Which results, by id, are there and came to a verdict, or to none being due: all that is not `unscored`."""
        wanted = list(ids)
        parts = [wanted[start : start + _PRUNE_AT_ONCE] for start in range(0, len(wanted), _PRUNE_AT_ONCE)]
        sql = "SELECT id FROM results WHERE outcome <> 'unscored' AND id IN ({})"
        return {id_ for part in parts for (id_,) in self._query(sql.format(", ".join("?" * len(part))), part)}

    def numbers(self, evaluator: str, since: float, app: str | None = None) -> dict[str, int]:
        """How many results of an evaluator are `defect`, `passed`, `unscored` and `skipped` since that second."""
        only, values = ("", [evaluator, since]) if app is None else (" AND app = ?", [evaluator, since, app])
        kind = "CASE WHEN outcome <> 'score' THEN outcome WHEN defect THEN 'defect' ELSE 'passed' END"
        sql = f"SELECT {kind}, COUNT(*) FROM results WHERE evaluator = ? AND at >= ?{only} GROUP BY 1"  # noqa: S608 - constants
        return dict(self._query(sql, values))

    def lessons(self) -> list[Lesson]:
        """What the newest verdicts teach, oldest first."""
        newest = self._query(_lessons.NEWEST, [_lessons.AT_MOST])
        return [_lessons.of(body) for (body,) in reversed(newest)]

    def _rows(self, where: str, values: list[Any], order: str, limit: int, **only: str | None) -> list[dict[str, Any]]:
        for column, value in only.items():
            if value is not None:
                where += f" AND {column} = ?"
                values.append(value)
        sql = f"SELECT body FROM results WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608 - all constants of this class
        return [load(body) for (body,) in self._query(sql, [*values, limit])]

    def _query(self, sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
        try:
            db = sqlite3.connect(f"file:{quote(str(self._path))}?mode=ro", uri=True, timeout=5)
            try:
                return db.execute(sql, values).fetchall()
            finally:
                db.close()
        except sqlite3.Error as error:
            raise MonitorError(f"the history {self._path} cannot be read: {error}") from error


def _sums(row: tuple[Any, ...]) -> Sums:
    at, app, evaluator, version, defect, *rest = row
    return Sums(at, app, evaluator, version, bool(defect), *rest)
