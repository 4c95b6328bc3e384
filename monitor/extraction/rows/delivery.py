"""One delivery of rows: a JSON object, a JSON array, or JSON Lines; whichever it is, it shows itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import orjson

from monitor.errors import InvalidData, TooLarge
from monitor.extraction.rows.reading import recognise
from monitor.model.row import Row

_FOREIGN_NUMBER: Final = re.compile(rb"\b(?:NaN|Infinity)\b")
_BLANK: Final = b" \t\r\n"
_MARK: Final = b"\xef\xbb\xbf"


class RowFault(NamedTuple):
    """A row that can never be read: the how manieth it is, from 0, and why."""

    row: int
    error: str


class ParsedRows(NamedTuple):
    """The rows of one delivery, in order, and those that are none."""

    rows: list[Row]
    faults: list[RowFault]


def take(body: bytes, *, app: str = "", max_rows: int | None = None, max_row_bytes: int | None = None) -> ParsedRows:
    """Cut a JSON object, a JSON array or JSON Lines into rows. `app` is that of a row that names none.

    A row that is too large, or of no known shape, is among the faults. Raises `InvalidData` for a body that is neither
    JSON nor lines of it, `TooLarge` (an `InvalidData`) for more than `max_rows`.
    """
    found = ParsedRows([], [])
    for number, value in enumerate(_values(body.removeprefix(_MARK).strip(_BLANK), max_rows)):
        try:
            if isinstance(value, InvalidData):
                raise value
            row = recognise(value, app=app)
            if max_row_bytes is not None and len(row.content) > max_row_bytes:
                raise TooLarge(f"the row has {len(row.content)} bytes; the limit is {max_row_bytes}")
        except InvalidData as error:
            found.faults.append(RowFault(number, str(error)))
        else:
            found.rows.append(row)
    return found


def parse(line: bytes, place: str) -> object:
    """The JSON value of one line. Raises `InvalidData` that begins with `place`."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        # Python's own writer makes NaN and Infinity of missing numbers, which JSON has not.
        if _FOREIGN_NUMBER.search(line):
            try:
                return json.loads(line, parse_constant=lambda _: None)
            except (ValueError, RecursionError):
                pass
        raise InvalidData(f"{place}: not JSON: {error.msg} at character {error.pos}") from None


def _values(body: bytes, max_rows: int | None) -> Iterable[object]:
    if not body:
        raise InvalidData("no rows: the body is empty")
    if body.startswith(b"["):
        whole = parse(body, "the array of rows")
        found = whole if isinstance(whole, list) else [whole]
        _check(len(found), max_rows)
        return found
    lines = body.split(b"\n")
    if len(lines) > 1 and not _is_json(lines[0]) and _is_json(body):
        return [orjson.loads(body)]  # one object over many lines
    _check(sum(1 for line in lines if line.strip(_BLANK)), max_rows)
    return _of_lines(lines)


def _of_lines(lines: list[bytes]) -> Iterator[object]:
    for number, line in enumerate(lines, 1):
        if line.strip(_BLANK):
            try:
                yield parse(line, f"line {number}")
            except InvalidData as error:
                yield error


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _check(rows: int, max_rows: int | None) -> None:
    if max_rows is not None and rows > max_rows:
        raise TooLarge(f"{rows} rows in one request; the limit is {max_rows}")
