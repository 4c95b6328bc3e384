"""One case for `rag-monitor try`: out of a file, or out of the history of a monitor by its trace id."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import anyio

from monitor.config import Config
from monitor.errors import ConfigError, MonitorError
from monitor.model.case import Case, Reading
from monitor.operations.offline.files import CaseFiles
from monitor.privacy import audit
from monitor.sinks.history import History
from monitor.storage import files
from monitor.telemetry.events import Event
from monitor.trying.kept import of_row


def find(config: Config, named: str, number: int | None, notes: TextIO) -> Case:
    """The case that `named` says: the `number`-th of a file (from 1; by default the first that can be judged), or a
    trace id of the history.

    Raises `ConfigError` that says why there is none.
    """
    path = Path(named)
    return _of_file(config, path, number, notes) if path.exists() else _of_history(config, named)


def _of_file(config: Config, path: Path, number: int | None, notes: TextIO) -> Case:
    seen = 0
    why = "it holds no case"
    files = CaseFiles([path], config.extraction, report=lambda message: notes.write(f"{message}\n"))
    for reading in files.readings():
        seen += 1
        if number is None:
            if reading.status.judgeable:
                return reading.case
            why = f"none of its {seen} can be judged; the last one is {_told(reading)}"
        elif seen == number:
            if reading.status.judgeable:
                return reading.case
            raise ConfigError(f"--case: number {number} of {path} cannot be judged: {_told(reading)}")
    if number is not None and seen:
        why = f"it holds {seen}"
    raise ConfigError(f"--case: there is no case {f'{number} ' if number else ''}to judge in {path}: {why}")


def _told(reading: Reading) -> str:
    return f"{reading.status}: {reading.error}" if reading.error else str(reading.status)


def _of_history(config: Config, trace_id: str) -> Case:
    path = config.storage.path / files.HISTORY
    if not path.exists():
        raise ConfigError(f"--case: {trace_id!r} is no file, and there is no history at {path} to look a trace up in")
    try:
        found = anyio.run(History(path=path).by_trace, trace_id)
    except MonitorError as error:
        raise ConfigError(f"--case: {error}") from None
    if not found:
        raise ConfigError(f"--case: {trace_id!r} is no file, and no trace of the history at {path}")
    row = next((one for one in found if "response" in one), None)
    if row is None:
        raise ConfigError(
            f"--case: the history knows trace {trace_id} without its texts: they are kept, from then on, "
            "with `storage.texts: all`"
        )
    case = of_row(row)
    if case is None:
        raise ConfigError(f"--case: the texts of trace {trace_id} in the history cannot be read")
    audit.record(config.storage.path, Event.TEXTS_VIEWED, by="try", requests=[trace_id])
    return case
