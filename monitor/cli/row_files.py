"""Rows in files: JSON Lines, or one JSON document that is a row, a list of rows or an MLflow trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from monitor import rows
from monitor.errors import InvalidData
from monitor.model.case import Reading
from monitor.model.row import Row
from monitor.model.trace import Trace
from monitor.rows.delivery import parse

LINES: Final = ".jsonl"


def readings(
    path: Path, read_trace: Callable[[Trace], Reading], advance: Callable[[int], object] = lambda _bytes: None
) -> Iterator[Reading | InvalidData]:
    """What each row of a file says, in order; for one that cannot be read why, with its place.

    `advance` is told of the bytes that were read. Raises `InvalidData` where the file holds no rows at all, `OSError`.
    """
    found = _lines(path, advance) if path.suffix == LINES else _document(path)
    for one in found:
        yield one if isinstance(one, InvalidData) else rows.read(one, read_trace, source="file")
    if path.suffix != LINES:
        advance(path.stat().st_size)


def holds_rows(path: Path) -> bool:
    """Whether a file that nobody has named holds rows, to judge by the first. Raises `OSError`."""
    try:
        return not isinstance(
            next(_lines(path) if path.suffix == LINES else _document(path), InvalidData()), InvalidData
        )
    except InvalidData:
        return False


def _lines(path: Path, advance: Callable[[int], object] = lambda _bytes: None) -> Iterator[Row | InvalidData]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            advance(len(line))
            if line.strip():
                try:
                    yield rows.recognise(parse(line.removeprefix(b"\xef\xbb\xbf"), f"line {number}"))
                except InvalidData as error:
                    told = str(error)
                    yield InvalidData(told if told.startswith("line ") else f"line {number}: {told}")


def _document(path: Path) -> Iterator[Row | InvalidData]:
    found = rows.take(path.read_bytes())
    faults = {fault.row: fault.error for fault in found.faults}
    left = iter(found.rows)
    for number in range(len(found.rows) + len(faults)):
        if number in faults:
            yield InvalidData(f"row {number}: {faults[number]}" if len(found.rows) else faults[number])
        else:
            yield next(left)
