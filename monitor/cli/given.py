"""One case for `rag-monitor try`: out of a file, or out of the history of a monitor by its trace id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import anyio

from monitor import compose, registry, rows
from monitor.cli.captures import Files
from monitor.config import Config
from monitor.errors import ConfigError, InvalidData, MonitorError
from monitor.model.case import Case, Reading
from monitor.sinks.history import History


def find(config: Config, named: str, number: int | None, notes: TextIO) -> Case:
    """The case that `named` says: the `number`-th of a file (from 1; by default the first that can be judged), or a
    trace id of the history.

    Raises `ConfigError` that says why there is none.
    """
    path = Path(named)
    return _of_file(config, path, number, notes) if path.exists() else _of_history(config, named)


def _of_file(config: Config, path: Path, number: int | None, notes: TextIO) -> Case:
    read = partial(compose.read, conventions=registry.conventions(), settings=config.reading)
    seen = 0
    why = "it holds no case"
    for reading in Files([path], notes).readings(read):
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
    path = config.storage.path / "history.db"
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
            "with `storage.keep_texts: true`"
        )
    case = of_row(row)
    if case is None:
        raise ConfigError(f"--case: the texts of trace {trace_id} in the history cannot be read")
    return case


def of_row(row: Mapping[str, Any]) -> Case | None:
    """The case of a result that was kept with its texts; None where it has none.

    What the history does not keep is missing: the service's own prompt, and expected answers.
    """
    if "response" not in row:
        return None
    own = {key: row.get(key) for key in ("request", "retrieved_context", "response", "model", "session_id", "user_id")}
    given: dict[str, Any] = {
        "request_id": row.get("trace_id"),
        **own,
        "usage": {},
        "context_source": "row",
        "app": row.get("app"),
    }
    read_trace = partial(compose.read, conventions=registry.conventions())
    try:
        reading = rows.read(rows.recognise(given), read_trace, source="history")
    except InvalidData:
        return None
    attributes = row.get("attributes")
    return replace(
        reading.case,
        span_id=str(row.get("span_id") or ""),
        convention=str(row.get("convention") or ""),
        answered_at=float(row.get("answered_at") or 0.0),
        attributes={str(name): str(value) for name, value in attributes.items()} if attributes else {},
    )
