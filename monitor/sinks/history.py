"""Results in a local SQLite database: what the page shows, and what alert windows are restored from after a restart."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import anyio.lowlevel
import anyio.to_thread
from pydantic import Field

from monitor.errors import ConfigError, MonitorError
from monitor.model.generation import Known
from monitor.model.outcome import Judged
from monitor.privacy import pseudonyms
from monitor.privacy.erasure import Forgotten
from monitor.quantities import Duration, Size
from monitor.sinks._batches import batching
from monitor.sinks._erasing import blank
from monitor.sinks._results import Reader, Sums, create, insert, prune
from monitor.sinks._search import Search
from monitor.spool.files import make_private
from monitor.spool.salvage import set_aside
from monitor.stages import Deliver, Lesson, Runtime, Sink
from monitor.telemetry.events import Event

__all__ = ["History", "Sums"]

Texts: TypeAlias = Literal["all", "verdicts", "none"]

_TIDY_EVERY = 60.0
_AT_ONCE = 100  # lessons between which others have their turn


class History(Sink):
    """Keep results for the page and for restarts."""

    memory: ClassVar[Literal["none", "process", "fleet"]] = "process"

    path: Path | None = None
    """The database file. Default: `history.db` in the storage folder."""

    retention: Duration = Field(default=7 * 86400.0, gt=0)
    """How long a result is kept."""

    sums_retention: Duration = Field(default=30 * 86400.0, gt=0)
    """How long the sums by the minute are kept, which the windows of alerts are restored from."""

    max_size: Size = Field(default=1024**3, gt=0)
    """What the database may take; beyond it the oldest results go first."""

    texts: Texts = "verdicts"
    """`all`: question, context and answer are kept, to be shown. `verdicts`: only the verdict with its reasons, which
    may quote them. `none`: verdicts and numbers, and no word of anybody."""

    texts_retention: Duration | None = Field(default=None, gt=0)
    """How long texts are kept, reasons of verdicts among them; after that a result is left as if `texts` were `none`.
    Default: as long as the result itself."""

    def open(self, runtime: Runtime) -> AbstractAsyncContextManager[Deliver]:
        """Raises `ConfigError` where the path cannot work; delivering raises `MonitorError` where it fails.

        A result is safe from a crash of the process when it is delivered; a power cut may cost the last seconds.
        """
        writer = _Writer(self, self._file(), runtime)
        return batching(writer.write, name="history", start=writer.open, stop=writer.close, every=_TIDY_EVERY)

    async def recall(self, heard: Callable[[Lesson], None], runtime: Runtime) -> None:  # noqa: ARG002 - the contract's
        """The newest 5,000 verdicts that samplers have learned from, oldest first."""
        for number, lesson in enumerate(await anyio.to_thread.run_sync(self._reader.lessons)):
            heard(lesson)
            if number % _AT_ONCE == 0:
                await anyio.lowlevel.checkpoint()

    async def results(
        self, *, app: str | None = None, evaluator: str | None = None, since: float = 0.0, limit: int = 100
    ) -> list[dict[str, Any]]:
        """The newest results of any outcome, newest first; rows of the schema in `monitor/sinks/_rows.py`.

        This and the other queries read the file, whoever writes it; they raise `MonitorError` where they cannot.
        """
        query = partial(self._reader.results, app=app, evaluator=evaluator, since=since, limit=limit)
        return await anyio.to_thread.run_sync(query)

    async def worst(
        self,
        *,
        app: str | None = None,
        evaluator: str | None = None,
        since: float = 0.0,
        limit: int = 10,
        better: Literal["higher", "lower"] = "higher",
    ) -> list[dict[str, Any]]:
        """The worst scores: defects first, then from the bad end of the scale, `better` being its good end."""
        query = partial(self._reader.worst, app=app, evaluator=evaluator, since=since, limit=limit, better=better)
        return await anyio.to_thread.run_sync(query)

    async def search(self, **wanted: Any) -> list[dict[str, Any]]:
        """Results by any of the fields of `_search.Search`, worst or newest first."""
        return await anyio.to_thread.run_sync(self._reader.search, Search(**wanted))

    async def by_trace(self, trace_id: str) -> list[dict[str, Any]]:
        """All results of one trace (its id in hex), oldest first."""
        return await anyio.to_thread.run_sync(self._reader.by_trace, trace_id)

    async def sums_since(self, since: float) -> list[Sums]:
        """Scored results summed by the minute, oldest first, from the minute that holds `since` (wall clock) on.

        Those of each version of an evaluator are summed apart.
        """
        return await anyio.to_thread.run_sync(self._reader.sums_since, since)

    async def hourly_sums(self, since: float, until: float) -> list[Sums]:
        """The same by the hour, from the hour that holds `since` up to, and without, the one that holds `until`."""
        return await anyio.to_thread.run_sync(self._reader.hourly_sums, since, until)

    async def verdicts(self, ids: Collection[str]) -> set[str]:
        """Which results, by id, are there and not `unscored`; none where there is no history yet."""
        return await anyio.to_thread.run_sync(self._reader.verdicts, ids) if self._file().exists() else set()

    async def generations(self) -> list[Known]:
        """The versions that verdicts came from so far."""
        return await anyio.to_thread.run_sync(self._reader.generations)

    @property
    def _reader(self) -> Reader:
        return Reader(self._file())

    def _file(self) -> Path:
        if self.path is None:
            raise ConfigError("history: path: must be set where there is no storage folder")
        return self.path


class _Writer:
    def __init__(self, options: History, path: Path, runtime: Runtime) -> None:
        self._options = options
        self._path = path
        self._clock = runtime.clock
        self._events = runtime.events
        self._db: sqlite3.Connection | None = None
        self._users: pseudonyms.UserKey | None = None
        self._said = False
        self._forgotten = Forgotten(path.parent)
        self._tidied = float("-inf")

    def open(self) -> None:
        try:
            make_private(self._path)
        except OSError as error:
            raise ConfigError(f"history: path: {self._path} cannot be opened: {error.strerror}") from None
        with contextlib.suppress(MonitorError):  # it is tried again with the first result, which then hears of it
            self._connection()

    def write(self, results: list[Judged]) -> None:
        """One transaction for all of these. Raises `MonitorError`: none was written."""
        db = self._connection()
        try:
            db.execute("BEGIN IMMEDIATE")
            texts = self._options.texts
            wanted = [one for one in results if not self._is_forgotten(one)]
            insert(db, wanted, texts=texts == "all", quotes=texts != "none", users=self._users)
            erased = self._tidy(db)
            db.execute("COMMIT")
            if erased:
                _fold_in(db)
        except sqlite3.Error as error:
            raise MonitorError(f"history: {self._path} cannot be written: {error}") from error
        finally:
            if db.in_transaction:
                self.close()  # and with it what was half done; the next call opens it anew

    def _is_forgotten(self, one: Judged) -> bool:
        """It was judged, or on its way here, while somebody asked for it to be forgotten."""
        user = self._users.of(one.case.user_id) if self._users is not None else ""
        return self._forgotten.holds(one.case.request_id, user, one.case.answered_at or one.judged_at)

    def close(self) -> None:
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            self._db = None

    def _connection(self) -> sqlite3.Connection:
        if self._users is None:
            self._learn_users()
        if self._db is None:
            try:
                self._db = create(self._path)
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                    raise MonitorError(f"history: {self._path} cannot be opened: {error}") from error
                self._db = self._begin_afresh(error)
        return self._db

    def _learn_users(self) -> None:
        """Without the key results are kept all the same; only nobody can ask for those of one user."""
        try:
            self._users = pseudonyms.load_or_make(self._path.parent)
        except OSError as error:
            if not self._said:
                self._events.warning(Event.SINK_FAILED, f"whose results are kept cannot be noted: {error}")
            self._said = True

    def _begin_afresh(self, error: Exception) -> sqlite3.Connection:
        try:
            aside = set_aside(self._path, self._clock.now())
            make_private(self._path)
            made = create(self._path)
        except (OSError, sqlite3.Error) as again:
            raise MonitorError(f"history: {self._path} is damaged and cannot be replaced: {again}") from again
        message = f"the history was damaged ({error}); it is kept aside and a new one is begun"
        self._events.error(Event.SINK_FAILED, message, path=str(self._path), aside=str(aside))
        return made

    def _tidy(self, db: sqlite3.Connection) -> bool:
        """Delete what is too old, now and then; whether this was such a time."""
        now = self._clock.monotonic()
        if now - self._tidied < _TIDY_EVERY:
            return False
        wall = self._clock.now()
        more = prune(
            db,
            before=wall - self._options.retention,
            sums_before=wall - self._options.sums_retention,
            at_most=self._options.max_size,
        )
        if self._options.texts_retention is not None:
            more = blank(db, wall - self._options.texts_retention) or more
        if not more:
            self._tidied = now
        return True


def _fold_in(db: sqlite3.Connection) -> None:
    """Empty the write-ahead log, in which what was erased still stands. Where somebody is reading, the next time."""
    with contextlib.suppress(sqlite3.Error):  # what was to be written is written
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA busy_timeout = 5000")
