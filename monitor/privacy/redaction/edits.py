"""Replaces parts of a text and maps old offsets to new ones. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

_NEAR: Final = 250
"""Characters around a replacement that are searched again. Only long secrets are longer."""


class Edit(NamedTuple):
    """A replacement of the characters between two offsets, end exclusive, with `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Masked:
    """A text with placeholders, and a map from offsets in the original text."""

    text: str
    passes: tuple[tuple[Edit, ...], ...] = ()

    def stretch(self, start: int, end: int) -> tuple[int, int, bool]:
        """Map a stretch to its new offsets, including whole placeholders, and return whether any of it was masked."""
        changed = False
        for edits in self.passes:
            start, end, hit = _moved(edits, start, end)
            changed = changed or hit
        return start, end, changed


def _moved(edits: tuple[Edit, ...], start: int, end: int) -> tuple[int, int, bool]:
    shift, first, last, hit = 0, start, end, False
    for edit in edits:
        grown = len(edit.text) - (edit.end - edit.start)
        if edit.end <= start:
            first += grown
        elif edit.start < start:
            first = edit.start + shift
        if edit.end <= end:
            last += grown
        elif edit.start < end:
            last = edit.start + shift + len(edit.text)
        hit = hit or (edit.start < end and edit.end > start)
        shift += grown
    return first, last, hit


def around(text: str, edits: Iterable[Edit]) -> Iterator[slice]:
    """Yield the surroundings of the latest replacements, extended to the next white space and joined if they touch."""
    shift, first, last = 0, 0, -1
    for edit in edits:
        start = edit.start + shift
        shift += len(edit.text) - (edit.end - edit.start)
        before, after = max(0, start - _NEAR), min(len(text), start + len(edit.text) + _NEAR)
        while before > 0 and not text[before - 1].isspace() and before > start - 2 * _NEAR:
            before -= 1
        while after < len(text) and not text[after].isspace() and after < start + 2 * _NEAR:
            after += 1
        if last >= before:
            last = max(last, after)
            continue
        if last >= 0:
            yield slice(first, last)
        first, last = before, after
    if last >= 0:
        yield slice(first, last)


def apart(edits: list[Edit]) -> list[Edit]:
    """Sort the edits and merge overlapping edits into one with the name of the longest."""
    joined: list[tuple[Edit, int]] = []
    for edit in sorted(edits, key=lambda one: (one.start, -one.end)):
        size = edit.end - edit.start
        if joined and edit.start < joined[-1][0].end:
            last, longest = joined[-1]
            name = edit.text if size > longest else last.text
            joined[-1] = Edit(last.start, max(last.end, edit.end), name), max(size, longest)
        else:
            joined.append((edit, size))
    return [edit for edit, _ in joined]


def put(text: str, edits: Iterable[Edit]) -> str:
    """Apply all `edits`, which are sorted and do not overlap."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join((*parts, text[at:]))
