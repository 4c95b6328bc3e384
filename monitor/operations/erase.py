"""Erases one request, or all requests of one user, from everything that a monitor has stored.

erase(config, user="u-4711", dry_run=True).rows  # {"history.db, results": 12, ...}
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from monitor.clock import Clock, SystemClock
from monitor.config.model import Config
from monitor.errors import ConfigError, MonitorError
from monitor.jobs.backfill import store as backfill
from monitor.operations.diagnosis import as_id
from monitor.operations.storage_folder import refuse_newer, require_state
from monitor.privacy import audit, erasure, pseudonyms
from monitor.sinks.history import HistorySink
from monitor.storage import files, incidents, labels, severe_cases
from monitor.storage.damage import damaged_copies
from monitor.storage.history import erasing as history
from monitor.storage.request_log import store as request_log
from monitor.storage.spool import poison
from monitor.storage.spool import retained as deliveries
from monitor.telemetry.events import Event

SETTLE: Final = 1.5
"""Seconds within which a running monitor reads the marks, so that nothing is stored again after its deletion."""

_LEAST_RETENTION: Final = 7 * 86400.0


class _Store(NamedTuple):
    """A file, and the functions that erase requests in it (returns rows by table) and find the requests of a user.

    A user is given by pseudonyms and the id.
    """

    path: Path
    erase: Callable[..., dict[str, int]]
    traces_of: Callable[[Path, Collection[str], str], set[str]] = lambda _path, _users, _user: set()


@dataclass(frozen=True, slots=True)
class Erased:
    """What was deleted or, with `dry_run`, would be.

    `rows` counts rows by file and table, `requests` the requests that they belonged to. `copies` names places outside
    the storage folder that may have copies; `damaged` lists files that were set aside and may contain more. Both are
    left unchanged.
    """

    rows: Mapping[str, int]
    requests: int
    copies: Sequence[str]
    damaged: Sequence[Path]


def erase(
    config: Config, *, trace: str = "", user: str = "", dry_run: bool = False, clock: Clock | None = None
) -> Erased:
    """Delete a request by its trace id (or the `request_id` of a row), or all requests of a user.

    A running monitor continues, and drops its work in progress on these requests. Sums per minute are kept. With
    `dry_run` nothing is deleted. Raises `ConfigError` unless exactly one of `trace` and `user` is given; if the folder
    is not a monitor's storage folder or was written by a newer version; and if a file cannot be read or written: the
    deletion may then be incomplete.
    """
    if bool(trace) == bool(user):
        raise ConfigError("give either a trace or a user")
    now = (clock or SystemClock()).now()
    named = {trace, as_id(trace)} - {""}  # as it stands, too: a row may be called anything
    folder = config.storage.path
    require_state(folder)
    refuse_newer(folder)
    stores = _stores(config)
    folders = {folder, *(one.path.parent for one in stores)}
    retained = folder / files.RETAINED
    rows: dict[str, int] = {}
    try:
        users = _pseudonyms(user, folders)
        if not dry_run:  # before anything is deleted: work in progress must not be stored again
            for at in folders:
                if at.is_dir():
                    _mark(at, named, users, now, max(config.storage.retention, _LEAST_RETENTION))
            time.sleep(SETTLE)
        traces = named or set().union(*(one.traces_of(one.path, users, user) for one in stores))
        if retained.exists():
            rows |= _named(retained, deliveries.erase(retained, {*traces, user}, dry_run=dry_run))
        aside = folder / poison.FOLDER
        rows |= _named(aside, poison.erase(aside, {*traces, user}, dry_run=dry_run))
        for one in stores:
            sought = {*traces, *users, user} - {""} if one.path.name == files.INCIDENTS else traces
            rows |= _named(one.path, one.erase(one.path, sought, dry_run=dry_run))
    except (MonitorError, OSError) as error:
        raise ConfigError(f"storage.path: deletion incomplete: {error}") from None
    if not dry_run and folder.is_dir():
        ids = {"requests": sorted(traces)} if trace else {"users": sorted(users), "requests": sorted(traces)}
        audit.record(folder, Event.TEXTS_FORGOTTEN, rows=sum(rows.values()), **ids)
    copies = [*(sink.external_copies() for sink in config.sinks), *(one.external_copies() for one in config.sources)]
    kept = (config.storage.path / files.SPOOL, *(one.path for one in stores))
    damaged = [copy for path in kept for copy in damaged_copies(path)]
    return Erased(rows, (1 if trace else len(traces)) if rows else 0, [name for name in copies if name], damaged)


def _named(path: Path, rows: Mapping[str, int]) -> dict[str, int]:
    return {f"{path.name}, {table}": number for table, number in rows.items()}


def _pseudonyms(user: str, folders: set[Path]) -> set[str]:
    if not user:
        return set()
    keys = [pseudonyms.load(folder) for folder in sorted(folders)]
    return {key.of(user) for key in keys if key is not None}


def _mark(folder: Path, traces: set[str], users: set[str], now: float, retention: float) -> None:
    marks = [erasure.Mark(now, trace=trace) for trace in sorted(traces)]
    marks += [erasure.Mark(now, user=user) for user in sorted(users)]
    if marks:
        erasure.add(folder, marks, since=now - retention)


def _stores(config: Config) -> list[_Store]:
    """Return the files that exist, each with the functions that find and erase requests in it."""
    folder = config.storage.path
    own = [
        _Store(folder / files.HISTORY, history.erase, history.traces_of),
        _Store(
            folder / files.BACKFILL, backfill.erase, lambda path, users, user: backfill.traces_of(path, {user, *users})
        ),
        _Store(folder / files.REQUEST_LOG, request_log.erase),
        _Store(folder / files.SEVERE_CASES, severe_cases.erase),
        _Store(folder / files.INCIDENTS, incidents.erase, incidents.users_of),
        _Store(folder / files.LABELS, labels.erase, labels.requests_of),
    ]
    others = (sink.path for sink in config.sinks if isinstance(sink, HistorySink))
    found = {one.path: one for one in (*own, *(_Store(path, history.erase, history.traces_of) for path in others))}
    return [one for one in found.values() if one.path.exists()]
