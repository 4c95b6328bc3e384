"""Splits a text at the passages that evidence points to. Offsets come from outside: they may overlap or be invalid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HighlightedPart:
    """A part of a text. `marks` are the numbers of the marks that cover it, `ends` of those that end where it ends."""

    text: str
    marks: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


def highlight(text: str, marks: Sequence[tuple[int, int]]) -> list[HighlightedPart]:
    """Split `text` into parts that are each covered by the same marks; joined, they are the text.

    A mark is a start and an exclusive end in characters; its number is its index in `marks`. Marks are clipped to the
    text, and dropped if nothing is left.
    """
    cut = [(max(start, 0), min(end, len(text))) for start, end in marks]
    begin: dict[int, list[int]] = {}
    end: dict[int, list[int]] = {}
    for number, (first, last) in enumerate(cut):
        if first < last:
            begin.setdefault(first, []).append(number)
            end.setdefault(last, []).append(number)
    found: list[HighlightedPart] = []
    open_marks: set[int] = set()
    at = 0
    for edge in sorted({*begin, *end, len(text)}):
        if edge > at:
            found.append(HighlightedPart(text[at:edge], tuple(sorted(open_marks)), tuple(end.get(edge, ()))))
            at = edge
        open_marks.difference_update(end.get(edge, ()))
        open_marks.update(begin.get(edge, ()))
    return found


def split(given: Sequence[HighlightedPart], at: int) -> tuple[list[HighlightedPart], list[HighlightedPart]]:
    """Return the parts before the character `at`, and those starting from it."""
    head: list[HighlightedPart] = []
    tail: list[HighlightedPart] = []
    for part in given:
        room = max(at, 0)
        at -= len(part.text)
        if room >= len(part.text):
            head.append(part)
        elif room == 0:
            tail.append(part)
        else:
            head.append(HighlightedPart(part.text[:room], part.marks))
            tail.append(HighlightedPart(part.text[room:], part.marks, part.ends))
    return head, tail


def window(length: int, marks: Sequence[tuple[int, int]], size: int) -> tuple[int, int]:
    """Return the range of `size` characters of a text to show: its beginning, or the surroundings of its first mark."""
    starts = [start for start, end in marks if 0 <= start < min(end, length)]
    first = min(starts, default=0)
    if length <= size or first < size * 3 // 4:
        return 0, min(length, size)
    start = min(first - size // 4, length - size)
    return start, start + size
