"""Reads rows from files: JSON Lines, one JSON document, or a table with a header (CSV), in UTF-8 or UTF-16."""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TextIO, TypeAlias

from monitor.errors import InvalidData
from monitor.extraction import rows
from monitor.extraction.rows.delivery import parse
from monitor.model.row import Row
from monitor.operations.progress import Report

LINES: Final = ".jsonl"
TABLES: Final = (".csv", ".tsv")
SUFFIXES: Final = (LINES, *TABLES, ".json")

Advance: TypeAlias = Callable[[int], object]
"""Called with the number of bytes read since its last call."""

MAX_COLUMNS: Final = 1_000
MAX_CELL: Final = 16_777_216
"""Maximum characters of a table cell."""

MAX_TABLE_ROW: Final = 2 * MAX_CELL
"""Maximum characters of a table row. A longer one usually has a quote that is not closed."""

_SEPARATORS: Final = (",", ";", "\t")
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SHOWN, _LISTED = 40, 8


class FileRow(NamedTuple):
    """A row, and its place in the file: `line 7`, or `row 3` counting from 0."""

    place: str
    row: Row


class BadRow(NamedTuple):
    """An entry that is not a row: its place and the reason. `place` is empty if the entry is the whole file."""

    place: str
    reason: str

    def __str__(self) -> str:
        """Return the sentence for people."""
        return f"{self.place}: {self.reason}" if self.place else self.reason


class FileNotes:
    """Reports problems with the rows of one file: each reason in full once, then only where it occurs again."""

    def __init__(self, path: Path, report: Report) -> None:
        self.bad_rows = 0
        self._path = path
        self._report = report
        self._first: dict[str, str] = {}
        self._unused: Counter[str] = Counter()

    def bad(self, row: BadRow) -> None:
        """Report a row that cannot be read."""
        self.bad_rows += 1
        first = self._first.get(row.reason)
        if first is not None:
            row = BadRow(row.place, f"the same as in {first}")
        elif row.place and len(self._first) < MAX_COLUMNS:
            self._first[row.reason] = row.place
        self._report(f"{self._path}: {row}")

    def good(self, row: Row) -> None:
        """Count the fields of a row that are not read."""
        for name in row.unused:
            if name in self._unused or len(self._unused) < MAX_COLUMNS:
                self._unused[name] += 1

    def end(self) -> None:
        """Report the fields that are not read, if there are any: the most frequent ones."""
        common = self._unused.most_common(_LISTED)
        shown = [f"{name!r} ({count} row{'s' if count > 1 else ''})" for name, count in common]
        more = f" and {len(self._unused) - len(shown)} more" if len(self._unused) > len(shown) else ""
        if shown:
            self._report(f"{self._path}: these fields are not read: {', '.join(shown)}{more}")


def read_rows(path: Path, advance: Advance = lambda _bytes: None) -> Iterator[FileRow | BadRow]:
    """Yield each row of a file with its line or number, and for each entry that is not a row, the reason.

    Raises `InvalidData` if the file as a whole cannot be read as rows, and `OSError`.
    """
    if path.suffix == LINES:
        return _lines(path, advance)
    return _table(path, advance) if path.suffix in TABLES else _document(path, advance)


def _encoding(path: Path) -> str:
    """Return the encoding that the file's byte order mark names. Raises `InvalidData` for UTF-16 without one."""
    with path.open("rb") as file:
        head = file.read(4)
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    if len(head) > 1 and 0 in head[:2]:
        raise InvalidData("it looks like UTF-16 without a byte order mark, or is not text: save it as UTF-8")
    return "utf-8"


def _lines(path: Path, advance: Advance) -> Iterator[FileRow | BadRow]:
    encoding = _encoding(path)
    for number, line in enumerate(_raw_lines(path, encoding, advance), 1):
        if line.strip():
            place = f"line {number}"
            try:
                yield FileRow(place, rows.recognise(parse(line.removeprefix(codecs.BOM_UTF8), place)))
            except InvalidData as error:
                yield BadRow(place, str(error).removeprefix(f"{place}: "))


def _raw_lines(path: Path, encoding: str, advance: Advance) -> Iterator[bytes]:
    """Yield the lines in UTF-8. Invalid UTF-16 is replaced."""
    if encoding.startswith("utf-8"):
        with path.open("rb") as file:
            for line in file:
                advance(len(line))
                yield line
        return
    with path.open(encoding=encoding, errors="replace", newline="\n") as text:
        for shown in text:
            advance(2 * len(shown))
            yield shown.encode()


def _document(path: Path, advance: Advance) -> Iterator[FileRow | BadRow]:
    encoding, body = _encoding(path), path.read_bytes()
    found = rows.take(body if encoding.startswith("utf-8") else body.decode(encoding, "replace").encode())
    faults = {fault.row: fault.error for fault in found.faults}
    left = iter(found.rows)
    for number in range(len(found.rows) + len(faults)):
        if number in faults:
            yield BadRow(f"row {number}" if len(found.rows) else "", faults[number])
        else:
            yield FileRow(f"row {number}", next(left))
    advance(len(body))


