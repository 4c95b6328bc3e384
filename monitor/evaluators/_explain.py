"""How evaluators write explanations and evidence: on one line, of limited length, with a mark if something was cut."""

from __future__ import annotations

from typing import Final

from monitor.model.outcome import Evidence

EXPLANATION: Final = 2_000
"""Maximum characters kept of an explanation."""
_CLAIM: Final = 120


def one_line(text: str, most: int = EXPLANATION) -> str:
    """Return `text` on one line, without control characters; cut at `most` characters, with an ellipsis."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())
    whole = len(flat) <= most and len(text) <= 4 * most
    return flat if whole else flat[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def found(claim: str, note: str, start: int | None = None, end: int | None = None) -> Evidence:
    """Return evidence that a pattern was found; `claim` is kept up to 120 characters."""
    return Evidence(one_line(claim, _CLAIM), "found", start, end, note)
