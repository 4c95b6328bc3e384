"""Plain tables for people: a name and a value for each of several things, in columns that line up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first column flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for first, *others in rows:
        rest = (text.rjust(width) for text, width in zip(others, widths[1:], strict=False))
        yield "  ".join((first.ljust(widths[0]), *rest)).rstrip()


def worded(rows: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Without the rows that say nothing of anything."""
    return [row for row in rows if any(text != "-" for text in row[1:])]


def time(seconds: float) -> str:
    """A duration with three digits: `0.41 ms`, `1.25 s`."""
    unit, value = ("s", seconds) if seconds >= 1 else ("ms", seconds * 1e3)
    return f"{value:.{max(0, 2 - len(str(int(value))) + 1)}f} {unit}"


def dollars(amount: float) -> str:
    """An amount that shows a single judgement's price too: `$0.00042`, `$12.60`; a dash for nothing."""
    if not amount:
        return "-"
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.2g}" if amount >= 0.0001 else f"${amount:.1e}"  # noqa: PLR2004
