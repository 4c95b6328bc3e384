"""Reads the query of an address. Every error names the parameter, the value and what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, cast, get_args
from urllib.parse import parse_qsl

from monitor.jobs.documents import Order
from monitor.model.case import app_name
from monitor.quantities import parse_duration

Judged = Literal["no", "any"]
Outcome = Literal["defect", "passed", "score", "unscored", "skipped", "any"]

LIMIT: Final = 200
"""Maximum number of results in one response."""

_FEW: Final = 30
_LONGEST_VALUE: Final = 256
_LONGEST_PAGE: Final = 6  # digits
_EARLIEST, _LATEST = 0.0, 32_503_680_000.0  # the year 3000


class Window(NamedTuple):
    """A window of the overview in seconds, and the length and number of the shortest steps of its trend."""

    seconds: float
    step: float
    steps: int


WINDOWS: Final[Mapping[str, Window]] = {
    "10m": Window(600, 10, 60),
    "1h": Window(3600, 60, 60),
    "6h": Window(21600, 600, 36),
    "24h": Window(86400, 1800, 48),
    "7d": Window(604800, 10800, 56),
}
"""The windows over which rates can be shown; the longest only if an alert has a window of that length."""

DEFAULT_WINDOW: Final = "24h"

PARAMETERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "app": ("The name of one app (service).", {"type": "string", "maxLength": _LONGEST_VALUE}),
    "evaluator": ("The name of one evaluator.", {"type": "string", "maxLength": _LONGEST_VALUE}),
    "window": ("The window of rates and trends.", {"type": "string", "enum": list(WINDOWS)}),
    "since": (
        "Only results since then: how long ago, such as `24h`, or a time, such as `2026-03-01T12:00:00Z`.",
        {"type": "string", "default": "24h"},
    ),
    "until": ("Only results until then, written like `since`. Default: now.", {"type": "string"}),
    "outcome": ("Kind of result.", {"type": "string", "enum": list(get_args(Outcome)), "default": "defect"}),
    "level": ("A level of the evaluator's scale, such as `poor`.", {"type": "string", "maxLength": _LONGEST_VALUE}),
    "defect_rule": (
        "A defect rule defined in an alert, such as `high` or `low or higher`: only scores that it calls defects.",
        {"type": "string", "maxLength": _LONGEST_VALUE},
    ),
    "trace": ("The id of a trace, or of the row with the case.", {"type": "string", "maxLength": _LONGEST_VALUE}),
    "order": (
        "What comes first.",
        {"type": "string", "enum": list(get_args(Order)), "default": "worst"},
    ),
    "by": ("The order of cases; `api/v1/review` lists the orders.", {"type": "string", "maxLength": _LONGEST_VALUE}),
    "result": ("The id of the result to label.", {"type": "string", "maxLength": _LONGEST_VALUE}),
    "last": ("The id of the result that was labelled last.", {"type": "string", "maxLength": _LONGEST_VALUE}),
    "show": ("Which labels.", {"type": "string", "enum": ["mine", "disagreements", "all"], "default": "mine"}),
    "judged": (
        "`no`: only answers that no judge has scored.",
        {"type": "string", "enum": list(get_args(Judged)), "default": "no"},
    ),
    "search": ("Part of a document's address.", {"type": "string", "maxLength": _LONGEST_VALUE}),
    "page": ("The number of the page.", {"type": "integer", "minimum": 1, "default": 1}),
    "limit": (
        "Maximum number of results.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT, "default": _FEW},
    ),
}
"""Every parameter: its description and its JSON Schema."""

REVIEW_QUEUES: Final = ("app",)
REVIEW: Final = ("app", "evaluator", "by")
REVIEW_CASE: Final = (*REVIEW, "result", "last")
REVIEW_NEXT: Final = (*REVIEW, "result")
REVIEW_LABELS: Final = ("show",)
REVIEW_JUDGE: Final = ("app", "evaluator")
Show = Literal["mine", "disagreements", "all"]

WHY: Final = ("trace", "evaluator", "since", "app")
OVERVIEW: Final = ("window", "app")
DIAGNOSIS: Final = ("app", "evaluator", "since", "until", "defect_rule")
ANSWERS: Final = ("app", "evaluator", "since", "until", "outcome", "level", "defect_rule", "limit")

DOCUMENTS: Final = ("app", "evaluator", "since", "order", "search", "page")
UNANSWERED: Final = ("app", "since")
WORST: Final = ("app", "since", "judged", "limit")


class BadQueryError(Exception):
    """A parameter is wrong. The message names it, the value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersQuery:
    """A search for answers; empty fields match any. Times are wall-clock seconds; `since_text` is `since` as given."""

    app: str = ""
    evaluator: str = ""
    since: float = 0.0
    since_text: str = "24h"
    until: float | None = None
    outcome: Outcome = "defect"
    level: str = ""
    defect_rule: str = ""
    limit: int = _FEW


