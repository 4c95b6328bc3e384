"""Normalises a text for pattern matching: undoes tricks that hide letters from a pattern. Pure functions."""

from __future__ import annotations

import re
import unicodedata

_LATIN = range(0xC0, 0x250)
_GREEK = range(0x370, 0x400)
# Letters of other scripts that look like Latin ones; folded only in words that also have Latin letters.
_LOOKALIKES = str.maketrans(
    "\u0430\u0432\u0435\u043a\u043c\u043d\u043e\u0440\u0441\u0442\u0443\u0445\u0456\u0458\u0455\u0501\u0261\u04bb"
    "\u03b1\u03b5\u03b9\u03ba\u03bd\u03bf\u03c1\u03c4\u03c5\u03c7\u03c9\u0578\u057d",
    "abekmhopctyxijsdgh" + "aeikvoptuxwnu",
)
_LEET = str.maketrans("013457@$", "oieastas")


def _without_accents() -> dict[int, str | None]:
    table: dict[int, str | None] = {}
    for code in (*_LATIN, *_GREEK):
        plain = "".join(c for c in unicodedata.normalize("NFD", chr(code)) if not unicodedata.combining(c))
        if plain != chr(code):
            table[code] = plain
    # Format characters (zero width, directions, soft hyphen) and accents that stand alone.
    table |= dict.fromkeys(
        [0xAD, 0x34F, 0x61C, 0x180E, 0xFEFF, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070)]
    )
    return table | dict.fromkeys([*range(0x300, 0x370), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE01F0)])


_PLAIN = _without_accents()
_word = re.compile(r"\w++")
_lookalike = re.compile(r"[\u0370-\u052f\u0561-\u0587]")
_latin = re.compile(r"[a-z]")
_leet = re.compile(r"[a-z][0134578@$]")
_leet_word = re.compile(r"(?<![\w@$.])[a-z0-9@$]++(?![\w@$]|\.\w)")
_letters_apart = re.compile(r"(?<!\w)(?:[a-z][ .\-_*]){5,60}[a-z](?!\w)")
_between = re.compile(r"[ .\-_*]")
_LEET_LETTERS = 4


def fold(text: str) -> str:
    """Return `text` in lower case, with single spaces, and without anything that disguises a word.

    Disguises are accents on Latin and Greek letters, zero-width characters, look-alike letters of other scripts, digits
    as letters (`1gnore`), and spaced letters (`i g n o r e`). Offsets are lost. Takes a few passes.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).casefold().translate(_PLAIN)
        if _lookalike.search(text) and _latin.search(text):
            text = _word.sub(_latinised, text)
    flat = " ".join(text.lower().split())
    flat = _letters_apart.sub(lambda found: _between.sub("", found[0]), flat)
    return _leet_word.sub(_unleet, flat) if _leet.search(flat) else flat


def _latinised(found: re.Match[str]) -> str:
    word = found[0]
    return word.translate(_LOOKALIKES) if _latin.search(word) and _lookalike.search(word) else word


def _unleet(found: re.Match[str]) -> str:
    word = found[0]
    if not _leet.search(word):
        return word
    letters = sum(map(str.isalpha, word))
    return word.translate(_LEET) if letters >= _LEET_LETTERS and letters > len(word) - letters else word
