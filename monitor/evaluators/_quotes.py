"""Finds a judge's quotes in the text that it quotes from. Tolerates small copying errors."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from functools import cached_property
from typing import Final

_BESIDE = re.compile(
    r"\]\([^()\s]{1,500}\)|\[\d{1,3}\]"  # the address of a link, a reference to a source
    r"|(?:^|(?<=\n))[ \t]*(?:#{1,6}|>|[-*+\u2022])[ \t]+"  # headings, quotations, lists
)
_LEFT_OUT: Final = frozenset(
    "*_~`\"'[]\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a\u300c\u300d\u300e\u300f"
)
_DASHES: Final = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2212")
_ENDS: Final = " .,;:!?\u2026\u3002\uff0c-"


def literal_place(quote: str, text: str) -> tuple[int, int] | None:
    """Return the offsets of the quote, ignoring white space and quotation marks around it; None if not found."""
    words = quote.strip().strip("\"'\u201c\u201d").split()
    if not words:
        return None
    found = re.search(r"\s+".join(map(re.escape, words)), text)
    return found.span() if found else None


class QuotedText:
    """A text in which quotes are looked up. It is folded once, when a quote first does not occur in it literally."""

    def __init__(self, text: str) -> None:
        """Take the `text` to look up quotes in."""
        self._text = text

    def place(self, quote: str, after: int = 0) -> tuple[int, int] | None:
        """Return the offsets of the quote, if possible at or after `after`; None if not found.

        White space, quotation marks, dashes, upper and lower case, Markdown and punctuation at both ends are ignored.
        """
        bare = quote.strip()
        if not any(map(str.isalnum, bare)):
            return None
        found = self._text.find(bare, after)
        if found >= 0:
            return found, found + len(bare)
        text, offsets = self._folded
        whole = _folded(bare)[0].strip()
        for wanted in (whole, whole.strip(_ENDS)):
            at = text.find(wanted, bisect_left(offsets, after)) if wanted else -1
            at = text.find(wanted) if wanted and at < 0 else at
            if at >= 0:
                return offsets[at], offsets[at + len(wanted) - 1] + 1
        return None

    @cached_property
    def _folded(self) -> tuple[str, list[int]]:
        return _folded(self._text)


def _folded(text: str) -> tuple[str, list[int]]:
    """Return the text folded for comparison, and for each of its characters the offset that it comes from."""
    folded: list[str] = []
    offsets: list[int] = []
    done = 0
    for beside in (*(match.span() for match in _BESIDE.finditer(text)), (len(text), len(text))):
        for offset in range(done, beside[0]):
            for character in _fold(text[offset]):
                if character == " " and (not folded or folded[-1] == " "):
                    continue
                folded.append(character)
                offsets.append(offset)
        done = beside[1]
    return "".join(folded), offsets


def _fold(character: str) -> str:
    if character in _LEFT_OUT:
        return ""
    if character in _DASHES:
        return "-"
    if character.isspace():
        return " "
    if character.isascii():
        return character.lower()
    if unicodedata.category(character) == "Cf":
        return ""
    plain = unicodedata.normalize("NFKD", character).casefold()
    return "".join(" " if one.isspace() else one for one in plain)
