"""Read Java's lists of quoted but unescaped texts: `["one", "two"]` and `["user":"one", "system":"two"]`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Final

_BETWEEN: Final = '", "'
_BEFORE: Final = frozenset("([{<:=/-\u2013\u2014")
_AFTER: Final = frozenset(".,;:!?)]}>/-\u2013\u2014")
_SHORTEST: Final = len('[""]')
_LONGEST: Final = 1_000_000


def texts(listed: str) -> tuple[str, ...] | None:
    """Return the texts of such a list; None if `listed` is not one, or if its end is cut off.

    The separator between two texts may also occur within a text (`sizes "S", "M"`). It belongs to the text if the
    quotation marks before and after it open and close a quotation.
    """
    inner = _inner(listed)
    if inner is None:
        return () if listed.strip() == "[]" else None
    pieces = inner.split(_BETWEEN)
    next_quoting = dict(itertools.pairwise(at for at, piece in enumerate(pieces) if '"' in piece))
    found: list[str] = []
    at = 0
    while at < len(pieces):
        end = at
        while end in next_quoting and _opens(pieces[end]) and _closes(pieces[next_quoting[end]]):
            end = next_quoting[end]
        found.append(_BETWEEN.join(pieces[at : end + 1]))
        at = end + 1
    return tuple(found)


def only(listed: str) -> str | None:
    """Return the text of a list that is known to hold at most one; None if it is empty."""
    return _inner(listed)


def entries(listed: str, keys: Sequence[str]) -> dict[str, str]:
    """Return the texts by key; empty unless each key occurs once and in the order of `keys`."""
    inner = _inner(listed)
    named = "|".join(map(re.escape, keys))
    first = re.match(rf'({named})":"', inner) if inner is not None else None
    if inner is None or first is None:
        return {}
    marks = [first, *re.compile(rf'", "({named})":"').finditer(inner, first.end())]
    order = [keys.index(mark[1]) for mark in marks]
    if any(later <= earlier for earlier, later in itertools.pairwise(order)):
        return {}
    ends = [*(mark.start() for mark in marks[1:]), len(inner)]
    return {mark[1]: inner[mark.end() : end] for mark, end in zip(marks, ends, strict=True)}


def _inner(listed: str) -> str | None:
    stripped = listed.strip()
    if not _SHORTEST <= len(stripped) <= _LONGEST or stripped[:2] != '["' or stripped[-2:] != '"]':
        return None
    return stripped[2:-2]


def _opens(piece: str) -> bool:
    """Return whether the last quotation mark of a piece begins a quotation."""
    at = piece.rfind('"')
    return at == 0 or piece[at - 1].isspace() or piece[at - 1] in _BEFORE


def _closes(piece: str) -> bool:
    """Return whether the first quotation mark of a piece ends a quotation."""
    at = piece.find('"') + 1
    return at == len(piece) or piece[at].isspace() or piece[at] in _AFTER