class WorstQuery(NamedTuple):
    """The worst answers of an app, or of all if it is empty, since a wall-clock second."""

    app: str
    since: float
    since_text: str
    judged: Judged
    limit: int


class WhyQuery(NamedTuple):
    """The trace, or the evaluator and its period, to explain; empty if not given."""

    trace: str
    evaluator: str
    since: float
    since_text: str
    app: str


class DiagnosisQuery(NamedTuple):
    """The rate to diagnose, over the `window` seconds up to `until` or now; names are empty if not given."""

    app: str
    evaluator: str
    window: float
    until: float | None
    since_text: str
    defect_rule: str


class ListQuery(NamedTuple):
    """A list of documents or of unanswered questions of one app; `window` is in seconds, up to now."""

    app: str
    evaluator: str
    window: float
    since_text: str
    order: Order
    search: str
    page: int


def read(query: str, allowed: Collection[str]) -> dict[str, str]:
    """Return the parameters that have a value. Raises `BadQueryError`."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=20, errors="replace")
    except ValueError:
        raise BadQueryError("too many parameters, the limit is 20") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in allowed:
            raise BadQueryError(f"{name!r:.80} is not a parameter here. Parameters: {', '.join(allowed) or 'none'}")
        if name in found:
            raise BadQueryError(f"{name}: given twice")
        given = app_name(value) if name == "app" else value
        if len(given) > _LONGEST_VALUE:
            raise BadQueryError(f"{name}: {len(given)} characters are too many, the limit is {_LONGEST_VALUE}")
        found[name] = given
    return {name: value for name, value in found.items() if value}


def window(given: Mapping[str, str], longest: float) -> str:
    """Return the requested window, of at most `longest` seconds. Raises `BadQueryError`."""
    return _one_of("window", given.get("window", DEFAULT_WINDOW), windows(longest))


def windows(longest: float) -> list[str]:
    """Return the windows of at most `longest` seconds."""
    return [name for name, one in WINDOWS.items() if one.seconds <= longest]


def answers(given: Mapping[str, str], now: float, levels: Collection[str], rules: Collection[str] = ()) -> AnswersQuery:
    """Return the requested search at the wall-clock second `now`, among these levels and defect rules of alerts.

    Raises `BadQueryError`.
    """
    since_text = given.get("since", "24h")
    since = _time("since", since_text, now)
    until = _time("until", given["until"], now) if "until" in given else None
    if until is not None and until <= since:
        raise BadQueryError(f"until: {given['until']!r} is not after since, {since_text!r}")
    return AnswersQuery(
        app=given.get("app", ""),
        evaluator=given.get("evaluator", ""),
        since=since,
        since_text=since_text,
        until=until,
        outcome=cast("Outcome", _one_of("outcome", given.get("outcome", "defect"), get_args(Outcome))),
        level=_one_of("level", given["level"], levels) if "level" in given else "",
        defect_rule=_one_of("defect_rule", given["defect_rule"], rules) if "defect_rule" in given else "",
        limit=_limit(given.get("limit", str(_FEW))),
    )


def why(given: Mapping[str, str], now: float) -> WhyQuery:
    """Return what to explain, at the wall-clock second `now`. Raises `BadQueryError`."""
    since_text = given.get("since", "24h")
    since = _time("since", since_text, now)
    if since >= now:
        raise BadQueryError(f"since: {since_text!r} is not in the past")
    return WhyQuery(given.get("trace", ""), given.get("evaluator", ""), since, since_text, given.get("app", ""))


def worst(given: Mapping[str, str], now: float) -> WorstQuery:
    """Return the request for worst answers, at the wall-clock second `now`. Raises `BadQueryError`."""
    since_text = given.get("since", "24h")
    judged = cast("Judged", _one_of("judged", given.get("judged", "no"), get_args(Judged)))
    limit = _limit(given.get("limit", str(_FEW)))
    return WorstQuery(given.get("app", ""), _time("since", since_text, now), since_text, judged, limit)


def diagnosis(given: Mapping[str, str], now: float, rules: Collection[str]) -> DiagnosisQuery:
    """Return what to diagnose, at the wall-clock second `now`, by one of these rules. Raises `BadQueryError`."""
    since_text = given.get("since", "6h")
    since = _time("since", since_text, now)
    until = _time("until", given["until"], now) if "until" in given else None
    window = round((now if until is None else until) - since)
    if window <= 0:
        raise BadQueryError(f"since: {since_text!r} is not before {'until' if 'until' in given else 'now'}")
    rule = _one_of("defect_rule", given["defect_rule"], rules) if "defect_rule" in given else ""
    return DiagnosisQuery(given.get("app", ""), given.get("evaluator", ""), float(window), until, since_text, rule)


def listing(given: Mapping[str, str], now: float) -> ListQuery:
    """Return the requested list, at the wall-clock second `now`. Raises `BadQueryError`."""
    since_text = given.get("since", "7d")
    window = now - _time("since", since_text, now)
    if window <= 0:
        raise BadQueryError(f"since: {since_text!r} is not in the past")
    page = given.get("page", "1")
    if not (page.isascii() and page.isdigit() and len(page) <= _LONGEST_PAGE and int(page) >= 1):
        raise BadQueryError(f"page: {page!r} is not a whole number from 1")
    return ListQuery(
        app=given.get("app", ""),
        evaluator=given.get("evaluator", ""),
        window=round(window, 3),
        since_text=since_text,
        order=cast("Order", _one_of("order", given.get("order", "worst"), get_args(Order))),
        search=given.get("search", ""),
        page=int(page),
    )


def judge(query: str) -> dict[str, str]:
    """Return the app and evaluator of the requested judge. Raises `BadQueryError`."""
    given = read(query, REVIEW_JUDGE)
    return {name: given.get(name, "") for name in REVIEW_JUDGE}


def labels(given: Mapping[str, str]) -> Show:
    """Return which labels to show. Raises `BadQueryError`."""
    return cast("Show", _one_of("show", given.get("show", "mine"), get_args(Show)))


def _one_of(name: str, value: str, allowed: Collection[str]) -> str:
    if value not in allowed:
        raise BadQueryError(f"{name}: {value!r} is not one of: {', '.join(allowed) or 'none'}")
    return value


def _limit(value: str) -> int:
    if not (value.isascii() and value.isdigit() and 1 <= int(value) <= LIMIT):
        raise BadQueryError(f"limit: {value!r} is not a whole number from 1 to {LIMIT}")
    return int(value)


def _time(name: str, value: str, now: float) -> float:
    try:
        at = now - parse_duration(value)
    except ValueError:
        try:
            stamp = datetime.fromisoformat(value)
            at = (stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            allowed = "a duration, such as `24h` or `7d`, or a time, such as `2026-03-01T12:00:00Z`"
            raise BadQueryError(f"{name}: {value!r} is not {allowed}") from None
    if not _EARLIEST <= at <= _LATEST:
        raise BadQueryError(f"{name}: {value!r} is before 1970 or after the year 3000")
    return at
