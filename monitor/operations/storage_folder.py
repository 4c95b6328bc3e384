"""Checks the storage folder before it is used: whether it is a monitor's, in a version that this one can read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from monitor.errors import ConfigError
from monitor.jobs.backfill import store as backfill
from monitor.storage import files, folder, incidents, labels, severe_cases, state_file
from monitor.storage.history import tables
from monitor.storage.request_log import store as request_log
from monitor.storage.spool import retained
from monitor.storage.spool import table as spool_table
from monitor.storage.sqlite import refuse_newer as refuse_newer_file

_FORMATS: Final = {
    files.SPOOL: spool_table.FORMAT,
    files.RETAINED: retained.FORMAT,
    files.HISTORY: tables.FORMAT,
    files.REQUEST_LOG: request_log.FORMAT,
    files.SEVERE_CASES: severe_cases.FORMAT,
    files.BACKFILL: backfill.FORMAT,
    files.INCIDENTS: incidents.FORMAT,
    files.LABELS: labels.FORMAT,
    files.STATE: state_file.FORMAT,
}
"""The format of each database in the storage folder."""

_OTHER: Final = "is this the monitor's configuration?"


def refuse_newer(path: Path) -> None:
    """Raise `ConfigError` if a file in the folder is from a newer version of rag-monitor. Nothing is written."""
    folder.refuse_newer(path)
    for name, form in _FORMATS.items():
        refuse_newer_file(path / name, form)


def require_state(path: Path) -> None:
    """Raise `ConfigError` if no monitor has ever written to this folder, as with the wrong configuration."""
    if not any((path / name).exists() for name in (folder.NAME, *_FORMATS)):
        raise ConfigError(f"storage.path: no monitor has written to {path}; {_OTHER}")


def existing_history(path: Path) -> Path:
    """Return `path`. Raises `ConfigError` if this history does not exist."""
    if not path.exists():
        raise ConfigError(f"storage.path: there is no history at {path}; {_OTHER}")
    return path
