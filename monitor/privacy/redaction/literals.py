"""Looking for values that are known in a text, whole or in part. Linear in the text, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

SURE: Final = 6
"""Characters of a value that are masked wherever they stand; shorter ones may be any word."""

_FEW: Final = 50


class Literals:
    """Where any of many values stands in a text: few are looked for one by one, of many all at once."""

    def __init__(self, values: Iterable[str]) -> None:
        self._values = [value for value in values if len(value) >= SURE]
        self._lengths: dict[str, list[int]] = {}
        self._known = frozenset(self._values)
        for value in self._values:
            lengths = self._lengths.setdefault(value[:SURE], [])
            if len(value) not in lengths:
                lengths.append(len(value))

    def within(self, text: str) -> Iterator[tuple[int, int]]:
        """Every place, also those that overlap."""
        if len(self._values) > _FEW:
            for at in range(len(text) - SURE + 1):
                for length in self._lengths.get(text[at : at + SURE], ()):
                    if text[at : at + length] in self._known:
                        yield at, at + length
            return
        for value in self._values:
            at = text.find(value)
            while at >= 0:
                yield at, at + len(value)
                at = text.find(value, at + len(value))


def stretches(values: Mapping[str, str]) -> dict[str, str]:
    """Every stretch of `SURE` characters of the values, in lower case, with the name of its value."""
    found: dict[str, str] = {}
    for value, name in values.items():
        lowered = value.lower()
        for at in range(len(lowered) - SURE + 1):
            found.setdefault(lowered[at : at + SURE], name)
    return found
