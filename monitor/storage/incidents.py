"""Incidents on disk: their course, the findings about them, their worst answers, and people's notes.

They are kept longer than results. Texts in them come from the history, so they are masked and as short as there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from monitor.clock import Clock
from monitor.errors import InvalidData, MonitorError
from monitor.model.incident import (
    FiredAlert,
    Incident,
    IncidentAnswer,
    IncidentEnd,
    IncidentImpact,
    IncidentNote,
    IncidentOnset,
    IncidentRecord,
    IncidentStep,
    RatePeak,
    as_object,
)
from monitor.privacy import pseudonyms
from monitor.privacy.erasure import ErasureMarks
from monitor.storage.damage import Repaired
from monitor.storage.erasing import Eraser, erasing
from monitor.storage.history.rows import dump, load
from monitor.storage.sqlite import Database, Format, ReadOnly, SetAside, marks, used_bytes

MOST: Final = 1_000
"""Incidents kept; those that ended first are deleted first."""

MOST_BYTES: Final = 64 * 1024**2
NOTES_AT_MOST, LONGEST_NOTE = 100, 4_000
"""Notes of one incident, and characters of one note."""

ANSWERS_AT_MOST: Final = 10
_LONGEST: Final = {"question": 500, "response": 1_500, "explanation": 800, "request_id": 512, "level": 100}
_LONGEST_FINDING: Final = 64 * 1024
_PRUNE_AT_ONCE: Final = 50
_FAULTS: Final = (ValueError, TypeError, KeyError, AttributeError, IndexError)
_ERASED: Final = "[erased]"
_NOTED: Final = ("onset", "changes", "impact")

FORMAT: Final = Format(
    1,
    """
