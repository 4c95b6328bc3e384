"""The finding of a check: how serious it is, its place in the configuration, and how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Level: TypeAlias = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    `place` is its place in the configuration; `fix` says what to do, and is empty if nothing is wrong.
    """

    level: Level
    place: str
    message: str
    fix: str = ""


def ok(place: str, message: str) -> Finding:
    """Report that something works."""
    return Finding("ok", place, message)


def warning(place: str, message: str, fix: str) -> Finding:
    """Report that something works, but not as well as it should, or not for long."""
    return Finding("warning", place, message, fix)


def failed(place: str, message: str, fix: str) -> Finding:
    """Report that something does not work."""
    return Finding("failed", place, message, fix)


def broken(place: str, error: Exception) -> Finding:
    """Report that a check itself raised an exception and so yields no more findings."""
    message = f"its checks ended with {type(error).__name__}, which is a bug in the monitor"
    return failed(place, message, "report the bug, with the version; the other findings are valid")
