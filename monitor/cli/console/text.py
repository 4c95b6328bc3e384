"""How texts, times are written for a terminal."""

from __future__ import annotations

import unicodedata


def clean(text: str) -> str:
    """Replace all that could steer a terminal, character for character, so that offsets stay valid."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_harmless(character) for character in text)


def _harmless(character: str) -> str:
    if character in "\n\r\t\v\f\u2028\u2029\x85":
        return " "
    # Controls, invisible and direction-changing characters, lone surrogates, private use and unassigned; the
    # joiner that Persian and Indic words need is none of these.
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn") and character != "\u200c":
        return "\N{REPLACEMENT CHARACTER}"
    return character


def clock(seconds: float) -> str:
    """Write minutes and seconds: `12:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
