"""Stretches of a text that verdicts point at: they may overlap, and come from outside, so they may be anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a text. `marks` are the numbers of the marks that cover it, `ends` those of them that end with it."""

    text: str
    marks: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


def stretches(text: str, marks: Sequence[tuple[int, int]]) -> list[Stretch]:
    """`text` in parts, each covered by the same marks throughout; together they are the text.

    A mark is a start and an exclusive end in characters, and its number is its place in `marks`. What lies outside of
    the text is left out, a mark with nothing inside altogether.
    """
    cut = [(max(start, 0), min(end, len(text))) for start, end in marks]
    begin: dict[int, list[int]] = {}
    end: dict[int, list[int]] = {}
    for number, (first, last) in enumerate(cut):
        if first < last:
            begin.setdefault(first, []).append(number)
            end.setdefault(last, []).append(number)
    found: list[Stretch] = []
    open_marks: set[int] = set()
    at = 0
    for edge in sorted({*begin, *end, len(text)}):
        if edge > at:
            found.append(Stretch(text[at:edge], tuple(sorted(open_marks)), tuple(end.get(edge, ()))))
            at = edge
        open_marks.difference_update(end.get(edge, ()))
        open_marks.update(begin.get(edge, ()))
    return found


def split(parts: Sequence[Stretch], at: int) -> tuple[list[Stretch], list[Stretch]]:
    """The parts up to the character `at`, and those from it on."""
    head: list[Stretch] = []
    tail: list[Stretch] = []
    for part in parts:
        room = max(at, 0)
        at -= len(part.text)
        if room >= len(part.text):
            head.append(part)
        elif room == 0:
            tail.append(part)
        else:
            head.append(Stretch(part.text[:room], part.marks))
            tail.append(Stretch(part.text[room:], part.marks, part.ends))
    return head, tail


def window(length: int, marks: Sequence[tuple[int, int]], size: int) -> tuple[int, int]:
    """Which `size` characters of a text of `length` show the most: its beginning, or what is about its first mark."""
    starts = [start for start, end in marks if 0 <= start < min(end, length)]
    first = min(starts, default=0)
    if length <= size or first < size * 3 // 4:
        return 0, min(length, size)
    start = min(first - size // 4, length - size)
    return start, start + size
