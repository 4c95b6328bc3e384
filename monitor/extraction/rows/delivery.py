"""Split one delivery into rows: a JSON object, an array, `{"data": [...]}` or JSON Lines, recognised by content."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import orjson

from monitor.errors import InvalidData, TooLarge, surrogates
from monitor.extraction.rows.reading import recognise
from monitor.extraction.rows.shapes import known
from monitor.model.row import Row

_FOREIGN_NUMBER: Final = re.compile(rb"\b(?:NaN|Infinity)\b")
_BLANK: Final = b" \t\r\n"
_MARK: Final = b"\xef\xbb\xbf"


class RowFault(NamedTuple):
    """A row that can never be read: its position, from 0, and the reason."""

    row: int
    error: str


class ParsedRows(NamedTuple):
    """The rows of one delivery, in order, and the faults of rows that cannot be read."""

    rows: list[Row]
    faults: list[RowFault]


def take(body: bytes, *, app: str = "", max_rows: int | None = None, max_row_bytes: int | None = None) -> ParsedRows:
    """Split a JSON object, a JSON array, `{"data": [...]}` or JSON Lines into rows.

    `app` applies to rows that do not name an app. A row that is too large or has no known shape becomes a fault. Raises
    `InvalidData` for a body that is neither JSON nor JSON Lines, `TooLarge` (an `InvalidData`) above `max_rows`.
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
    """Parse one line of JSON. Raises `InvalidData` with a message that begins with `place`."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        line = surrogates.without_lone(line)
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(line)
        # Python's own writer uses NaN and Infinity for missing numbers; JSON does not allow them.
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
        found: Sequence[object] = whole if isinstance(whole, list) else [whole]
        _check(len(found), max_rows)
        return found
    try:
        whole = parse(body, "the body")
    except InvalidData:
        pass  # several lines, or not JSON at all
    else:
        found = _of_object(whole)
        _check(len(found), max_rows)
        return found
    lines = body.split(b"\n")
    _check(sum(1 for line in lines if line.strip(_BLANK)), max_rows)
    return _of_lines(lines)


def _of_object(value: object) -> Sequence[object]:
    """Return the rows in one JSON value: in `data`, as objects or as lists with `columns`; else the value itself.

    Raises `InvalidData` for a list in `data` that does not fit its columns.
    """
    listed = value.get("data") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(listed, list) or known(value):
        return [value]
    columns = value.get("columns")
    if not isinstance(columns, list):
        return listed
    for number, one in enumerate(listed):
        if not isinstance(one, list) or len(one) != len(columns):
            raise InvalidData(
                f"`data`, row {number}: must be a list of {len(columns)} values, one for each of `columns`"
            )
    return [dict(zip(map(str, columns), one, strict=True)) for one in listed]


def _of_lines(lines: list[bytes]) -> Iterator[object]:
    for number, line in enumerate(lines, 1):
        if line.strip(_BLANK):
            try:
                yield parse(line, f"line {number}")
            except InvalidData as error:
                yield error


def _check(rows: int, max_rows: int | None) -> None:
    if max_rows is not None and rows > max_rows:
        raise TooLarge(f"{rows} rows in one request; the limit is {max_rows}")
