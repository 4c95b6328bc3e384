"""Count how many requests arrive with question, context and answer, and advise how to send the missing fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from monitor.extraction.rows.shapes import SHAPES
from monitor.model.case import ContextStatus, Reading, ReadingStatus

FIELDS: Final = ("question", "context", "answer", "model", "session", "tokens")
"""Fields of a request. Without the first three it cannot be evaluated; the others are for slices and costs."""

_ADVICE: Final = Path(__file__).parents[1] / "conventions" / "advice"
_SECTION: Final = re.compile(r"^## (\w+)[ \t]*$", re.MULTILINE)
_ANYWHERE, _ROWS = "gen_ai", "rows"


@dataclass(slots=True)
class Coverage:
    """The number of requests, and how many of them arrived with each field."""

    requests: int = 0
    came: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIELDS, 0))

    def missing(self, name: str) -> int:
        """Return the number of requests that arrived without a field."""
        return self.requests - self.came[name]


def came(reading: Reading) -> tuple[str, ...] | None:
    """Return the fields that a request arrived with. Context is missing only if it was retrieved and not recorded.

    Return None for a trace without a request, or for a request that its service did not answer.
    """
    if reading.status not in (ReadingStatus.READY, ReadingStatus.CONTENT_MISSING):
        return None
    case = reading.case
    there = {
        "question": bool(case.request.query),
        "context": _has_context(reading),
        "answer": bool(case.response) or reading.status is not ReadingStatus.CONTENT_MISSING,
        "model": bool(case.model),
        "session": bool(case.session_id),
        "tokens": case.usage.total_tokens is not None,
    }
    return tuple(name for name in FIELDS if there[name])


def _has_context(reading: Reading) -> bool:
    """Return whether the context arrived. For a request without texts it is unknown whether there was a retrieval."""
    if reading.status is ReadingStatus.CONTENT_MISSING:
        return any(one.content for one in reading.case.retrieved_context)
    return reading.case.context_status is not ContextStatus.NOT_RECORDED


def collect(readings: Iterable[Reading]) -> Mapping[tuple[str, str], Coverage]:
    """Count the coverage of all requests among `readings`, by app and dialect."""
    found: dict[tuple[str, str], Coverage] = {}
    for reading in readings:
        fields = came(reading)
        if fields is not None:
            one = found.setdefault((reading.case.app, reading.case.convention), Coverage())
            one.requests += 1
            for name in fields:
                one.came[name] += 1
    return found


def advice(convention: str, name: str) -> str:
    """Return the smallest change to the instrumentation that adds a field to a dialect's traces, as Markdown.

    For a dialect without its own advice (a plug-in, a mapping in the configuration), return how to set the attributes
    of OpenTelemetry's own conventions by hand. Empty if there is no advice.
    """
    if any(convention == shape.name for shape in SHAPES):
        convention = _ROWS
    own = _sections(convention)
    return own[name] if name in own else _sections(_ANYWHERE).get(name, "")


def set_up(convention: str) -> str:
    """Return how to turn a dialect's instrumentation on, as Markdown. Empty if there is no advice."""
    path = _ADVICE / f"{convention}.md"
    if not convention.isidentifier() or not path.is_file():
        return ""
    return _SECTION.split(path.read_text(encoding="utf-8"))[0].partition("\n")[2].strip()


@cache
def _sections(convention: str) -> Mapping[str, str]:
    path = _ADVICE / f"{convention}.md"
    if not convention.isidentifier() or not path.is_file():
        return {}
    parts = _SECTION.split(path.read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}
