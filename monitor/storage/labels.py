"""Labels on disk: what people said about the judges' results, and what they said before they changed their mind.

They are kept until someone deletes them, longer than the results. Each has a copy of what the judge said at that time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from monitor.clock import Clock
from monitor.errors import InvalidData
from monitor.model.label import LATEST, Label, LabelDraw, LabelVerdict, ReviewDraw
from monitor.privacy.erasure import ErasureMarks
from monitor.storage.damage import Repaired
from monitor.storage.erasing import erasing
from monitor.storage.sqlite import Database, Format, ReadOnly, SetAside, used_bytes

MOST: Final = 1_000_000
"""Labels kept; beyond this number further ones are refused."""
MOST_BYTES: Final = 1024**3
LONGEST_COMMENT: Final = 4_000
"""Characters of one comment."""
CHANGES_AT_MOST: Final = 20
"""Earlier labels of one result by one reviewer that are kept; the oldest are deleted first."""

_LONGEST_NAME: Final = 512
_FAULTS: Final = (ValueError, TypeError)
_COLUMNS: Final = tuple(one.name for one in fields(Label))
_DRAW_COLUMNS: Final = tuple(one.name for one in fields(ReviewDraw))
_OF_DRAW: Final = ", ".join(_DRAW_COLUMNS)
_NAMED: Final = ", ".join(_COLUMNS)
_DECLARED: Final = """
  result_id TEXT NOT NULL, request_id TEXT NOT NULL, app TEXT NOT NULL, evaluator TEXT NOT NULL, version TEXT NOT NULL,
  reviewer TEXT NOT NULL, verdict TEXT NOT NULL, judged_defect INTEGER NOT NULL, at REAL NOT NULL, draw TEXT NOT NULL,
  probability REAL, level TEXT, comment TEXT NOT NULL, score REAL, weight REAL NOT NULL, user TEXT NOT NULL,
  answered_at REAL NOT NULL"""

_TABLES: Final = ("labels", "changes", "draws")
FORMAT: Final = Format(
    1,
    f"""