def _table(path: Path, advance: Advance) -> Iterator[FileRow | BadRow]:
    encoding = _encoding(path)
    # A byte that is not UTF-8 becomes an unpaired surrogate, and is reported with its cell.
    errors = "surrogateescape" if encoding.startswith("utf-8") else "replace"
    with path.open(encoding=encoding, errors=errors, newline="") as file:
        lines = _TableLines(file, advance)
        header = lines.header()
        names, separator = _columns(header)
        csv.field_size_limit(max(csv.field_size_limit(), MAX_TABLE_ROW))  # lines are limited, so no cell is longer
        reader = csv.reader(lines, delimiter=separator, strict=True)
        while True:
            place = f"line {lines.begin()}"
            try:
                cells = next(reader, None)
                if cells is None:
                    return
                if any(cell.strip() for cell in cells):
                    yield FileRow(place, rows.recognise(_row(names, cells)))
            except InvalidData as error:
                yield BadRow(place, str(error))
            except csv.Error as error:
                yield BadRow(place, _MESSAGES.get(str(error), str(error)))
            except _Endless as error:
                yield BadRow(place, f"{error}; nothing after it is read")
                return


class _Endless(Exception):  # noqa: N818 - ends the file
    pass


class _TableLines:
    """The lines of a table, for the parser: bounded, and counted."""

    def __init__(self, file: TextIO, advance: Advance) -> None:
        self._file = file
        self._advance = advance
        self._read = 0
        self._size = 0

    def begin(self) -> int:
        """Begin a new row; return the number of its first line."""
        self._size = 0
        return self._read + 1

    def header(self) -> str:
        """Return the first line. Raises `InvalidData` if there is none, or if it is endless."""
        try:
            return next(self)
        except StopIteration:
            raise InvalidData("no rows: the file is empty") from None
        except _Endless as error:
            raise InvalidData(f"line 1: {error}") from None

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._file.readline(MAX_TABLE_ROW)
        if not line:
            raise StopIteration
        self._read += 1
        self._size += len(line)
        self._advance(len(line.encode("utf-8", "surrogateescape")) if not line.isascii() else len(line))
        if self._size >= MAX_TABLE_ROW:
            raise _Endless(f"the row has over {MAX_TABLE_ROW:,} characters: is a quote not closed?")
        return line


_MESSAGES: Final = {
    "unexpected end of data": "a cell that begins in this row has an opening quote and no closing one",
    "',' expected after '\"'": "there is text after the closing quote of a cell",
    "';' expected after '\"'": "there is text after the closing quote of a cell",
    "'\t' expected after '\"'": "there is text after the closing quote of a cell",
}


def _columns(header: str) -> tuple[list[str], str]:
    """Return the names of the columns, and the separator with which they are the fields of a row.

    Raises `InvalidData` if this is so with no separator, or if a name appears twice.
    """
    tried: dict[str, list[str]] = {}
    for separator in _SEPARATORS:
        try:
            names = [name.strip() for name in next(csv.reader([header], delimiter=separator, strict=True), [])]
        except csv.Error:
            continue
        tried[separator] = names
        if len(names) > 1 and rows.known(names):
            if len(names) > MAX_COLUMNS:
                raise InvalidData(f"line 1: the header has {len(names)} columns; the limit is {MAX_COLUMNS}")
            twice = next((name for at, name in enumerate(names) if name and name in names[:at]), None)
            if twice is not None:
                raise InvalidData(f"line 1: the column {twice[:_SHOWN]!r} appears twice")
            return names, separator
    best = max(tried.values(), key=len, default=[header.strip()])
    try:
        rows.recognise(dict.fromkeys(best))
    except InvalidData as error:
        reason = str(error).replace("the row has", "the header has", 1)
        raise InvalidData(f"line 1: {reason}; the columns are separated by comma, semicolon or tab") from None
    raise InvalidData("line 1: there is only one column; a row needs at least a question and an answer")


def _row(names: Sequence[str], cells: Sequence[str]) -> dict[str, str | None]:
    """Return the cells by the names of their columns; an empty cell is null. Raises `InvalidData`."""
    if len(cells) != len(names):
        raise InvalidData(f"the header names {len(names)} columns, and the row has {len(cells)}")
    found = dict[str, str | None]()
    for number, (name, cell) in enumerate(zip(names, cells, strict=True), 1):
        place = f"column {number} ({name[:_SHOWN]!r})"
        if len(cell) > MAX_CELL:
            raise InvalidData(f"{place}: the cell has {len(cell):,} characters; the limit is {MAX_CELL:,}")
        if not cell.isascii() and any("\ud800" <= one <= "\udfff" for one in cell):
            raise InvalidData(f"{place}: the cell is not UTF-8: save the file as UTF-8")
        if name:
            found[name] = cell if cell.strip() else None
    return found
