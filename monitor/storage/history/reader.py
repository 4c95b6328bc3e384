"""Reading the history: the newest results, the worst, those of a trace, searches, and the sums by the minute."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from monitor.model.service_version import SeenVersion, ServiceVersion
from monitor.stages import PastResult
from monitor.statistics.rates import Sums
from monitor.storage.history.features import load_features
from monitor.storage.history.rows import load
from monitor.storage.history.tables import FORMAT, MINUTE, NEWEST_PAST_RESULTS, PAST_RESULTS_AT_MOST
from monitor.storage.sqlite import ReadOnly, marks
from monitor.telemetry.metrics import OVERFLOW

_AT_ONCE = 500
_FAULTS = (ValueError, TypeError, KeyError, AttributeError)
_ALWAYS = frozenset(
    {"schema", "id", "evaluated_at", "request_id", "trace_id", "app", "evaluator", "version", "outcome", "reason"}
) | {"score", "level", "defect", "explanation", "evidence", "weight", "scope", "score_source", "traffic", "attributes"}
"""Keys that every row has."""


class MinuteSums(NamedTuple):
    """Sums over the scored results of one minute, which began at `at` (seconds since 1970).

    Results of two versions of an evaluator are never in one sum. `rule` is the name of the alert's own defect rule that
    decides `defect`; empty: the evaluator's rule.
    """

    at: int
    app: str
    evaluator: str
    version: str
    defect: bool
    judged: int
    weight: float
    weight_squares: float
    top: float
    defect_products: float
    every_products: float
    both_products: float
    rule: str = ""

    @property
    def sums(self) -> Sums:
        """The sums of these results, which are all defects or all good."""
        products = (self.top, self.defect_products, self.every_products, self.both_products)
        if self.defect:
            return Sums(self.judged, self.judged, self.weight, self.weight, self.weight_squares, 0.0, *products)
        return Sums(self.judged, 0, self.weight, 0.0, 0.0, self.weight_squares, *products)


_IDS_AT_ONCE = 500

Ends = tuple[float, float]
"""Two points of a scale."""

_OUTCOMES: Mapping[str, str] = {
    "any": "1",
    "defect": "outcome = 'score' AND defect",
    "passed": "outcome = 'score' AND NOT defect",
    "score": "outcome = 'score'",
    "unscored": "outcome = 'unscored'",
    "skipped": "outcome = 'skipped'",
}

_BODY = (
    "CASE WHEN length(body) > 20000 AND json_valid(CAST(body AS TEXT))"
    " THEN json_remove(CAST(body AS TEXT), '$.retrieved_context', '$.request.history') ELSE body END"
)
_UNJUDGED = (
    "NOT EXISTS (SELECT 1 FROM results AS judged WHERE judged.trace_id = results.trace_id AND judged.evaluator = ?"
    " AND judged.outcome = 'score')"
)

_UNDAMAGED = " AND ".join(
    f"typeof({column}) IN ('integer', 'real')"
    for column in ("judged", "weight", "weight_squares", "top", "defect_products", "every_products", "both_products")
)
"""True for sums whose bytes are numbers: SQLite would add up anything else as zero."""

_BY_TRACE = (
    "SELECT CASE WHEN length(body) <= 20000 OR NOT json_valid(CAST(body AS TEXT)) OR id = ("
    "SELECT id FROM results WHERE trace_id = ? AND json_valid(CAST(body AS TEXT))"
    " AND json_type(CAST(body AS TEXT), '$.response') = 'text' ORDER BY at, id LIMIT 1) THEN body"
    " ELSE json_remove(CAST(body AS TEXT), '$.request', '$.retrieved_context', '$.response') END"
    " FROM results WHERE trace_id = ? ORDER BY at, id LIMIT 1000"
)
"""Each evaluator's result repeats the texts of the case: long ones are read once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search. `since` and `until` are wall-clock seconds of the results, `until` exclusive. No `apps`: any.

    `bands` restrict scores, by evaluator, to those from the first end up to but not including the second. `order` is
    `worst`, defects first and then from the bad end of each scale, or `newest`; `scales` are the bad and the good end
    by evaluator, without which an evaluator's scores are not ordered. With `unjudged_by`, only results of answers that
    this evaluator has not scored.
    """

    apps: tuple[str, ...] = ()
    evaluator: str | None = None
    since: float = 0.0
    until: float | None = None
    outcome: Literal["any", "defect", "passed", "score", "unscored", "skipped"] = "score"
    order: Literal["worst", "newest"] = "worst"
    scales: Mapping[str, Ends] = field(default_factory=dict)
    bands: Mapping[str, Ends] | None = None
    unjudged_by: str = ""
    limit: int = 100

    def sql(self) -> tuple[str, list[Any]]:
        """Return the SQL query for bodies, and its values. Long bodies come without context and history.

        Rows are chosen and sorted without their bodies, which may hold megabytes of text.
        """
        where = [_OUTCOMES[self.outcome], "at >= ?"]
        values: list[Any] = [self.since]
        if self.until is not None:
            where.append("at < ?")
            values.append(self.until)
        if self.apps:
            where.append(f"app IN ({marks(self.apps)})")
            values += self.apps
        if self.evaluator is not None:
            where.append("evaluator = ?")
            values.append(self.evaluator)
        if self.bands is not None:
            where.append(f"({' OR '.join(['evaluator = ? AND score >= ? AND score < ?'] * len(self.bands)) or '0'})")
            values += [one for name, ends in self.bands.items() for one in (name, *ends)]
        if self.unjudged_by:
            where.append(_UNJUDGED)
            values.append(self.unjudged_by)
        order, more = self._order()
        chosen = f"SELECT id FROM results WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ?"  # noqa: S608 - as below
        sql = f"SELECT {_BODY} FROM results WHERE id IN ({chosen}) ORDER BY {order}"  # noqa: S608 - constants of this file
        return sql, [*values, *more, self.limit, *more]

    def _order(self) -> tuple[str, list[Any]]:
        if self.order == "newest":
            return "at DESC, id", []
        goodness, values = "score", []
        if self.scales:
            goodness = f"CASE evaluator {'WHEN ? THEN (score - ?) / ? ' * len(self.scales)}ELSE 0.5 END"
            values = [one for name, (bad, good) in self.scales.items() for one in (name, bad, good - bad)]
        return f"defect DESC, {goodness}, at DESC, id", values


class HistoryReader:
    """Reads the history, from any thread or process, while it is written. Rows are as from `rows.as_json`.

    All methods block for some milliseconds and raise `MonitorError` if there is no history or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._file = ReadOnly(path, FORMAT, name="the history")

    def results(
        self, *, app: str | None = None, evaluator: str | None = None, since: float = 0.0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """Return the newest results of any outcome, newest first."""
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
        """Return the worst scores: defects first, then from the bad end of the scale, newest first among equals.

        `better` is the good end of the evaluator's scale.
        """
        order = f"defect DESC, score {'ASC' if better == 'higher' else 'DESC'}, at DESC"
        return self._rows("outcome = 'score' AND at >= ?", [since], order, limit, app=app, evaluator=evaluator)

    def search(self, wanted: Search) -> list[dict[str, Any]]:
        """Return the results of a search, in its order; long ones without context and history."""
        return _whole(self._file.query(*wanted.sql()))

    def by_ids(self, ids: Collection[str]) -> list[dict[str, Any]]:
        """Return the results with these ids, whole, in no order."""
        names, found = list(ids), list[dict[str, Any]]()
        for first in range(0, len(names), _IDS_AT_ONCE):
            part = names[first : first + _IDS_AT_ONCE]
            sql = f"SELECT body FROM results WHERE id IN ({marks(part)})"  # noqa: S608 - question marks
            found += _whole(self._file.query(sql, part))
        return found

    def by_trace(self, trace_id: str) -> list[dict[str, Any]]:
        """Return all results of one request, oldest first; long texts are only in the first result that has them.

        For a trace or row with several requests, return the results of the last request.
        """
        found = _whole(self._file.query(_BY_TRACE, [trace_id] * 2))
        within = self.requests_of(trace_id) if not found else []
        return _whole(self._file.query(_BY_TRACE, [within[-1]] * 2)) if within else found

    def requests_of(self, trace_id: str) -> list[str]:
        """Return the ids of the requests of a trace or row that have results, in the order of their first ones."""
        sql = (
            "SELECT trace_id FROM results WHERE trace_id = ? OR (trace_id > ? AND trace_id < ?)"
            " GROUP BY 1 ORDER BY min(at), 1 LIMIT 250"
        )
        return [name for (name,) in self._file.query(sql, [trace_id, f"{trace_id}/", f"{trace_id}0"])]  # 0 is after /

    def busiest_apps(self, since: float, recent: float, at_most: int) -> list[str]:
        """Return the apps with the most scored results since the second `recent`; break ties by those since `since`."""
        sql = (
            "SELECT app FROM session_sums WHERE at >= ? GROUP BY app"
            " ORDER BY SUM(CASE WHEN at >= ? THEN judged ELSE 0 END) DESC, SUM(judged) DESC, app LIMIT ?"
        )
        return [app for (app,) in self._file.query(sql, [since, recent, at_most]) if isinstance(app, str)]

    def sums_since(self, since: float, *, apps: Collection[str] | None = None) -> list[MinuteSums]:
        """Return sums of scored results by the minute, oldest first, from the minute that contains `since`.

        With `apps`, here and below, all other apps are merged into `OVERFLOW`: anyone who sends traces can make up
        thousands of names.
        """
        return self._summed("at", "at >= ?", [since // MINUTE * MINUTE], apps)

    def hourly_sums(self, since: float, until: float, *, apps: Collection[str] | None = None) -> list[MinuteSums]:
        """Return the sums by the hour, from the hour of `since` up to but not including the hour of `until`."""
        hours = [since // 3600 * 3600, until // 3600 * 3600]
        return self._summed("at / 3600 * 3600", "at >= ? AND at < ?", hours, apps)

    def _summed(
        self, at: str, where: str, values: Sequence[float], apps: Collection[str] | None, table: str = "session_sums"
    ) -> list[MinuteSums]:
        """Return the sums by `at`, an SQL expression, in its order; for `rule_sums`, also by rule."""
        app, named = "app", list[object]()
        if apps is not None:
            app, named = f"CASE WHEN app IN ({marks(apps)}) THEN app ELSE ? END", [*apps, OVERFLOW]
        rule, each = (", rule", "1, 2, 3, 4, 13, 5") if table == "rule_sums" else ("", "1, 2, 3, 4, 5")
        sql = (
            f"SELECT {at}, {app}, evaluator, version, defect, SUM(judged), SUM(weight), SUM(weight_squares),"  # noqa: S608 - constants and question marks
            f" MAX(top), SUM(defect_products), SUM(every_products), SUM(both_products){rule}"
            f" FROM {table} WHERE {where} AND {_UNDAMAGED} GROUP BY {each} ORDER BY {each}"
        )
        return _sums(self._file.query(sql, [*named, *values]))

    def rate_sums(
        self, app: str, evaluator: str, since: float, until: float, *, version: str = "", rule: str = ""
    ) -> list[MinuteSums]:
        """Return the sums of one rate by the minute, oldest first, from the minute of `since` and before `until`.

        For one `version` of the evaluator, or for all. `rule` is the name of the alert's own defect rule, if any.
        """
        table, last = ("rule_sums", "rule") if rule else ("session_sums", "''")
        only, values = ("", []) if not version else (" AND version = ?", [version])
        only, values = (only, values) if not rule else (f"{only} AND rule = ?", [*values, rule])
        found = self._file.query(
            "SELECT at, app, evaluator, version, defect, judged, weight, weight_squares,"  # noqa: S608 - constants
            f" top, defect_products, every_products, both_products, {last} FROM {table}"
            f" WHERE at >= ? AND at < ? AND app = ? AND evaluator = ?{only} ORDER BY 1, 5",
            [since // MINUTE * MINUTE, until, app, evaluator, *values],
        )
        return _sums(found)

    def user_of(self, request_id: str) -> str:
        """Return the pseudonym of the user of a request whose features are kept; empty if it is not known."""
        found = self._file.query("SELECT body FROM features WHERE request_id = ?", [request_id])
        with suppress(*_FAULTS):  # damaged bytes that SQLite does not notice
            return load_features(found[0][0]).user if found else ""
        return ""

    def users_since(self, since: float) -> dict[str, str]:
        """Return by request the pseudonym of its user, of requests with results since a second."""
        found = self._file.query("SELECT trace_id, user FROM people WHERE at >= ?", [since])
        return {name: user for name, user in found if isinstance(name, str) and isinstance(user, str)}

    def rule_sums(self, since: float, minutes_since: float, *, apps: Collection[str] | None = None) -> list[MinuteSums]:
        """Return sums by the alerts' own defect rules, oldest first: by the hour, and by the minute at the end.

        They begin with the hour that contains `since`; from the hour that contains `minutes_since` on, they are by the
        minute.
        """
        began, turn = since // 3600 * 3600, minutes_since // 3600 * 3600
        hours = self._summed("at / 3600 * 3600", "at >= ? AND at < ?", [began, turn], apps, "rule_sums")
        return hours + self._summed("at", "at >= ?", [max(began, turn)], apps, "rule_sums")

    def generations(self, apps: Collection[str] | None = None) -> list[SeenVersion]:
        """Return the versions of services, or only of `apps`, that have results, by the time of their first result."""
        only = "" if apps is None else f" WHERE app IN ({marks(apps)})"
        sql = f"SELECT app, evaluator, parts, began, seen FROM generations{only} ORDER BY began"  # noqa: S608 - as above
        found = self._file.query(sql, list(apps or ()))
        versions = []
        for app, evaluator, parts, began, seen in found:
            with suppress(*_FAULTS):  # damaged bytes that SQLite does not notice
                versions.append(SeenVersion(app, evaluator, ServiceVersion(**load(parts)), float(began), float(seen)))
        return versions

    def scored_ids(self, ids: Collection[str]) -> set[str]:
        """Return those of `ids` whose results exist and are `score` or `skipped`."""
        wanted = list(ids)
        parts = [wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE)]
        sql = "SELECT id FROM results WHERE outcome <> 'unscored' AND id IN ({})"
        return {id_ for part in parts for (id_,) in self._file.query(sql.format(marks(part)), part)}

    def scores_by(self, requests: Collection[str], evaluator: str) -> dict[str, float]:
        """Return the newest score of an evaluator for each of `requests` that has one."""
        wanted = list(requests)
        parts = [wanted[start : start + _AT_ONCE] for start in range(0, len(wanted), _AT_ONCE)]
        sql = "SELECT trace_id, score FROM results WHERE evaluator = ? AND outcome = 'score' AND trace_id IN ({})"
        found = (
            row
            for part in parts
            for row in self._file.query(f"{sql.format(marks(part))} ORDER BY at", [evaluator, *part])
        )
        return {request: float(score) for request, score in found if isinstance(score, int | float)}

    def numbers(self, evaluator: str, since: float, app: str | None = None) -> dict[str, int]:
        """Count the results of an evaluator that are `defect`, `passed`, `unscored` and `skipped` since that second."""
        only, values = ("", [evaluator, since]) if app is None else (" AND app = ?", [evaluator, since, app])
        kind = "CASE WHEN outcome <> 'score' THEN outcome WHEN defect THEN 'defect' ELSE 'passed' END"
        sql = f"SELECT {kind}, COUNT(*) FROM results WHERE evaluator = ? AND at >= ?{only} GROUP BY 1"  # noqa: S608 - constants
        return dict(self._file.query(sql, values))

    def past_results(self) -> list[PastResult]:
        """Return the newest 5,000 results that samplers can learn from, oldest first."""
        newest = self._file.query(NEWEST_PAST_RESULTS, [PAST_RESULTS_AT_MOST])
        found = []
        for (body,) in reversed(newest):
            with suppress(*_FAULTS):  # as above
                found.append(_past_result(body))
        return found

    def newest_ids(self, at_most: int) -> list[str]:
        """Return the ids of the last written results, oldest first."""
        newest = self._file.query("SELECT id FROM results ORDER BY rowid DESC LIMIT ?", [at_most])
        return [id_ for (id_,) in reversed(newest) if isinstance(id_, str)]

    def _rows(self, where: str, values: list[Any], order: str, limit: int, **only: str | None) -> list[dict[str, Any]]:
        for column, value in only.items():
            if value is not None:
                where += f" AND {column} = ?"
                values.append(value)
        sql = f"SELECT body FROM results WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608 - all constants of this class
        return _whole(self._file.query(sql, [*values, limit]))


def _whole(found: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Read bodies; leave out those with damaged bytes, which SQLite does not notice."""
    rows = []
    for (body,) in found:
        with suppress(*_FAULTS):
            row = load(body)
            if row.keys() >= _ALWAYS:
                rows.append(row)
    return rows


def _sums(found: list[tuple[Any, ...]]) -> list[MinuteSums]:
    """Make sums of rows; leave out damaged ones, as `_whole` does."""
    sums = []
    for at, app, evaluator, version, defect, *rest in found:
        texts, numbers = (app, evaluator, version, *rest[7:]), (at, *rest[:7])
        if all(isinstance(one, str) for one in texts) and all(isinstance(one, int | float) for one in numbers):
            sums.append(MinuteSums(at, app, evaluator, version, bool(defect), *rest))
    return sums


def _past_result(body: bytes) -> PastResult:
    fields = load(body)
    return PastResult(**{**fields, "inputs": tuple(fields["inputs"])})
