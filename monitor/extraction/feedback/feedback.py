"""Read feedback that services post: a JSON object or a list of objects, each a user's score of one answer.

    {"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "thumbs": "down", "comment": "That law is no longer in force."}

docs/feedback.md has every field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from monitor.errors import InvalidData, TooLarge, surrogates
from monitor.extraction.feedback.telemetry import text_of
from monitor.model.case import app_name
from monitor.model.external import LONGEST_NAME, LONGEST_TEXT, USER_FEEDBACK, ExternalScore, ScoreSource

AT_MOST: Final = 1_000
"""Maximum number of entries in one request."""

_TRACE_ID: Final = re.compile(r"[0-9a-fA-F]{32}")
_SPAN_ID: Final = re.compile(r"[0-9a-fA-F]{16}")
_THUMBS: Final = {"up": "thumbs_up", "down": "thumbs_down"}
_LONGEST_ID: Final = 256
_LATEST: Final = 253_402_300_800.0  # the year 10000: no sender's clock means a later time


class EntryFault(NamedTuple):
    """An entry that can never be read: its position, from 0, and the reason."""

    entry: int
    error: str


class ParsedFeedback(NamedTuple):
    """The scores of one delivery, in order, and the faults of entries that cannot be read."""

    external_scores: list[ExternalScore]
    faults: list[EntryFault]


def take(body: bytes, *, app: str = "") -> ParsedFeedback:
    """Read a posted body. `app` applies to entries that do not name an app.

    Raises `InvalidData` for a body that is not JSON, or neither an object nor a list; `TooLarge` for more than
    `AT_MOST` entries.
    """
    try:
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError:
            given = orjson.loads(surrogates.without_lone(body))
    except orjson.JSONDecodeError as error:
        raise InvalidData(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    entries = given if isinstance(given, list) else [given]
    if not entries:
        raise InvalidData("no feedback: the list is empty")
    if len(entries) > AT_MOST:
        raise TooLarge(f"{len(entries)} entries in one request; the limit is {AT_MOST}")
    found = ParsedFeedback([], [])
    for number, entry in enumerate(entries):
        try:
            found.external_scores.append(_read(entry, app))
        except InvalidData as error:
            found.faults.append(EntryFault(number, str(error)))
    return found


def _read(entry: object, app: str) -> ExternalScore:
    if not isinstance(entry, Mapping):
        raise InvalidData(f"feedback must be an object, not {_shown(entry)}")
    unknown = next((key for key in entry if key not in _FIELDS), None)
    if unknown is not None:
        raise InvalidData(f"unknown key {_shown(unknown)}; allowed: {', '.join(_FIELDS)}")
    said = {key: read(key, entry[key]) for key, read in _FIELDS.items() if entry.get(key) is not None}
    if ("trace_id" in said) == ("request_id" in said):
        raise InvalidData("needs exactly one of trace_id and request_id, for the answer that it is about")
    words = [key for key in ("thumbs", "score", "label") if key in said]
    if not words or ("thumbs" in said and len(words) > 1):
        raise InvalidData("needs thumbs (`up` or `down`), or score, label or both")
    return ExternalScore(
        request_id=said.get("trace_id") or said["request_id"],
        evaluator=said.get("name", USER_FEEDBACK),
        score_source=ScoreSource.FEEDBACK,
        value=said.get("score"),
        label=said.get("thumbs") or said.get("label", ""),
        explanation=said.get("comment", ""),
        span_id=said.get("span_id", ""),
        app=said.get("app") or app_name(app),
        annotator="HUMAN",
        at=said.get("at", 0.0),
        key=said.get("id", ""),
        user=said.get("user_id", ""),
    )


def _id(pattern: re.Pattern[str], digits: int) -> Callable[[str, Any], str]:
    def read(key: str, value: Any) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value) or not value.strip("0"):
            raise InvalidData(f"{key}: must be {digits} hex digits, not all zero, not {_shown(value)}")
        return value.lower()

    return read


def _text(longest: int, *, cut: bool = False) -> Callable[[str, Any], str]:
    def read(key: str, value: Any) -> str:
        if not isinstance(value, str) or (not cut and (not value.strip() or len(value) > longest)):
            raise InvalidData(f"{key}: must be a text of 1 to {longest} characters, not {_shown(value)}")
        return text_of(value, longest)

    return read


def _app(key: str, value: Any) -> str:
    name = app_name(value) if isinstance(value, str) else ""
    if not name:
        raise InvalidData(f"{key}: must be the name of a service, not {_shown(value)}")
    return name


def _thumbs(key: str, value: Any) -> str:
    if not isinstance(value, str) or value not in _THUMBS:
        raise InvalidData(f"{key}: must be `up` or `down`, not {_shown(value)}")
    return _THUMBS[value]


def _score(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidData(f"{key}: must be a finite number, not {_shown(value)}")
    return float(value)


def _time(key: str, value: Any) -> float:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None:
                return max(moment.timestamp(), 0.0)
        except (ValueError, OverflowError):
            pass
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LATEST:
        return float(value)
    raise InvalidData(f"{key}: must be seconds since 1970, or a date with time and zone, not {_shown(value)}")


def _shown(value: object) -> str:
    """Format a value for a message: short and printable."""
    return f"{value!a:.60}"


_FIELDS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "trace_id": _id(_TRACE_ID, 32),
    "request_id": _text(_LONGEST_ID),
    "span_id": _id(_SPAN_ID, 16),
    "app": _app,
    "name": _text(LONGEST_NAME),
    "thumbs": _thumbs,
    "score": _score,
    "label": _text(LONGEST_NAME),
    "comment": _text(LONGEST_TEXT, cut=True),
    "user_id": _text(_LONGEST_ID),
    "at": _time,
    "id": _text(_LONGEST_ID),
}