CREATE TABLE IF NOT EXISTS incidents (
  id TEXT PRIMARY KEY, fired REAL NOT NULL, ended REAL, app TEXT NOT NULL, evaluator TEXT NOT NULL, body BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS findings (
  incident TEXT, name TEXT, at REAL NOT NULL, body BLOB NOT NULL, PRIMARY KEY (incident, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (
  n INTEGER PRIMARY KEY, incident TEXT NOT NULL, request_id TEXT NOT NULL, user TEXT NOT NULL, at REAL NOT NULL,
  body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS notes (
  n INTEGER PRIMARY KEY, incident TEXT NOT NULL, at REAL NOT NULL, who TEXT NOT NULL, text TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS incidents_by_time ON incidents (fired);
CREATE INDEX IF NOT EXISTS answers_by_incident ON answers (incident);
CREATE INDEX IF NOT EXISTS answers_by_request ON answers (request_id);
CREATE INDEX IF NOT EXISTS notes_by_incident ON notes (incident);
""",
)
"""`findings`: `onset`, `changes`, `impact`, and the diagnoses by when they were made."""


class IncidentFile:
    """Writes the file `path`. Its methods block, raise `MonitorError`, and may be called from any thread.

    `repaired` is called after a damaged file was replaced.
    """

    def __init__(self, path: Path, clock: Clock, repaired: Callable[[Repaired], None] = lambda _: None) -> None:
        self._clock = clock
        self._file = Database(path, FORMAT, name="the incidents", clock=clock, repaired=repaired)
        self._forgotten = ErasureMarks(path.parent, clock)
        self._folder = path.parent

    def load_open(self) -> list[Incident]:
        """Return the open incidents, oldest first."""
        with self._file.reading() as db:
            rows = db.execute("SELECT body FROM incidents WHERE ended IS NULL ORDER BY fired").fetchall()
        found = []
        for (body,) in rows:
            with suppress(*_FAULTS):  # damaged bytes that SQLite does not notice
                found.append(_incident(load(body)))
        return found

    def save(self, one: Incident) -> None:
        """Write the course of an incident."""
        values = (one.id, one.fired, one.ended, _text(one.app), _text(one.evaluator), dump(as_object(one)))
        try:
            self._save(values)
        except SetAside:  # write at once into the repaired file
            self._save(values)

    def _save(self, values: tuple[Any, ...]) -> None:
        with self._file.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO incidents (id, fired, ended, app, evaluator, body) VALUES (?, ?, ?, ?, ?, ?)",
                values,
            )

    def keep_finding(self, incident: str, name: str, found: Mapping[str, Any], requests: Collection[str] = ()) -> None:
        """Keep a finding in place of an earlier one of the same name, unless it is too large.

        A finding is also left out if any of its `requests` is to be forgotten.
        """
        body = dump(dict(found))
        if len(body) <= _LONGEST_FINDING:
            with self._file.transaction() as db:
                if any(self._forgotten.holds(one, "", 0.0) for one in requests):
                    return
                db.execute(
                    "INSERT OR REPLACE INTO findings (incident, name, at, body) VALUES (?, ?, ?, ?)",
                    (incident, name, self._clock.now(), body),
                )

    def keep_answers(self, incident: str, answers: Sequence[IncidentAnswer]) -> None:
        """Keep the worst answers in place of earlier ones. Answers that are to be forgotten are left out."""
        users = pseudonyms.at_hand(self._folder)
        with self._file.transaction() as db:
            # `forget` sets marks before it deletes: if a mark is not seen here, the deletion comes after this write.
            wanted = [one for one in answers if not self._forgotten.holds(one.request_id, users.of(one.user), one.at)][
                :ANSWERS_AT_MOST
            ]
            db.execute("DELETE FROM answers WHERE incident = ?", (incident,))
            db.executemany(
                "INSERT INTO answers (incident, request_id, user, at, body) VALUES (?, ?, ?, ?, ?)",
                [(incident, _text(one.request_id), users.of(one.user), one.at, _body(one)) for one in wanted],
            )

    def note(self, incident: str, note: IncidentNote) -> bool:
        """Add a note; return whether there is such an incident.

        Raises `InvalidData` for a note that is empty or too long, or if the incident has too many notes.
        """
        text = _text(note.text).strip()
        if not text:
            raise InvalidData("note: is empty")
        if len(text) > LONGEST_NOTE:
            raise InvalidData(f"note: {len(text):,} characters are too many, the limit is {LONGEST_NOTE:,}")
        with self._file.transaction() as db:
            if db.execute("SELECT 1 FROM incidents WHERE id = ?", (incident,)).fetchone() is None:
                return False
            if db.execute("SELECT count(*) FROM notes WHERE incident = ?", (incident,)).fetchone()[0] >= NOTES_AT_MOST:
                raise InvalidData(f"note: this incident has {NOTES_AT_MOST} notes already")
            values = (incident, note.at, _text(note.who)[:200], text)
            db.execute("INSERT INTO notes (incident, at, who, text) VALUES (?, ?, ?, ?)", values)
        return True

    def tidy(self, before: float, *, texts_before: float | None = None) -> None:
        """Delete what ended before `before`, and the oldest beyond the limits of number and size.

        Answers from before `texts_before` lose their texts, and older diagnoses are deleted: they may contain words.
        """
        with self._file.transaction() as db:
            over = "SELECT id FROM incidents WHERE ended IS NOT NULL"
            gone = db.execute(f"{over} AND ended < ? LIMIT ?", (before, _PRUNE_AT_ONCE)).fetchall()
            number = db.execute("SELECT count(*) FROM incidents").fetchone()[0]
            excess = max(number - MOST, _PRUNE_AT_ONCE if used_bytes(db) > MOST_BYTES else 0)
            gone += db.execute(f"{over} ORDER BY ended LIMIT ?", (excess,)).fetchall()
            for table, column in (("incidents", "id"), ("findings", "incident"), ("answers", "incident")):
                db.executemany(f"DELETE FROM {table} WHERE {column} = ?", gone)  # noqa: S608 - as above
            db.executemany("DELETE FROM notes WHERE incident = ?", gone)
            if texts_before is not None:
                _blank(db, texts_before)
                lasting = f"name NOT IN ({marks(_NOTED)})"
                db.execute(f"DELETE FROM findings WHERE at < ? AND {lasting}", (texts_before, *_NOTED))  # noqa: S608 - as above

    def repaired(self) -> bool:
        """Check the whole file after a reader has met damage; return whether it was replaced."""
        return self._file.suspect()

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._file.close()


class IncidentReader:
    """Reads the file `path` while any process writes it. Its methods block and raise `MonitorError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = ReadOnly(path, FORMAT, name="the incidents")

    def newest(
        self,
        *,
        since: float = 0.0,
        until: float | None = None,
        app: str | None = None,
        only_open: bool = False,
        limit: int = 200,
    ) -> list[IncidentRecord]:
        """Return incidents that were open at some time from `since` up to `until`, newest first.

        `only_open`: only those that have not ended. Diagnoses and answers are left out. Empty if there is no file.
        """
        if self._is_new():
            return []
        where, values = ("i.ended IS NULL", []) if only_open else ("(i.ended IS NULL OR i.ended >= ?)", [since])
        if until is not None:
            where, values = f"{where} AND i.fired < ?", [*values, until]
        only: list[Any] = [*values] if app is None else [*values, app]
        where = where if app is None else f"{where} AND i.app = ?"
        found = self._file.query(
            "SELECT i.id, i.body, o.body, c.body, m.body FROM incidents AS i"  # noqa: S608 - constants
            " LEFT JOIN findings AS o ON o.incident = i.id AND o.name = 'onset'"
            " LEFT JOIN findings AS c ON c.incident = i.id AND c.name = 'changes'"
            " LEFT JOIN findings AS m ON m.incident = i.id AND m.name = 'impact'"
            f" WHERE {where} ORDER BY i.fired DESC LIMIT ?",
            [*only, limit],
        )
        records = []
        for _, body, *parts in found:
            with suppress(*_FAULTS):  # damaged bytes that SQLite does not notice
                records.append(_record(body, {name: one for name, one in zip(_NOTED, parts, strict=True) if one}))
        return records

    def find(self, incident: str) -> IncidentRecord | None:
        """Return an incident with everything kept about it, or None."""
        if self._is_new():
            return None
        found, parts, bodies, notes = self._file.query_at_once(
            ("SELECT body FROM incidents WHERE id = ?", [incident]),
            ("SELECT name, body FROM findings WHERE incident = ?", [incident]),
            ("SELECT body FROM answers WHERE incident = ? ORDER BY n", [incident]),
            ("SELECT at, who, text FROM notes WHERE incident = ? ORDER BY at, n", [incident]),
        )
        if not found:
            return None
        try:
            record = _record(found[0][0], dict(parts))
        except _FAULTS as error:
            raise MonitorError(f"the incident {incident} is damaged: {error}") from None
        answers = []
        for (body,) in bodies:
            with suppress(*_FAULTS):  # as above
                answers.append(IncidentAnswer(**load(body)))
        return replace(record, answers=answers, notes=[IncidentNote(*one) for one in notes])

    def _is_new(self) -> bool:
        """Return whether there is no file, or a process is just creating it."""
        made = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'incidents'"
        return not self._path.exists() or not self._file.query(made)


def users_of(path: Path, users: Collection[str], user_id: str) -> set[str]:  # noqa: ARG001 - as in other files
    """Find the requests of a user, by pseudonym, among the answers in the file `path`. Raises `MonitorError`."""
    with erasing(path, dry_run=True) as eraser:
        found: set[str] = set()
        for user in users if eraser.has("answers") else ():
            rows = eraser.db.execute("SELECT request_id FROM answers WHERE user = ?", (user,))
            found.update(request for (request,) in rows)
    return found


def erase(path: Path, ids: Collection[str], *, dry_run: bool) -> dict[str, int]:
    """Delete the answers of these requests from the file `path`, beside a running monitor.

    In notes and diagnoses, `[erased]` replaces each of `ids`, requests or users. Returns the number of rows by table;
    changes nothing with `dry_run`. Raises `MonitorError`.
    """
    with erasing(path, dry_run=dry_run) as eraser:
        ids = eraser.requests_of("answers", "request_id", ids)
        eraser.delete("answers", "request_id", ids)
        eraser.delete("answers", "user", ids)
        named = re.compile("|".join(rf"(?<![\w-]){re.escape(one)}(?![\w-])" for one in sorted(ids, key=len) if one))
        if ids:
            _replace(eraser, "notes", "n", "text", named, dry_run=dry_run)
            _replace(eraser, "findings", "incident || char(31) || name", "body", named, dry_run=dry_run)
    return eraser.rows


def _replace(eraser: Eraser, table: str, key: str, column: str, named: re.Pattern[str], *, dry_run: bool) -> None:
    if not eraser.has(table):
        return
    rows = eraser.db.execute(f"SELECT {key}, {column} FROM {table}").fetchall()  # noqa: S608 - constants of this file
    for place, text in rows:
        was = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        now = named.sub(_ERASED, was)
        if now == was:
            continue
        eraser.rows[table] = eraser.rows.get(table, 0) + 1
        if not dry_run:
            value = now.encode() if isinstance(text, bytes) else now
            eraser.db.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, place))  # noqa: S608 - as above


def _blank(db: Any, before: float) -> None:
    for n, body in db.execute("SELECT n, body FROM answers WHERE at < ?", (before,)).fetchall():
        with suppress(*_FAULTS):
            one = load(body)
            empty = {**one, "question": None, "response": None, "explanation": ""}
            if empty != one:
                db.execute("UPDATE answers SET body = ? WHERE n = ?", (dump(empty), n))


def _body(one: IncidentAnswer) -> bytes:
    row: dict[str, Any] = as_object(one)
    for name, longest in _LONGEST.items():
        if isinstance(text := row[name], str) and len(text) > longest:
            row[name] = f"{text[: longest - 1]}\u2026"
    return dump(row)


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _record(body: bytes, parts: Mapping[str, bytes]) -> IncidentRecord:
    """Read an incident and its findings. Raises one of `_FAULTS`."""
    rows = {}
    for name, part in parts.items():
        with suppress(*_FAULTS):
            rows[name] = load(part)
    onset, changes, impact = (rows.pop(name, None) for name in _NOTED)
    return IncidentRecord(
        incident=_incident(load(body)),
        onset=IncidentOnset(**onset) if onset else None,
        changes=[IncidentStep(**one) for one in changes["steps"]] if changes else (),
        impact=IncidentImpact(**impact) if impact else None,
        diagnoses=rows,
    )


def _incident(row: dict[str, Any]) -> Incident:
    return Incident(
        **{
            **row,
            "alerts": tuple(FiredAlert(**one) for one in row["alerts"]),
            "steps": tuple(IncidentStep(**one) for one in row["steps"]),
            "peak": RatePeak(**row["peak"]) if row["peak"] else None,
            "end": IncidentEnd(row["end"]) if row["end"] else None,
        }
    )
