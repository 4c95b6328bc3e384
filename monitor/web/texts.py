"""Text of the traffic as HTML: invisible characters are shown by name, and nothing becomes markup.

Also numbers, shares and times in readable form.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup, escape

from monitor import quantities
from monitor.quantities import human_duration

# Control characters, invisible characters, and those that change the direction of what follows. Not the two joiners,
# which emoji and many scripts need, nor the visible relatives of the directional marks.
_HIDDEN: Final = re.compile(
    "(?P<one>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f\ud800-\udfff]|\r(?!\n))(?P=one)*"
)
_AT_MOST: Final = 1000
"""Invisible characters shown by name in one text; further ones become replacement characters."""

_CONTROLS: Final = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
)
_SPACE: Final = 0x20


def shown(text: str) -> Markup:
    """Return `text` as HTML that shows all of it, for the content of an element."""
    left = _AT_MOST

    def name(found: re.Match[str]) -> str:
        nonlocal left
        left -= 1
        if left < 0:
            return "\N{REPLACEMENT CHARACTER}"
        return _named(found["one"], len(found[0]))

    # Escaping first neither changes nor creates a hidden character.
    return Markup(_HIDDEN.sub(name, str(escape(text))))  # noqa: S704 - it has just been escaped


def plain(text: str) -> str:
    """Return `text` for an attribute or a title: one line, invisible characters replaced."""
    return " ".join(_HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text).split())


def whole(text: str) -> str:
    """Replace unpaired surrogates, character by character, so that `text` can be encoded."""
    return re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", text)


def _named(character: str, times: int) -> str:
    code = ord(character)
    sign = _CONTROLS.split()[code] if code < _SPACE else f"U+{code:04X}"
    name = unicodedata.name(character, f"U+{code:04X}")
    repeated = f" \u00d7{times}" if times > 1 else ""
    return f'<span class="hidden" title="{escape(name)}">{sign}{repeated}</span>'


def to_why(**query: str) -> str:
    """Return the address of an explanation, relative to the root of the UI; empty values are left out."""
    return f"why?{urlencode({name: value for name, value in query.items() if value}, errors='replace')}"


def to_review(name: str = "", **query: str) -> str:
    """Return the address of a page of the review, relative to the root of the UI; empty values are left out."""
    given = urlencode({key: value for key, value in query.items() if value}, errors="replace")
    return f"review{f'/{name}' if name else ''}{f'?{given}' if given else ''}"


def to_diagnosis(app: str, evaluator: str, *, fired: float, window: float | None, defect_rule: str = "") -> str:
    """Return the address of the diagnosis of an alert that fired at `fired`, relative to the root of the UI."""
    since = stamp((fired - max(window or 0.0, 3600.0)) // 60 * 60)
    query = {"app": app, "evaluator": evaluator, "defect_rule": defect_rule, "since": since}
    return f"diagnosis?{urlencode({name: value for name, value in query.items() if value}, errors='replace')}"


def percent(share: float | None) -> str:
    """Format a share like `quantities.percent`, without a line break; a dash for None."""
    return "\u2013" if share is None else quantities.percent(share).replace(" ", "\u00a0")


def interval(lower: float | None, upper: float | None) -> str:
    """Format an interval: `2.0 to 6.0 %`."""
    return f"{percent(lower).removesuffix(chr(0xA0) + '%')} to {percent(upper)}"


def number(value: float) -> str:
    """Format a number with thousands separators; fractions have three significant digits."""
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"  # noqa: PLR2004


class Times:
    """Formats times relative to `now`, with the exact time in UTC as a tooltip."""

    def __init__(self, now: float) -> None:
        self._now = now

    def __call__(self, at: float) -> Markup:
        """Format how long ago `at` was: `3 min ago`."""
        passed = self._now - at
        return self._written(at, f"{human_duration(passed)} ago" if passed >= 1 else "now")

    def lasting(self, since: float) -> Markup:
        """Format how long something has lasted that began at `since`: `3 min`."""
        return self._written(since, human_duration(max(self._now - since, 1.0)))

    def _written(self, at: float, words: str) -> Markup:
        exact = stamp(at)
        return Markup('<time datetime="{}" title="{}">{}</time>').format(exact, exact, words)


def moment(at: float) -> str:
    """Format a time for people, in UTC: `2026-03-14 15:21`; a dash if it is out of range."""
    return stamp(at).replace("T", "\u00a0")[:16]


def stamp(at: float) -> str:
    """Format a time as RFC 3339 in UTC, in whole seconds; a dash if it is out of range."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return "\u2013"
