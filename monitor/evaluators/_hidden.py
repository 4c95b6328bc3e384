"""Finds text that a model reads but people do not see: invisible characters, comments, encodings. Pure functions."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

_RUNS = 40  # encoded stretches examined per text
_SHORTEST = 24
_READABLE = 0.9
_DECODED = 2_000
_ROTATED = ("instructions", "previous", "password", "disregard")

# After a black flag, up to six tag characters spell a region.
_tags = re.compile(
    "(?<![\U000e0020-\U000e007e])(?:(?<!\U0001f3f4)[\U000e0020-\U000e007e]{4,}|[\U000e0020-\U000e007e]{7,})"
)
_invisible = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff]{8,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")
_split_word = re.compile("[a-z][\u200b\u2060\ufeff\u00ad]+(?=[a-z])", re.IGNORECASE)
_styled = re.compile(
    r"<[a-z]{1,12}\b[^<>]{0,200}?(?:display\s{0,3}:\s{0,3}none|visibility\s{0,3}:\s{0,3}hidden"
    r"|font-size\s{0,3}:\s{0,3}0"
    r"|opacity\s{0,3}:\s{0,3}0[;\"']|color\s{0,3}:\s{0,3}(?:white|#fff(?:fff)?)\b)[^<>]{0,200}>([^<]{1,4000})",
    re.IGNORECASE,
)
_base64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{24,}+={0,2}")
_hex = re.compile(r"(?<![0-9A-Za-z])(?:(?:\\x|0x)?[0-9a-fA-F]{2}[ ,]?){16,}+")
_binary = re.compile(r"(?<![01])(?:[01]{8} ?){6,}+")
_morse = re.compile(r"(?<![.\-\w])(?:[.\-]{1,6}(?: / | ?/ ?| )){6,}+[.\-]{0,6}")
_SIGNS = ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.."
_MORSE = dict(zip(_SIGNS.split(), "abcdefghijklmnopqrstuvwxyz", strict=True))


def _rotations() -> dict[str, int]:
    found = {word[::-1]: 0 for word in _ROTATED}
    for word in _ROTATED:
        for by in range(1, 26):
            found["".join(chr((ord(c) - 97 + by) % 26 + 97) for c in word)] = by
    return found


_rotated_words = _rotations()
_long_word = re.compile(r"(?<!\w)[a-z]{8,12}(?!\w)")


class Hidden(NamedTuple):
    """A stretch of hidden text: how it was hidden, its content, and whether the hiding must be deliberate."""

    how: str
    text: str
    telling: bool


def hidden(text: str) -> Iterator[Hidden]:
    """Find and decode hidden text. Comments and styled elements, common on web pages, are not `telling`."""
    if not text.isascii():
        for run in _tags.findall(text):
            yield Hidden("invisible tag characters", "".join(chr(ord(c) - 0xE0000) for c in run), telling=True)
        run = _invisible.search(text)
        if run:
            yield Hidden("a run of invisible characters", f"{len(run[0])} invisible characters", telling=True)
        split = _split_word.findall(text)
        if len(split) >= 3:  # noqa: PLR2004 - one or two are soft hyphens or hints for a line break
            yield Hidden("words split by invisible characters", f"{len(split)} places", telling=True)
    if "<" in text:
        for found in (*_comments(text), *_styled.findall(text)):
            yield Hidden("text that is not displayed", found, telling=False)


def _comments(text: str) -> Iterator[str]:
    """Find HTML comments; one that is not closed extends to the end of the text."""
    start = text.find("<!--")
    while start >= 0:
        end = text.find("-->", start)
        yield text[start + 4 : end if end >= 0 else len(text)]
        start = text.find("<!--", end) if end >= 0 else -1


def encoded(text: str) -> Iterator[Hidden]:
    """Find encoded stretches of `text`, and decode those that give readable text."""
    # Look for required characters first: most texts contain nothing that could be an encoding.
    long_word = max(map(len, text.split()), default=0) >= _SHORTEST
    for match in _runs(_base64, text, hinted=long_word):
        said = _from_base64(match[0])
        if said:
            yield Hidden("base64", said, telling=True)
    for match in _runs(_hex, text, hinted="20" in text):
        digits = re.sub(r"\\x|0x|[ ,]", "", match[0])
        said = _readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))
        if said:
            yield Hidden("hexadecimal", said, telling=True)
    for match in _runs(_binary, text, hinted="010" in text or "011" in text):
        bits = match[0].replace(" ", "")
        said = _readable(bytes(int(bits[at : at + 8], 2) for at in range(0, min(len(bits), 8 * _DECODED), 8)))
        if said:
            yield Hidden("binary", said, telling=True)
    for match in _runs(_morse, text, hinted=".-" in text or "-." in text):
        words = [[_MORSE.get(sign, "") for sign in word.split()] for word in match[0][: 8 * _DECODED].split("/")]
        said = " ".join("".join(word) for word in words).strip()
        if len(set(said)) > 4:  # noqa: PLR2004 - rows of dashes or dots are rules and leaders
            yield Hidden("Morse code", said, telling=True)


def rotated(folded: str) -> Hidden | None:
    """Find instructions in folded text that are reversed, or whose letters are all shifted by the same number."""
    found = _rotated_words.keys() & set(_long_word.findall(folded))
    if found:
        word = min(found, key=folded.find)
        by = _rotated_words[word]
        return Hidden(f"letters moved by {by}" if by else "text written backwards", word, telling=True)
    return None


def _runs(pattern: re.Pattern[str], text: str, *, hinted: bool) -> Iterator[re.Match[str]]:
    return islice(pattern.finditer(text), _RUNS) if hinted else iter(())


def _from_base64(run: str) -> str:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")[: 2 * _DECODED]
    try:
        return _readable(
            base64.b64decode(body[: len(body) // 4 * 4] if len(body) % 4 == 1 else body + "=" * (-len(body) % 4))
        )
    except ValueError:
        return ""


def _readable(raw: bytes) -> str:
    """Return `raw` decoded if it is text with words, else an empty text."""
    text = raw[:_DECODED].decode("utf-8", "replace")
    plain = sum(c.isalpha() or c == " " or c in ".,:;!?'\"-\n" or c.isdigit() for c in text)
    return text if " " in text and plain >= _READABLE * len(text) else ""
