"""Confirmed severe cases on disk, for the thirty days that a page looks back. No texts, no users.

The id of a request is kept for as long as results are; after that only app, evaluator and time remain.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from monitor.model.severe import SevereCall, SevereCase
from monitor.stages import Runtime
from monitor.statistics.severe_cases import MONTH
from monitor.storage.damage import reporter
from monitor.storage.erasing import erasing
from monitor.storage.sqlite import Database, Format

MOST: Final = 20_000
"""Cases kept; the oldest are deleted first. Long before this number, nothing pages any more."""

_DAY: Final = 86400.0
FORMAT: Final = Format(
    1,
    """
CREATE TABLE IF NOT EXISTS cases (
  n INTEGER PRIMARY KEY, app TEXT NOT NULL, evaluator TEXT NOT NULL, at REAL NOT NULL, request_id TEXT NOT NULL,
  call TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS cases_by_request ON cases (request_id);
""",
)


class SevereCaseFile:
    """The file `path`. Its methods block, raise `MonitorError`, and may be called from any thread.

    `retention` is how many seconds ids of requests are kept.
    """

    def __init__(self, path: Path, retention: float, runtime: Runtime) -> None:
        self._path = path
        self._retention = retention
        self._runtime = runtime
        report = reporter("severe_cases", runtime.events, runtime.metrics)
        self._file = Database(path, FORMAT, name="severe cases", clock=runtime.clock, repaired=report)

    def load(self) -> list[SevereCase]:
        """Return the cases of the last thirty days, oldest first; none if there is no file."""
        if not self._path.exists():
            return []
        since = self._runtime.clock.now() - MONTH - _DAY
        try:
            with self._file.reading() as db:
                rows = db.execute(
                    "SELECT app, evaluator, at, request_id, call FROM cases WHERE at >= ? ORDER BY at, n", [since]
                ).fetchall()
        finally:
            self._file.close()
        found = []
        for app, name, at, ref, call in rows:
            with suppress(ValueError, TypeError):  # damaged bytes that SQLite does not notice
                found.append(SevereCase(app, name, float(at), ref, SevereCall(call) if call else None))
        return found

    def add(self, case: SevereCase) -> None:
        """Add a case and delete what is too old."""
        now = self._runtime.clock.now()
        with self._file.transaction() as db:
            values = (case.app, case.evaluator, case.at, case.request_id, case.call or "")
            db.execute("INSERT INTO cases (app, evaluator, at, request_id, call) VALUES (?, ?, ?, ?, ?)", values)
            db.execute("UPDATE cases SET request_id = '' WHERE at < ? AND request_id <> ''", [now - self._retention])
            oldest = "SELECT max(n) - ? FROM cases"
            db.execute(f"DELETE FROM cases WHERE at < ? OR n <= ({oldest})", [now - MONTH - _DAY, MOST])  # noqa: S608

    def call(self, request_id: str, evaluator: str, call: SevereCall) -> None:
        """Record what a person says about a case."""
        with self._file.transaction() as db:
            db.execute(
                "UPDATE cases SET call = ? WHERE request_id = ? AND evaluator = ?", [call, request_id, evaluator]
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def erase(path: Path, traces: Collection[str], *, dry_run: bool) -> dict[str, int]:
    """Delete the cases of these requests from the file `path`, beside a running monitor.

    Returns the number of rows by table; deletes nothing with `dry_run`. Raises `MonitorError`.
    """
    with erasing(path, dry_run=dry_run) as eraser:
        eraser.delete("cases", "request_id", traces)
    return eraser.rows