CREATE TABLE IF NOT EXISTS labels (n INTEGER PRIMARY KEY, {_DECLARED}, UNIQUE (result_id, reviewer));
CREATE TABLE IF NOT EXISTS changes (n INTEGER PRIMARY KEY, {_DECLARED});
CREATE TABLE IF NOT EXISTS draws (
  result_id TEXT PRIMARY KEY, request_id TEXT NOT NULL, app TEXT NOT NULL, evaluator TEXT NOT NULL,
  version TEXT NOT NULL, draw TEXT NOT NULL, probability REAL NOT NULL, at REAL NOT NULL, user TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS labels_by_evaluator ON labels (evaluator, version, at);
CREATE INDEX IF NOT EXISTS labels_by_request ON labels (request_id);
CREATE INDEX IF NOT EXISTS labels_by_user ON labels (user) WHERE user <> '';
CREATE INDEX IF NOT EXISTS changes_by_result ON changes (result_id, reviewer);
CREATE INDEX IF NOT EXISTS changes_by_request ON changes (request_id);
""",
)
"""`changes`: labels that their reviewer has replaced. `draws`: results that were drawn for review."""


class LabelCount(NamedTuple):
    """The number of labels of one app, evaluator and version, and of the results that they are about."""

    app: str
    evaluator: str
    version: str
    draw: LabelDraw
    verdict: LabelVerdict
    labels: int


class LabelReader:
    """Reads the file `path` while any process writes it. Its methods block and raise `MonitorError`.

    Without a file there are no labels.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._query: Callable[..., list[tuple[Any, ...]]] = ReadOnly(path, FORMAT, name="the labels").query

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self._path.exists()

    def of_result(self, result_id: str) -> list[Label]:
        """Return the labels of a result, one for each reviewer, the oldest first."""
        return self._labels("labels", "result_id = ?", [result_id])

    def of_request(self, request_id: str) -> list[Label]:
        """Return the labels of all results of a request, the oldest first."""
        return self._labels("labels", "request_id = ?", [request_id])

    def changes_of(self, result_id: str) -> list[Label]:
        """Return the labels of a result that their reviewers have replaced, the oldest first."""
        return self._labels("changes", "result_id = ?", [result_id])

    def find(
        self,
        *,
        app: str | None = None,
        evaluator: str | None = None,
        version: str | None = None,
        reviewer: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[Label]:
        """Return the labels from the wall-clock second `since` on, oldest first; with `limit`, only the newest.

        `app`, `evaluator`, `version` and `reviewer` restrict them; None means any.
        """
        only = {"app": app, "evaluator": evaluator, "version": version, "reviewer": reviewer}
        where = [f"{column} = ?" for column, value in only.items() if value is not None]
        values: list[Any] = [_text(value) for value in only.values() if value is not None]
        if since is not None:
            where, values = [*where, "at >= ?"], [*values, since]
        return self._labels("labels", " AND ".join(where) or "1", values, limit)

    def counts(self) -> list[LabelCount]:
        """Count the labels by app, evaluator, version, draw and verdict."""
        if self._is_new():
            return []
        sql = "SELECT app, evaluator, version, draw, verdict, count(*) FROM labels GROUP BY 1, 2, 3, 4, 5"
        found = []
        for app, evaluator, version, draw, verdict, number in self._query(sql):
            with suppress(*_FAULTS):  # damaged bytes that SQLite does not notice
                found.append(LabelCount(app, evaluator, version, LabelDraw(draw), LabelVerdict(verdict), number))
        return found

    def draws(self, app: str, evaluator: str, version: str) -> list[ReviewDraw]:
        """Return the results that were drawn for review, the oldest first."""
        return self._draws("app = ? AND evaluator = ? AND version = ?", [_text(app), evaluator, version])

    def draw_of(self, result_id: str) -> ReviewDraw | None:
        """Return how a result was drawn; None if it was not."""
        return next(iter(self._draws("result_id = ?", [result_id])), None)

    def _draws(self, where: str, values: list[Any]) -> list[ReviewDraw]:
        if self._is_new():
            return []
        found = []
        for row in self._query(f"SELECT {_OF_DRAW} FROM draws WHERE {where} ORDER BY at, rowid", values):  # noqa: S608 - constants of this file
            with suppress(*_FAULTS):  # as above
                values_of = dict(zip(_DRAW_COLUMNS, row, strict=True))
                number = {name: float(values_of[name]) for name in ("probability", "at")}
                found.append(ReviewDraw(**{**values_of, **number, "draw": LabelDraw(values_of["draw"])}))
        return found

    def _labels(self, table: str, where: str, values: list[Any], limit: int | None = None) -> list[Label]:
        if self._is_new():
            return []
        newest = f"SELECT n FROM {table} WHERE {where} ORDER BY at DESC, n DESC LIMIT ?"  # noqa: S608 - constants of this file
        sql = f"SELECT {_NAMED} FROM {table} WHERE n IN ({newest}) ORDER BY at, n"  # noqa: S608 - as above
        found = []
        for row in self._query(sql, [*values, -1 if limit is None else limit]):
            with suppress(*_FAULTS):  # as above
                found.append(_label(row))
        return found

    def _is_new(self) -> bool:
        """Return whether there is no file, or a process is just creating it."""
        made = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'labels'"
        return not self._path.exists() or not self._query(made)


class LabelStore(LabelReader):
    """Writes the file `path`, and reads it. Its methods block, raise `MonitorError`, and may be called in any thread.

    `repaired` is called after a damaged file was replaced.
    """

    def __init__(self, path: Path, clock: Clock, repaired: Callable[[Repaired], None] = lambda _: None) -> None:
        super().__init__(path)
        self._query = self._read
        self._own = Database(path, FORMAT, name="the labels", clock=clock, repaired=repaired)
        self._forgotten = ErasureMarks(path.parent, clock)

    def put(self, label: Label) -> bool:
        """Keep a label in place of an earlier one by its reviewer, which is kept as a change.

        Returns False, and keeps nothing, if the request is to be forgotten. Raises `InvalidData` for a label that
        cannot be kept: a name or a comment that is too long, an invalid number, or no room.
        """
        checked = _checked(label)
        try:
            return self._put(checked)
        except SetAside:  # write at once into the repaired file
            return self._put(checked)

    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows; for a damaged file, those that could be saved."""
        with suppress(SetAside), self._own.reading() as db:
            return db.execute(sql, values).fetchall()
        with self._own.reading() as db:
            return db.execute(sql, values).fetchall()

    def _put(self, label: Label) -> bool:
        own = (label.result_id, label.reviewer)
        with self._own.transaction() as db:
            # `forget` sets marks before it deletes: if a mark is not seen here, the deletion comes after this write.
            if self._forgotten.holds(label.request_id, label.user, label.answered_at):
                return False
            moved = db.execute(
                f"INSERT INTO changes ({_NAMED}) SELECT {_NAMED} FROM labels WHERE result_id = ? AND reviewer = ?",  # noqa: S608 - constants of this file
                own,
            ).rowcount
            if moved:
                oldest = "SELECT n FROM changes WHERE result_id = ? AND reviewer = ? ORDER BY n DESC LIMIT -1 OFFSET ?"
                db.execute(f"DELETE FROM changes WHERE n IN ({oldest})", (*own, CHANGES_AT_MOST))  # noqa: S608 - as above
            if used_bytes(db) >= MOST_BYTES or (not moved and _number(db) >= MOST):
                raise InvalidData(f"label: no room for more, the limit is {MOST:,} labels and 1 GiB")
            places = ", ".join("?" * len(_COLUMNS))
            db.execute(f"INSERT OR REPLACE INTO labels ({_NAMED}) VALUES ({places})", astuple(label))  # noqa: S608 - as above
        return True

    def keep_draw(self, draw: ReviewDraw) -> bool:
        """Record that a result was drawn. Its existing labels count as measuring from now on.

        Returns False, and records nothing, if it was drawn before or the request is to be forgotten.
        """
        own = replace(draw, app=_text(draw.app), request_id=_text(draw.request_id))
        places = ", ".join("?" * len(_DRAW_COLUMNS))
        with self._own.transaction() as db:
            if self._forgotten.holds(own.request_id, "", 0.0):
                return False
            sql = f"INSERT OR IGNORE INTO draws ({_OF_DRAW}) VALUES ({places})"  # noqa: S608 - constants of this file
            if not db.execute(sql, astuple(own)).rowcount:
                return False
            measured = (own.draw, own.probability, own.result_id)
            db.execute("UPDATE labels SET draw = ?, probability = ? WHERE result_id = ?", measured)
        return True

    def drop_draws(self, before: float) -> None:
        """Drop the draws from before a wall-clock second: their results are no longer kept. Labels stay."""
        with self._own.transaction() as db:
            db.execute("DELETE FROM draws WHERE at < ?", (before,))

    def delete(self, result_id: str, reviewer: str) -> bool:
        """Delete a reviewer's label of a result, with its changes; return whether there was one."""
        own = (result_id, _text(reviewer))
        with self._own.transaction() as db:
            db.execute("DELETE FROM changes WHERE result_id = ? AND reviewer = ?", own)
            return db.execute("DELETE FROM labels WHERE result_id = ? AND reviewer = ?", own).rowcount > 0

    def blank_comments(self, before: float) -> None:
        """Empty the comments from before a wall-clock second: they may quote texts that are no longer kept."""
        with self._own.transaction() as db:
            db.execute("UPDATE labels SET comment = '' WHERE at < ? AND comment <> ''", (before,))
            db.execute("UPDATE changes SET comment = '' WHERE at < ? AND comment <> ''", (before,))

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._own.close()


def requests_of(path: Path, users: Collection[str], user_id: str) -> set[str]:  # noqa: ARG001 - as in other files
    """Find the requests of a user, by pseudonym, among the labels in the file `path`. Raises `MonitorError`."""
    found: set[str] = set()
    with erasing(path, dry_run=True) as eraser:
        for table in _TABLES:
            for user in users if eraser.has(table) else ():
                rows = eraser.db.execute(f"SELECT request_id FROM {table} WHERE user = ?", (user,))  # noqa: S608 - ours
                found.update(request for (request,) in rows)
    return found


def erase(path: Path, traces: Collection[str], *, dry_run: bool) -> dict[str, int]:
    """Delete the labels of these requests from the file `path`, with their changes, beside a running monitor.

    Returns the number of rows by table; deletes nothing with `dry_run`. Raises `MonitorError`.
    """
    with erasing(path, dry_run=dry_run) as eraser:
        for table in _TABLES:
            eraser.delete(table, "request_id", eraser.requests_of(table, "request_id", traces))
    return eraser.rows


def _number(db: Any) -> int:
    return int(db.execute("SELECT count(*) FROM labels").fetchone()[0])


def _checked(label: Label) -> Label:
    """Return a label as it can be stored. Raises `InvalidData`."""
    names = _checked_names(label)
    comment, level = _text(label.comment).strip(), None if label.level is None else _text(label.level)
    if len(comment) > LONGEST_COMMENT:
        raise InvalidData(f"label: the comment has {len(comment):,} characters, the limit is {LONGEST_COMMENT:,}")
    if level is not None and len(level) > _LONGEST_NAME:
        raise InvalidData(f"label: level has {len(level):,} characters, the limit is {_LONGEST_NAME}")
    if not all(map(math.isfinite, (label.at, label.answered_at, label.weight, label.score or 0.0))):
        raise InvalidData("label: at, answered_at, weight and score must be finite numbers")
    if not 0 <= label.at < LATEST:
        raise InvalidData(f"label: at must be between 1970 and the year 9999, not {label.at:g}")
    if label.weight <= 0:
        raise InvalidData(f"label: weight must be above 0, not {label.weight:g}")
    if label.draw.measures != (label.probability is not None):
        raise InvalidData(f"label: a probability belongs to results drawn at random, draw is {label.draw.value}")
    if label.probability is not None and not 0 < label.probability <= 1:
        raise InvalidData(f"label: probability must be above 0 and up to 1, not {label.probability:g}")
    return replace(label, **names, comment=comment, level=level)


def _checked_names(label: Label) -> dict[str, Any]:
    names = {name: _text(getattr(label, name)) for name in _NAMES}
    for name, text in names.items():
        if not text and name not in _MAY_BE_EMPTY:
            raise InvalidData(f"label: {name} is empty")
        if len(text) > _LONGEST_NAME:
            raise InvalidData(f"label: {name} has {len(text):,} characters, the limit is {_LONGEST_NAME}")
    return names


_NAMES: Final = ("result_id", "request_id", "app", "evaluator", "version", "reviewer", "user")
_MAY_BE_EMPTY: Final = ("app", "user")


def _label(row: tuple[Any, ...]) -> Label:
    """Read a label. Raises one of `_FAULTS`."""
    values = dict(zip(_COLUMNS, row, strict=True))
    texts = (*(values[name] for name in _NAMES), values["comment"])
    numbers = [values["at"], values["weight"], values["answered_at"]]
    numbers += [values[name] for name in ("score", "probability") if values[name] is not None]
    if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, int | float) for one in numbers):
        raise TypeError("not a label")
    verdict, draw = LabelVerdict(values["verdict"]), LabelDraw(values["draw"])
    return Label(**{**values, "verdict": verdict, "draw": draw, "judged_defect": bool(values["judged_defect"])})


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
