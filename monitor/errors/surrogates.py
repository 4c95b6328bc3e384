r"""Repairs JSON in which half a character is escaped: `"cut \ud83d"`.

JavaScript's `JSON.stringify` writes this for a text cut in the middle of an emoji. It is not valid text, and a strict
parser refuses the whole document because of it.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = re.compile(
    rb"((?:\\\\)++"  # an escaped backslash: what follows it is not an escape
    rb"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"  # both halves of a character
    rb"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def without_lone(text: bytes) -> bytes:
    """Return a JSON text with U+FFFD for each escaped half of a character (lone surrogate), otherwise unchanged.

    Call it only for a text that a parser has refused: it takes a few times as long as parsing, linear in the length.
    """
    return _ESCAPES.sub(lambda found: found[1] or b"\\ufffd", text)
