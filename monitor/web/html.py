"""Views as HTML, by the templates beside this file. Everything is escaped; nothing is loaded from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined

from monitor.quantities import human_duration
from monitor.web import drawing, marking, texts, views
from monitor.web.cases import unsupported
from monitor.web.sent import STYLE

_FOLD: Final = 4000
"""Characters of a long text that stand open; the rest is folded."""

STATES: Final[Mapping[str, str]] = {
    "critical": "critical",
    "warning": "warning",
    "ok": "ok",
    "not_enough_data": "too few judged",
    "no_verdicts": "no verdicts yet",
    "not_watched": "no alert set",
}
OUTCOMES: Final[Mapping[str, str]] = {
    "sampled_out": "sampled out",
    "filtered": "filtered",
    "not_rag": "no RAG request",
    "incomplete": "incomplete",
    "no_context": "judged without context",
    "content_missing": "texts missing",
    "failed_request": "request failed",
    "own_telemetry": "the monitor's own",
    "invalid": "invalid",
    "too_large": "too large",
    "expired": "given up",
    "forgotten": "forgotten on request",
    "handed_over": "handed over",
    "evaluated": "evaluated",
}


class Marked(NamedTuple):
    """A response with what verdicts hold against it: an open part, a folded one, and the marks by their numbers."""

    head: Sequence[marking.Stretch]
    tail: Sequence[marking.Stretch]
    marks: Sequence[views.Evidence]


def marked(response: str, verdicts: Sequence[views.Verdict], fold: int = _FOLD) -> Marked:
    """`response` in stretches, the rest folded where it is much longer than `fold` characters."""
    marks = [one for verdict in verdicts for one in unsupported(verdict)]
    parts = marking.stretches(response, [(one.start, one.end) for one in marks])
    at = fold if len(response) > fold * 5 // 4 else len(response)
    return Marked(*marking.split(parts, at), marks)


def titled(part: marking.Stretch, marks: Sequence[views.Evidence]) -> str:
    """What the verdicts say of a stretch, for its title."""
    told = [marks[number] for number in part.marks[:5]]
    return "; ".join(f"{one.verdict}: {texts.plain((one.note or one.claim)[:300])}" for one in told)


def link(url: str) -> str:
    """`url` where it is an address of the web, to be a link; else empty."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.hostname and url.isprintable() else ""


def to_case(trace_id: str) -> str:
    """The address of a case, from the root of the page."""
    return f"case/{quote(trace_id, safe='', errors='replace')}"


def to_answers(**query: str) -> str:
    """The address of a list of answers, from the root of the page; empty values are left out."""
    given = {name: value for name, value in query.items() if value}
    return f"answers?{urlencode(given, errors='replace')}" if given else "answers"


def render(name: str, *, now: float, **values: Any) -> bytes:
    """The page of the template `name`. `up` leads from the page to the root."""
    text = _environment().get_template(f"{name}.html").render(now=now, time=texts.Times(now), page=name, **values)
    return text.encode("utf-8", "replace")


def _environment(_made: list[Environment] = []) -> Environment:  # noqa: B006 - made once, where it is first needed
    if not _made:
        made = Environment(
            loader=PackageLoader("monitor.web"),
            autoescape=True,
            undefined=StrictUndefined,
        )
        made.filters |= {
            "t": texts.shown,
            "plain": texts.plain,
            "percent": texts.percent,
            "number": texts.number,
            "duration": human_duration,
            "stamp": texts.stamp,
        }
        made.globals |= {
            "style": STYLE,
            "states": STATES,
            "outcomes": OUTCOMES,
            "interval": texts.interval,
            "scale": drawing.scale,
            "bar": drawing.bar,
            "trend": drawing.trend,
            "marked": marked,
            "titled": titled,
            "link": link,
            "to_case": to_case,
            "to_answers": to_answers,
            "to_why": texts.to_why,
            "fold": _FOLD,
        }
        _made.append(made)
    return _made[0]
