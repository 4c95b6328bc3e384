"""The tables of the history: results, kept for days; sums by the minute, kept longer; past results for samplers."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, RateScope, Score, Unscored
from monitor.privacy.pseudonyms import UserKey
from monitor.statistics.session_products import alone
from monitor.storage.history.features import dump_features, features_of
from monitor.storage.history.rows import as_json, dump, past_result
from monitor.storage.sqlite import Format, open_database, used_bytes

FORMAT: Final = Format(
    4,
    """
CREATE TABLE IF NOT EXISTS session_sums (
  at INTEGER, app TEXT, evaluator TEXT, version TEXT, defect INTEGER, judged INTEGER, weight REAL, weight_squares REAL,
  top REAL, defect_products REAL, every_products REAL, both_products REAL,
  PRIMARY KEY (at, app, evaluator, version, defect)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rule_sums (
  at INTEGER, app TEXT, evaluator TEXT, version TEXT, rule TEXT, defect INTEGER, judged INTEGER, weight REAL,
  weight_squares REAL, top REAL, defect_products REAL, every_products REAL, both_products REAL,
  PRIMARY KEY (at, app, evaluator, version, rule, defect)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS generations (
  app TEXT, evaluator TEXT, fingerprint TEXT, parts TEXT NOT NULL, began REAL NOT NULL, seen REAL NOT NULL,
  PRIMARY KEY (app, evaluator, fingerprint)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS past_results (n INTEGER PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS people (
  user TEXT, trace_id TEXT, at REAL NOT NULL, PRIMARY KEY (user, trace_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS features (request_id TEXT PRIMARY KEY, at REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results (
  id TEXT PRIMARY KEY, at REAL NOT NULL, app TEXT NOT NULL, evaluator TEXT NOT NULL, trace_id TEXT NOT NULL,
  outcome TEXT NOT NULL, defect INTEGER NOT NULL, score REAL, body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS blanked (until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS followers (name TEXT PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feed (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS judge_use (
  at INTEGER, app TEXT, evaluator TEXT, outcome TEXT, evaluations INTEGER, asked INTEGER, calls INTEGER, dollars REAL,
  seconds REAL, PRIMARY KEY (at, app, evaluator, outcome)
);
CREATE INDEX IF NOT EXISTS people_by_time ON people (at);
CREATE INDEX IF NOT EXISTS features_by_time ON features (at);
CREATE INDEX IF NOT EXISTS results_by_time ON results (at);
CREATE INDEX IF NOT EXISTS results_by_trace ON results (trace_id);
CREATE INDEX IF NOT EXISTS results_by_score ON results (evaluator, defect, score) WHERE outcome = 'score';
CREATE INDEX IF NOT EXISTS feed_by_id ON feed (id);
""",
)
"""The tables of a damaged file are saved in this order: first those that restore windows, baselines and samplers. The
root pages of the tables come first, then those of the indexes, which can be rebuilt from the tables.

`rule_sums`: sums by the alerts' own defect rules. `judge_use`: by the quarter of an hour, what judges cost and how
often they gave a score, or why not. `past_results`: what samplers learn from after a restart. `people`: the user of a
trace, by the pseudonym of `privacy`. `features`: what a diagnosis compares in a case, once for all its results.
`blanked`: the time before which no result has texts.
`feed`: the ids of results in the order in which they were written, without gaps, as long as a sink has yet to get them;
the id of a result that was erased on request is empty. `followers`: the number that each sink has reached."""

MINUTE: Final = 60
QUARTER: Final = 900
"""Seconds: the offset of every time zone is a multiple of it."""
PAST_RESULTS_AT_MOST: Final = 5_000
"""Past results kept for samplers: as many as the model itself remembers."""

NEWEST_PAST_RESULTS: Final = "SELECT body FROM past_results ORDER BY n DESC LIMIT ?"
_PRUNE_AT_ONCE: Final = 500

VERSIONS_AT_MOST: Final = 100
"""Versions of a service kept for an app and an evaluator, the last seen: a client could send a new one per request."""

_ONE_VERSION_TOO_MANY: Final = (
    "(app, evaluator, fingerprint) IN (SELECT app, evaluator, fingerprint FROM (SELECT app, evaluator, fingerprint,"
    " row_number() OVER (PARTITION BY app, evaluator ORDER BY seen DESC, began DESC) AS place FROM generations)"
    " WHERE place > ?)"
)
_ADD_RESULT: Final = (
    "INSERT OR IGNORE INTO results (id, at, app, evaluator, trace_id, outcome, defect, score, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SUMS: Final = "judged, weight, weight_squares, top, defect_products, every_products, both_products)"
_WITHOUT_FOLLOWERS: Final = 100
"""Entries of the feed kept while nothing follows it: in a file that was just started over, sinks still get them."""

_ADD_UP: Final = (
    "ON CONFLICT DO UPDATE SET judged = judged + 1, weight = weight + excluded.weight,"
    " weight_squares = weight_squares + excluded.weight_squares, top = max(top, excluded.top),"
    " defect_products = defect_products + excluded.defect_products,"
    " every_products = every_products + excluded.every_products,"
    " both_products = both_products + excluded.both_products"
)


def create(path: Path) -> sqlite3.Connection:
    """Open the history for writing. Raises `sqlite3.Error`, `ConfigError`."""
    return open_database(path, FORMAT)


def insert(
    db: sqlite3.Connection,
    results: Sequence[EvaluationResult],
    *,
    texts: bool,
    quotes: bool = True,
    users: UserKey | None = None,
) -> None:
    """Add results within the caller's transaction; a result with a known id changes nothing.

    `texts` and `quotes` are as in `rows.as_json`; with `users`, the user of each trace is recorded, by pseudonym. The
    features of a case are kept with its first score; local results of one case arrive together.
    """
    seen: dict[tuple[str, ...], tuple[str, float, float]] = {}
    described: set[str] = set()
    used = {
        one.case.request_id: one.outcome.used_sources
        for one in results
        if isinstance(one.outcome, Score) and one.outcome.used_sources
    }
    for one in results:
        score = one.outcome.value if isinstance(one.outcome, Score) else None
        app = one.case.app.encode("utf-8", "replace").decode()
        row = as_json(one, texts=texts, quotes=quotes)
        values = (
            row["id"],
            one.evaluated_at,
            app,
            one.evaluator,
            one.case.request_id,
            row["outcome"],
            one.defect,
            score,
            dump(row),
        )
        if one.scope is RateScope.BACKFILL:  # it failed earlier and has now been scored
            db.execute("DELETE FROM results WHERE id = ? AND outcome = 'unscored'", (one.id,))
        added = db.execute(_ADD_RESULT, values).rowcount
        if added:
            db.execute("INSERT INTO feed (id, at) VALUES (?, ?)", (row["id"], one.evaluated_at))
            _keep_past_result(db, row, one.evaluated_at)
            _add_judge_use(db, one, app)
            if users is not None and one.case.user_id:
                person = (users.of(one.case.user_id), one.case.request_id, one.evaluated_at)
                db.execute("INSERT OR REPLACE INTO people (user, trace_id, at) VALUES (?, ?, ?)", person)
            if score is not None and one.score_source is ScoreSource.OWN and one.case.request_id not in described:
                described.add(one.case.request_id)
                sources = used.get(one.case.request_id, "")
                _keep_features(db, one, users, texts=texts, addresses=quotes, used=sources)
        if added and score is not None and one.scope is RateScope.LIVE:
            answered_at = min(one.case.answered_at or one.evaluated_at, one.evaluated_at)
            minute = int(answered_at // MINUTE * MINUTE)
            place, more = (minute, app, one.evaluator, one.version), (one.weight, one.weight**2, one.weight)
            products = one.session_products.get("") or alone(one.weight, defect=one.defect)
            db.execute(
                f"INSERT INTO session_sums (at, app, evaluator, version, defect, {_SUMS}"  # noqa: S608 - constants
                f" VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?) {_ADD_UP}",
                (*place, one.defect, *more, *products),
            )
            for rule, defect in one.alert_defects.items():
                products = one.session_products.get(rule) or alone(one.weight, defect=defect)
                db.execute(
                    f"INSERT INTO rule_sums (at, app, evaluator, version, rule, defect, {_SUMS}"  # noqa: S608 - constants
                    f" VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?) {_ADD_UP}",
                    (*place, rule, defect, *more, *products),
                )
            version = (app, one.evaluator, row["versions"]["fingerprint"])
            parts, began, last = seen.get(version) or (dump(one.service_version.parts).decode(), answered_at, 0.0)
            seen[version] = parts, min(began, answered_at), max(last, answered_at)
    db.executemany(
        "INSERT INTO generations (app, evaluator, fingerprint, parts, began, seen) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET"
        " began = min(began, excluded.began), seen = max(seen, excluded.seen)",
        [(*version, *facts) for version, facts in seen.items()],
    )


def prune(db: sqlite3.Connection, *, before: float, sums_before: float, at_most: int) -> bool:
    """Delete some hundred results: too old ones, or the oldest of too large a file. Return whether to call again."""
    too_full = used_bytes(db) > at_most
    oldest = "SELECT rowid FROM results WHERE at < ? OR ? ORDER BY at LIMIT ?"
    deleted = db.execute(f"DELETE FROM results WHERE rowid IN ({oldest})", (before, too_full, _PRUNE_AT_ONCE)).rowcount  # noqa: S608
    db.execute("DELETE FROM session_sums WHERE at < ?", (sums_before,))
    db.execute("DELETE FROM rule_sums WHERE at < ?", (sums_before,))
    db.execute("DELETE FROM judge_use WHERE at < ?", (sums_before,))
    if too_full and deleted < _PRUNE_AT_ONCE and used_bytes(db) > at_most:
        deleted = _delete_oldest_sums(db)
    db.execute(f"DELETE FROM generations WHERE seen < ? OR {_ONE_VERSION_TOO_MANY}", (sums_before, VERSIONS_AT_MOST))  # noqa: S608 - constants
    db.execute(
        "DELETE FROM past_results WHERE at < ? OR n <= (SELECT max(n) FROM past_results) - ?",
        (before, PAST_RESULTS_AT_MOST),
    )
    db.execute("DELETE FROM people WHERE at < ?", (before,))
    db.execute("DELETE FROM features WHERE at < max(?, coalesce((SELECT min(at) FROM results), 0))", (before,))
    # In a file that was started over after damage, positions may be those of the old file.
    newest = "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'feed'), 0)"
    sent = f"SELECT CASE WHEN max(position) <= {newest} THEN min(position) END FROM followers"  # noqa: S608 - constants
    db.execute(
        f"DELETE FROM feed WHERE n <= coalesce(({sent}), (SELECT max(n) FROM feed) - ?)",  # noqa: S608 - as above
        (_WITHOUT_FOLLOWERS,),
    )
    first = "SELECT n FROM feed ORDER BY n LIMIT ?"
    unsent = db.execute(f"DELETE FROM feed WHERE n IN ({first}) AND at < ?", (_PRUNE_AT_ONCE, before)).rowcount  # noqa: S608
    return max(deleted, unsent) >= _PRUNE_AT_ONCE


def _delete_oldest_sums(db: sqlite3.Connection) -> int:
    """Delete the sums of the oldest hour. Return `_PRUNE_AT_ONCE` if there were any, since there may be more."""
    ((oldest,),) = db.execute("SELECT min(at) FROM session_sums").fetchall()
    if oldest is None:
        return 0
    for table in ("session_sums", "rule_sums"):
        db.execute(f"DELETE FROM {table} WHERE at < ?", (oldest + 3600,))  # noqa: S608 - constants
    return _PRUNE_AT_ONCE


def _add_judge_use(db: sqlite3.Connection, one: EvaluationResult, app: str) -> None:
    """Add the use of the judge for a result. Results without a score count by reason, also for local evaluators."""
    cost, asked = one.cost, one.cost.asked
    if one.score_source is not ScoreSource.OWN or not (cost.model or isinstance(one.outcome, Unscored)):
        return
    outcome = str(one.outcome.reason) if isinstance(one.outcome, Unscored) else one.outcome.kind
    quarter = int(one.evaluated_at // QUARTER * QUARTER)
    db.execute(
        "INSERT INTO judge_use (at, app, evaluator, outcome, evaluations, asked, calls, dollars, seconds)"
        " VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET evaluations = evaluations + 1,"
        " asked = asked + excluded.asked, calls = calls + excluded.calls, dollars = dollars + excluded.dollars,"
        " seconds = seconds + excluded.seconds",
        (quarter, app, one.evaluator, outcome, asked, cost.attempts, cost.dollars, cost.seconds if asked else 0.0),
    )


def _keep_features(
    db: sqlite3.Connection, one: EvaluationResult, users: UserKey | None, *, texts: bool, addresses: bool, used: str
) -> None:
    case = one.case
    if not (case.request.query or case.response):
        return
    if db.execute("SELECT 1 FROM features WHERE request_id = ?", (case.request_id,)).fetchone() is None:
        found = features_of(case, one.service_version, users, texts=texts, addresses=addresses, used=used)
        db.execute("INSERT INTO features VALUES (?, ?, ?)", (case.request_id, one.evaluated_at, dump_features(found)))


def _keep_past_result(db: sqlite3.Connection, row: Mapping[str, Any], at: float) -> None:
    if not (row["sampling"] and row["sampling"]["inputs"]):
        return
    found = past_result(row)
    if found is not None and found.defect is not None and found.inputs:
        db.execute("INSERT INTO past_results (at, body) VALUES (?, ?)", (at, dump(asdict(found))))
