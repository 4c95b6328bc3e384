"""Renders views as HTML with the templates beside this file. Everything is escaped; nothing external is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined

from monitor.model.case import ContextStatus
from monitor.model.outcome import skipped_in_words
from monitor.quantities import human_duration
from monitor.web import charts, highlights, texts
from monitor.web.cases import unsupported
from monitor.web.queries import ListQuery
from monitor.web.views import EvidenceView, ResultView

_FOLD: Final = 4000
"""Characters of a long text that are shown; the rest is folded."""

STATES: Final[Mapping[str, str]] = {
    "critical": "critical",
    "warning": "warning",
    "ok": "ok",
    "not_enough_data": "not enough data",
    "no_scores": "no scores yet",
    "no_alert": "no alert",
}
OUTCOMES: Final[Mapping[str, str]] = {
    "sampled_out": "sampled out",
    "filtered": "filtered",
    "no_request": "no request",
    "incomplete": "incomplete",
    "content_missing": "content missing",
    "failed_request": "failed requests",
    "own_telemetry": "own telemetry",
    "invalid": "invalid",
    "too_large": "too large",
    "too_many": "requests beyond the limit of one trace",
    "expired": "expired",
    "poison": "set aside",
    "forgotten": "erased on request",
    "handed_over": "handed over to another replica",
    "evaluated": "evaluated",
}


class Marked(NamedTuple):
    """A response with highlighted evidence: a visible part, a folded part, and the evidence by number."""

    head: Sequence[highlights.HighlightedPart]
    tail: Sequence[highlights.HighlightedPart]
    marks: Sequence[EvidenceView]


def marked(response: str, results: Sequence[ResultView], fold: int = _FOLD) -> Marked:
    """Split `response` into highlighted parts; a text much longer than `fold` characters is folded there."""
    return with_marks(response, [one for result in results for one in unsupported(result)], fold)


def with_marks(response: str, marks: Sequence[EvidenceView], fold: int = _FOLD) -> Marked:
    """Split `response` like `marked`, at these marks."""
    parts = highlights.highlight(response, [one.place or (0, 0) for one in marks])
    at = fold if len(response) > fold * 5 // 4 else len(response)
    return Marked(*highlights.split(parts, at), marks)


def with_stretches(response: str, stretches: Sequence[tuple[int, int]]) -> Marked:
    """Split `response` like `marked`, at passages without a verdict."""
    return with_marks(
        response, [EvidenceView(claim="", verdict="found", start=start, end=end, note="") for start, end in stretches]
    )


def titled(part: highlights.HighlightedPart, marks: Sequence[EvidenceView]) -> str:
    """Return the tooltip of a highlighted part: what the evidence says about it."""
    notes = [marks[number] for number in part.marks[:5]]
    return "; ".join(f"{one.verdict}: {texts.plain((one.note or one.claim)[:300])}" for one in notes)


def link(url: str) -> str:
    """Return `url` if it is a web address that may become a link; else an empty string."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.hostname and url.isprintable() else ""


def to_case(trace_id: str) -> str:
    """Return the address of a case, relative to the root of the UI."""
    return f"case/{quote(trace_id, safe='', errors='replace')}"


def to_answers(**query: str) -> str:
    """Return the address of a list of answers, relative to the root of the UI; empty values are left out."""
    given = {name: value for name, value in query.items() if value}
    return f"answers?{urlencode(given, errors='replace')}" if given else "answers"


def to_worst(**query: str) -> str:
    """Return the address of the worst answers, relative to the root of the UI; empty values are left out."""
    return f"worst?{urlencode({name: value for name, value in query.items() if value}, errors='replace')}"


def to_list(name: str, asked: ListQuery, page: int = 1) -> str:
    """Return the address of a list with the same query; `name` is `documents`, `documents.csv` or `unanswered`."""
    given = {"app": asked.app, "since": asked.since_text}
    if name != "unanswered":
        given |= {"evaluator": asked.evaluator, "order": asked.order, "search": asked.search}
        given |= {"page": str(page) if page > 1 else ""}
    return f"{name}?{urlencode({key: value for key, value in given.items() if value}, errors='replace')}"


def render(name: str, *, now: float, **values: Any) -> bytes:
    """Return the page of the template `name`. The value `up` leads from the page to the root."""
    text = _environment().get_template(f"{name}.html").render(now=now, time=texts.Times(now), page=name, **values)
    return text.encode("utf-8", "replace")


@cache
def _environment() -> Environment:
    made = Environment(loader=PackageLoader("monitor.web"), autoescape=True, undefined=StrictUndefined)
    made.filters |= {
        "t": texts.shown,
        "plain": texts.plain,
        "percent": texts.percent,
        "skipped": skipped_in_words,
        "number": texts.number,
        "duration": human_duration,
        "stamp": texts.stamp,
        "moment": texts.moment,
    }
    made.globals |= {
        "states": STATES,
        "outcomes": OUTCOMES,
        "contexts": [(one.value, one.words) for one in ContextStatus],
        "interval": texts.interval,
        "scale": charts.scale,
        "bar": charts.bar,
        "trend": charts.trend,
        "marked": marked,
        "with_marks": with_marks,
        "with_stretches": with_stretches,
        "titled": titled,
        "link": link,
        "to_case": to_case,
        "to_answers": to_answers,
        "to_worst": to_worst,
        "to_why": texts.to_why,
        "to_diagnosis": texts.to_diagnosis,
        "to_list": to_list,
        "to_review": texts.to_review,
        "fold": _FOLD,
    }
    return made
