"""What `rag-monitor forget` deletes, where, and what it cannot reach."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from monitor.backfill import store as backfill
from monitor.config.model import Config
from monitor.errors import ConfigError, MonitorError
from monitor.privacy import audit, erasure, pseudonyms
from monitor.sinks.history import History
from monitor.stages import type_name
from monitor.storage import files
from monitor.storage.history import erasing as history
from monitor.storage.request_log import store as request_log
from monitor.storage.spool import retained as deliveries
from monitor.storage.sqlite import damaged_copies
from monitor.telemetry.events import Event

SETTLE: Final = 1.5
"""Seconds until a running monitor has surely read the marks, so that nothing is kept after it was deleted."""

_KEPT_LEAST: Final = 7 * 86400.0
_PLACES: Final = ("path", "url", "endpoint", "brokers", "topic")


class _Erase(Protocol):
    """Deletes what a file holds about requests; rows by table."""

    def __call__(self, path: Path, traces: Collection[str], /, *, dry_run: bool) -> dict[str, int]: ...


class Wanted(NamedTuple):
    """What is to be forgotten: one of both is empty."""

    trace: str
    user: str


@dataclass(frozen=True, slots=True)
class Found:
    """Rows by file and table, the requests that they were of, and where else something may be."""

    rows: Mapping[str, int]
    requests: int
    elsewhere: Sequence[str]
    aside: Sequence[Path]


def forget(config: Config, wanted: Wanted, *, dry_run: bool, now: float) -> Found:
    """Find it, and delete it unless `dry_run`. Raises `ConfigError` where a file cannot be read or written."""
    folder = config.storage.path
    stores = _stores(config)
    folders = {folder, *(path.parent for path, _ in stores)}
    retained = folder / files.RETAINED
    rows: dict[str, int] = {}
    try:
        users = _pseudonyms(wanted.user, folders)
        if not dry_run:  # before anything is deleted: what is in hand must not follow
            for at in folders:
                if at.is_dir():
                    _mark(at, wanted, users, now, max(config.storage.retention, _KEPT_LEAST))
            time.sleep(SETTLE)
        traces = {wanted.trace} if wanted.trace else _traces_of(wanted.user, users, stores)
        if retained.exists():
            rows |= _named(retained, deliveries.erase(retained, {*traces, wanted.user}, dry_run=dry_run))
        for path, erase in stores:
            rows |= _named(path, erase(path, traces, dry_run=dry_run))
    except (MonitorError, OSError) as error:
        raise ConfigError(f"storage.path: nothing is promised, since a file there cannot be used: {error}") from None
    if not dry_run and folder.is_dir():
        whose = {"requests": sorted(traces)} if wanted.trace else {"users": sorted(users), "requests": sorted(traces)}
        audit.record(folder, Event.TEXTS_FORGOTTEN, rows=sum(rows.values()), **whose)
    return Found(rows, len(traces) if rows else 0, list(_elsewhere(config)), list(_aside(config, stores)))


def _named(path: Path, rows: Mapping[str, int]) -> dict[str, int]:
    return {f"{path.name}, {table}": number for table, number in rows.items()}


def lines(found: Found, *, dry_run: bool) -> Iterator[str]:
    """What was done, in words."""
    verb = "would be deleted" if dry_run else "deleted"
    for where, number in found.rows.items():
        yield f"{where}: {number} {verb}"
    if not found.rows:
        yield "Nothing is kept of it."
    if not dry_run:
        yield "What still waits in the spool, or is being judged, is dropped when the monitor comes to it."
    for path in found.aside:
        yield f"A damaged file that was kept aside may hold more, delete it by hand: {path}"
    if found.elsewhere:
        yield "Delete what was sent elsewhere there:"
        yield from (f"  {one}" for one in found.elsewhere)


def _pseudonyms(user: str, folders: set[Path]) -> set[str]:
    if not user:
        return set()
    keys = [pseudonyms.load(folder) for folder in sorted(folders)]
    return {key.of(user) for key in keys if key is not None}


def _mark(folder: Path, wanted: Wanted, users: set[str], now: float, keep: float) -> None:
    marks = [erasure.Mark(now, trace=wanted.trace)] if wanted.trace else []
    marks += [erasure.Mark(now, user=user) for user in sorted(users)]
    if marks:
        erasure.add(folder, marks, since=now - keep)


def _traces_of(user: str, users: set[str], stores: Sequence[tuple[Path, _Erase]]) -> set[str]:
    found: set[str] = set()
    for path, erase in stores:
        if erase is history.erase:
            found |= history.traces_of(path, users, user)
        elif erase is backfill.erase:
            found |= backfill.traces_of(path, {user, *users})
    return found


def _stores(config: Config) -> list[tuple[Path, _Erase]]:
    """The files that exist, each with the function that erases requests from it."""
    folder = config.storage.path
    found: dict[Path, _Erase] = {folder / files.HISTORY: history.erase}
    found[folder / files.BACKFILL] = backfill.erase
    found[folder / files.REQUEST_LOG] = request_log.erase
    for sink in config.sinks:
        if isinstance(sink, History) and sink.path is not None:
            found.setdefault(sink.path, history.erase)
    return [(path, erase) for path, erase in found.items() if path.exists()]


def _elsewhere(config: Config) -> Iterator[str]:
    """Where this program has sent results, or takes traces from, in words."""
    for sink in config.sinks:
        if type_name(sink) in ("prometheus", "history"):
            continue
        yield _place(type_name(sink), sink)
    for source in config.sources:
        if type_name(source) == "kafka":
            yield f"{_place('kafka', source)}: the traces themselves, in its topics and in that of dead letters"


def _place(name: str, component: Any) -> str:
    told = []
    for field in _PLACES:
        value = getattr(component, field, None)
        if value:
            told.append(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    return f"{name} {' '.join(told)}".rstrip()


def _aside(config: Config, stores: Sequence[tuple[Path, _Erase]]) -> Iterator[Path]:
    for path in (config.storage.path / files.SPOOL, *(path for path, _ in stores)):
        yield from damaged_copies(path)
