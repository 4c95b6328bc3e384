"""A file of results written over several runs: known results are kept, and a cut-off last line is repaired.

With texts, each line is a result and its case: an annotated data set that can be read again as rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from monitor.errors import ConfigError
from monitor.model.case import Case, Reading, ReadingStatus
from monitor.model.outcome import EvaluationResult
from monitor.sinks.jsonl import JsonLines, open_lines
from monitor.stages import Deliver
from monitor.storage.history import rows

ResultRow = dict[str, Any]
"""One result in the schema of the sink `jsonl`."""

_TEXTS: Final = (
    "request",
    "retrieved_context",
    "response",
    "prompt",
    "expected_response",
    "expected_retrieved_context",
    "used",
)
"""Fields that only lines with texts have."""


class RunResults:
    """Results by id, of earlier runs and of this run, and which of them belong to this run's cases."""

    def __init__(self, earlier: Iterable[ResultRow] = ()) -> None:
        plain = ({key: value for key, value in row.items() if key not in _TEXTS} for row in earlier)
        self._earlier = {row["id"]: row for row in plain}
        self.found: dict[str, ResultRow] = {}
        """The results of this run's cases, new or from an earlier run."""
        self.resumed = 0
        """How many of them are from an earlier run."""

    def resume(self, result: str) -> bool:
        """Take over the result with this id from an earlier run. Return whether there is one."""
        row = self._earlier.get(result)
        if row is None:
            return False
        self.found[result] = row
        self.resumed += 1
        return True

    def add(self, judged: EvaluationResult) -> None:
        """Keep a new result."""
        self.found[judged.id] = rows.as_json(judged, texts=False)


def read_results(path: Path, *, drop_unscored: bool, texts: bool = False) -> list[ResultRow]:
    """Read the results in a file and prepare it for appending; return an empty list if there is no file.

    A cut-off last line is removed; with `drop_unscored`, unscored results are removed too. Raises `ConfigError` for a
    file with other content, or if its results have no texts although `texts` is set, or the other way round. Such a
    file is left unchanged.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"output: cannot read {path}: {error.strerror}") from None
    *lines, last = content.split(b"\n")
    found = [_read(line, f"output: {path}: line {number}") for number, line in enumerate(lines, 1)]
    if last:
        try:
            found.append(_read(last, ""))
        except ConfigError:
            if not found and not last.startswith(b'{"schema":'):
                raise ConfigError(f"output: {path} is not a file of results; choose another file") from None
    other = next((number for number, row in enumerate(found, 1) if (_TEXTS[0] in row) is not texts), None)
    if other is not None:
        have, do = ("no texts", "leave out --texts") if texts else ("texts", "add --texts")
        raise ConfigError(f"output: {path}: the result in line {other} has {have}: {do}, or choose another file")
    kept = [row for row in found if not (drop_unscored and row["outcome"] == "unscored")]
    if last or len(kept) < len(found):
        _replace(path, kept)
    return kept


def _read(line: bytes, place: str) -> ResultRow:
    try:
        row = rows.load(line)
        if isinstance(row["id"], str) and isinstance(row["evaluator"], str) and isinstance(row["outcome"], str):
            return dict(row)
    except (ValueError, KeyError, TypeError):
        pass
    raise ConfigError(f"{place} is not a result; choose another file")


def _readable(row: ResultRow) -> ResultRow:
    """Replace unpaired surrogates, which JSON can contain but no reader of rows accepts."""
    try:
        orjson.dumps(row)
    except TypeError:
        whole: ResultRow = orjson.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
        return whole
    return row


def _replace(path: Path, kept: Iterable[ResultRow]) -> None:
    """Write the whole file beside the old one, then swap them: no reader sees half of it."""
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.touch(mode=0o600)
        beside.write_bytes(b"".join(rows.dump(row) + b"\n" for row in kept))
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"output: cannot write {path}: {error.strerror}") from None


@asynccontextmanager
async def open_results(path: Path | None, texts: Sequence[Case] | None = None) -> AsyncIterator[Deliver | None]:
    """Yield a function that appends a result to the file as one line; None without a file.

    `texts` are the cases of the results: each line is then a result with the whole case.
    """
    if path is None:
        yield None
        return
    cases = {(one.request_id, one.span_id): one for one in texts or ()}

    def row(result: EvaluationResult) -> ResultRow:
        plain = rows.as_json(result, texts=False)
        if texts is None:
            return plain
        case = cases[result.case.request_id, result.case.span_id]  # the result's own case has fewer attributes
        return _readable({**plain, **Reading(ReadingStatus.READY, case).as_row()})

    async with open_lines(JsonLines(path=path, max_file_size=sys.maxsize), row) as write:
        yield write
