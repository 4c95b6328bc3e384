"""A file of results that is written over several runs: what stands in it is known, and half a last line is repaired."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson

from monitor.errors import ConfigError
from monitor.model.outcome import Judged
from monitor.sinks.jsonl import JsonLines
from monitor.stages import Deliver, Runtime
from monitor.storage.history import rows

Row = dict[str, Any]


class Results:
    """Results by id: those of earlier runs, those of this one, and which of them belong to the cases of this run."""

    def __init__(self, earlier: Iterable[Row] = ()) -> None:
        self._earlier = {row["id"]: row for row in earlier}
        self.found: dict[str, Row] = {}
        """The results of this run's cases, new or not."""
        self.resumed = 0
        """How many of them an earlier run had judged."""

    def remembered(self, result: str) -> bool:
        """Whether an earlier run has judged it; then it counts as this run's as well."""
        row = self._earlier.get(result)
        if row is None:
            return False
        self.found[result] = row
        self.resumed += 1
        return True

    def remember(self, results: Iterable[str]) -> None:
        """Nothing to do: `add` knows."""

    def add(self, judged: Judged) -> None:
        """Keep a new result."""
        self.found[judged.id] = rows.as_json(judged, texts=False)


def resume(path: Path, *, again: bool) -> list[Row]:
    """The results that stand in a file, which is made ready to be appended to; none where there is no file.

    A last line that was cut off is removed; with `again` so are unscored results. Raises `ConfigError` for a file that
    holds anything else, which is left as it is.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"--output: {path} cannot be read: {error.strerror}") from None
    *lines, last = content.split(b"\n")
    found = [_read(line, f"--output: {path}: line {number}") for number, line in enumerate(lines, 1)]
    if last:
        try:
            found.append(_read(last, ""))
        except ConfigError:
            if not found and not last.startswith(b'{"id":"'):
                raise ConfigError(f"--output: {path} is no file of results; name another") from None
    kept = [row for row in found if not (again and row["outcome"] == "unscored")]
    if last or len(kept) < len(found):
        _replace(path, kept)
    return kept


def _read(line: bytes, place: str) -> Row:
    try:
        row = orjson.loads(line)
        if isinstance(row["id"], str) and isinstance(row["evaluator"], str) and isinstance(row["outcome"], str):
            return dict(row)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass
    raise ConfigError(f"{place} is no result; name another file")


def _replace(path: Path, kept: Iterable[Row]) -> None:
    """Write the whole file anew, so that it is never seen in between."""
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.touch(mode=0o600)
        beside.write_bytes(b"".join(rows.dump(row) + b"\n" for row in kept))
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"--output: {path} cannot be written: {error.strerror}") from None


@asynccontextmanager
async def appending(path: Path | None, runtime: Runtime) -> AsyncIterator[Deliver | None]:
    """What appends results to a file, each on a line of its own; None without one."""
    if path is None:
        yield None
        return
    async with JsonLines(path=path, max_file_size=sys.maxsize).open(runtime) as write:
        yield write
