"""How evaluators that look for patterns tell what they found."""

from __future__ import annotations

from monitor.model.outcome import Evidence

_CLAIM = 120


def found(claim: str, note: str, start: int = -1, end: int = -1) -> Evidence:
    """Evidence that `claim` was found: one line of at most 120 characters, with a mark where it was cut."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in claim[: 4 * _CLAIM]).split())
    cut = flat if len(flat) <= _CLAIM and len(claim) <= 4 * _CLAIM else flat[: _CLAIM - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return Evidence(cut, "found", start, end, note)
