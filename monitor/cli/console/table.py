"""Plain tables: a name and a value for each of several things, in columns that line up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest


def align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row: the first column flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for first, *others in rows:
        rest = (text.rjust(width) for text, width in zip(others, widths[1:], strict=False))
        yield "  ".join((first.ljust(widths[0]), *rest)).rstrip()


def without_empty(rows: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Leave out the rows that have a dash in every column but the first."""
    return [row for row in rows if any(text != "-" for text in row[1:])]
