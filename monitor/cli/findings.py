"""What `rag-monitor doctor` has found: one line each, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

import orjson

from monitor.cli.console.text import clean

Level: TypeAlias = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    `place` is where it stands in the configuration; `mend` is empty where all is well.
    """

    level: Level
    place: str
    found: str
    mend: str = ""


def ok(place: str, found: str) -> Finding:
    """It works."""
    return Finding("ok", place, found)


def warning(place: str, found: str, mend: str) -> Finding:
    """It works, but not as well as it should, or not for long."""
    return Finding("warning", place, found, mend)


def failed(place: str, found: str, mend: str) -> Finding:
    """It does not work."""
    return Finding("failed", place, found, mend)


def count(findings: Sequence[Finding], level: Level) -> int:
    """How many there are of a level."""
    return sum(one.level == level for one in findings)


def as_json(findings: Sequence[Finding]) -> str:
    """One JSON object."""
    told = {
        "findings": [asdict(one) for one in findings],
        "failed": count(findings, "failed"),
        "warnings": count(findings, "warning"),
    }
    return orjson.dumps(told, option=orjson.OPT_INDENT_2).decode()


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """A line for each, and one that sums up."""
    widest = max((len(one.place) for one in findings), default=0)
    for one in findings:
        mend = f": {one.mend}" if one.mend else ""
        yield f"{one.level:7}  {one.place:{widest}}  {clean(one.found)}{clean(mend)}"
    yield ""
    yield f"{count(findings, 'failed')} failed, {count(findings, 'warning')} warnings"
