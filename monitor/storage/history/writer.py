"""Writing the history from a thread: transactions, retention of results and of their texts, marks of erasure."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from monitor.errors import ConfigError, MonitorError
from monitor.model.outcome import EvaluationResult
from monitor.privacy import pseudonyms
from monitor.privacy.erasure import ErasureMarks
from monitor.stages import Runtime
from monitor.storage.damage import reporter
from monitor.storage.files import make_private, why_not_opened
from monitor.storage.history.erasing import blank
from monitor.storage.history.settings import HistoryOptions
from monitor.storage.history.tables import FORMAT, insert, prune
from monitor.storage.sqlite import Database, SetAside, empty_log
from monitor.telemetry.events import Event

TIDY_EVERY: Final = 60.0
"""Seconds between two deletions of old data."""


class Writer:
    """Writes the history `path`. Its methods block; call them from one thread at a time."""

    def __init__(self, path: Path, options: HistoryOptions, runtime: Runtime) -> None:
        self._path = path
        self._options = options
        self._clock = runtime.clock
        self._events = runtime.events
        report = reporter("history", runtime.events, runtime.metrics)
        self._file = Database(path, FORMAT, name="the history", clock=runtime.clock, repaired=report)
        self._users: pseudonyms.UserKey | None = None
        self._said = False
        self._forgotten = ErasureMarks(path.parent, runtime.clock)
        self._tidied = float("-inf")

    def open(self) -> None:
        """Create or open the file. Raises `ConfigError` if the path cannot work."""
        try:
            make_private(self._path)
        except OSError as error:
            raise ConfigError(f"path: {self._path} cannot be opened: {why_not_opened(self._path, error)}") from None
        try:
            with self._file.reading():
                self._load_users()
        except ConfigError:
            raise
        except MonitorError:  # the first result tries again, and fails with a message if it still cannot be opened
            pass

    def write(self, results: list[EvaluationResult]) -> None:
        """Write all results in one transaction. Raises `MonitorError`; nothing is written then."""
        self._load_users()
        try:
            erased = self._insert(results)
        except SetAside:  # write at once into the repaired file
            erased = self._insert(results)
        if erased:
            with suppress(MonitorError), self._file.reading() as db:
                empty_log(db)

    def repaired(self) -> bool:
        """Check the whole file after a reader has met damage; return whether it was replaced. For any thread."""
        return self._file.suspect()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _insert(self, results: list[EvaluationResult]) -> bool:
        """Write in one transaction; return whether some rows were deleted."""
        with self._file.transaction() as db:
            texts = self._options.texts
            wanted = [one for one in results if not self._is_forgotten(one)]
            insert(db, wanted, texts=texts == "all", quotes=texts != "none", users=self._users)
            return self._tidy(db)

    def _is_forgotten(self, one: EvaluationResult) -> bool:
        """Return whether a result's request was erased during its evaluation or on its way here."""
        user = self._users.of(one.case.user_id) if self._users is not None else ""
        return self._forgotten.holds(one.case.request_id, user, one.case.answered_at or one.evaluated_at)

    def _load_users(self) -> None:
        """Load the key of pseudonyms. Without it results are still kept, but cannot be found by user."""
        if self._users is not None:
            return
        try:
            self._users = pseudonyms.load_or_make(self._path.parent)
        except OSError as error:
            if not self._said:
                self._events.warning(Event.SINK_FAILED, f"cannot record the users of results: {error}")
            self._said = True

    def _tidy(self, db: sqlite3.Connection) -> bool:
        """Delete old data, at intervals; return whether this call did."""
        now = self._clock.monotonic()
        if now - self._tidied < TIDY_EVERY:
            return False
        wall, options = self._clock.now(), self._options
        limits = {"before": wall - options.retention, "sums_before": wall - options.sums_retention}
        more = prune(db, **limits, at_most=options.max_size)
        if options.texts_retention is not None:
            more = blank(db, wall - options.texts_retention) or more
            if options.texts != "none":
                db.execute("DELETE FROM features WHERE at < ?", (wall - options.texts_retention,))
        if not more:
            self._tidied = now
        return True
