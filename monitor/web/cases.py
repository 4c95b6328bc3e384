"""Answers and what was said of them, out of the history. Rows come from a file, so what they lack is empty here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio.to_thread

from monitor.quantities import human_duration
from monitor.telemetry.metrics import UNKNOWN_APP
from monitor.web import marking, views
from monitor.web.counted import foreign
from monitor.web.facts import Facts
from monitor.web.queries import AnswersQuery
from monitor.web.settings import PageSettings
from monitor.web.texts import whole

TEXT: Final = 200_000
"""Characters of one text at most, and of all documents of a case together five times as many."""
_DOCUMENTS, _TURNS, _VERDICTS, _EVIDENCE = 200, 200, 200, 500
_VERSIONS = ("judge", "prompt", "index", "service")
_QUESTION, _EXCERPT = 300, 700
"""Characters of question and response in a list."""


async def answers(facts: Facts, query: AnswersQuery) -> views.Answers:
    """What was looked for, each answer once. Raises `MonitorError` where the history cannot be read."""
    scales = {one.evaluator.name: one.evaluator.scale for one in facts.assigned}
    ends = {
        name: (one.lowest, one.highest) if one.better == "higher" else (one.highest, one.lowest)
        for name, one in scales.items()
    }
    rows = await facts.results.search(
        apps=() if not query.app else ("", query.app) if query.app == UNKNOWN_APP else (query.app,),
        evaluator=query.evaluator or None,
        since=query.since,
        until=query.until,
        outcome=query.outcome,
        order="worst" if query.outcome in ("defect", "passed", "score") else "newest",
        scales=ends,
        bands=_bands(facts, query) if query.level else None,
        limit=query.limit + 1,
    )
    now = facts.runtime.clock.now()
    return views.Answers(
        at=now,
        app=query.app,
        evaluator=query.evaluator,
        since=query.since,
        until=query.until,
        outcome=query.outcome,
        level=query.level,
        answers=await anyio.to_thread.run_sync(_by_trace, rows[: query.limit]),  # may be megabytes
        more=len(rows) > query.limit,
        texts_kept=facts.keeps_texts,
        why_none="" if rows else _why_none(facts, query, now),
    )


async def case(facts: Facts, settings: PageSettings, trace_id: str) -> views.Case | None:
    """One answer with all that is known of it; None where nothing is. Raises `MonitorError` as `answers`."""
    rows = await facts.results.by_trace(trace_id)
    return await anyio.to_thread.run_sync(_case, rows, facts, settings) if rows else None


def _case(rows: Sequence[Mapping[str, Any]], facts: Facts, settings: PageSettings) -> views.Case:
    row = next((one for one in rows if "response" in one), rows[0])
    cut: list[str] = []
    text = partial(_cut, cut=cut)
    request = _mapping(row.get("request"))
    answered_at, stated = _number(row.get("answered_at")), _mapping(row.get("attributes"))
    return views.Case(
        at=facts.runtime.clock.now(),
        trace_id=_text(row.get("trace_id")),
        span_id=_text(row.get("span_id")),
        app=_text(row.get("app")) or UNKNOWN_APP,
        source=_text(row.get("source")),
        convention=_text(row.get("convention")),
        session_id=_text(row.get("session_id")),
        model=_text(row.get("model")),
        traffic=_text(row.get("traffic")),
        answered_at=answered_at or None,
        trace_url=settings.trace_link(_text(row.get("trace_id")), _text(row.get("span_id"))),
        slices={name: _text(stated.get(name)) for name in facts.slices},
        attributes={_text(name): _text(value) for name, value in stated.items() if name not in facts.slices},
        question=text("question", request.get("query")) if request else None,
        history=[
            views.Turn(role=_text(one.get("role")), content=text(f"turn {number}", one.get("content")))
            for number, one in enumerate(_list(request.get("history"))[-_TURNS:], 1)
        ],
        documents=_documents(row.get("retrieved_context"), cut),
        response=text("response", row["response"]) if "response" in row else None,
        cut=cut,
        verdicts=[_verdict(one) for one in rows[-_VERDICTS:]],
    )


def _by_trace(rows: Sequence[Mapping[str, Any]]) -> list[views.Found]:
    """In the order of the first verdict of each; of those with the same words only the first."""
    together: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        together.setdefault((_text(row.get("trace_id")), _text(row.get("span_id"))), []).append(row)
    alike: dict[object, list[list[Mapping[str, Any]]]] = {}
    for key, ours in together.items():
        first = _telling(ours)
        response, request = _text(first.get("response")), _mapping(first.get("request"))
        words = (_text(ours[0].get("app")), _text(request.get("query")), response) if response else key
        alike.setdefault(words, []).append(ours)
    return [_found(group[0], alike=len(group) - 1) for group in alike.values()]


def _telling(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first that has the texts of the case: verdicts of others have none."""
    return next((one for one in rows if "response" in one), rows[0])


def _found(rows: Sequence[Mapping[str, Any]], *, alike: int) -> views.Found:
    row, verdicts = _telling(rows), [_verdict(one) for one in rows]
    request = _mapping(row.get("request"))
    response = _text(row.get("response"))
    marks = [(one.start, one.end) for verdict in verdicts for one in unsupported(verdict)]
    start, end = marking.window(len(response), marks, _EXCERPT)
    moved = [
        one.model_copy(update={"evidence": [_moved(piece, start, end) for piece in one.evidence]}) for one in verdicts
    ]
    question = _text(request.get("query"))
    return views.Found(
        trace_id=_text(row.get("trace_id")),
        app=_text(row.get("app")) or UNKNOWN_APP,
        at=min(one.judged_at for one in verdicts),
        question=(f"{question[:_QUESTION]}…" if len(question) > _QUESTION else question) if request else None,
        response=response[start:end] if "response" in row else None,
        response_cut=end - start < len(response),
        alike=alike,
        verdicts=moved,
    )


def unsupported(verdict: views.Verdict) -> list[views.Evidence]:
    """What a verdict holds against the response: stretches and claims that are not supported, and what was found."""
    return [one for one in verdict.evidence if one.verdict != "supported"]


def _moved(piece: views.Evidence, start: int, end: int) -> views.Evidence:
    """Evidence with its offsets in an excerpt from `start` to `end`."""
    first, last = max(piece.start, start), min(piece.end, end)
    offsets = {"start": first - start, "end": last - start} if piece.start >= 0 and first < last else _NOWHERE
    return piece.model_copy(update=offsets)


_NOWHERE: Final = {"start": -1, "end": -1}


def _verdict(row: Mapping[str, Any]) -> views.Verdict:
    judge, drawn, behind = _mapping(row.get("judge")), row.get("sampling"), _mapping(row.get("versions"))
    judged_at, answered_at = _number(row.get("judged_at")), _number(row.get("answered_at"))
    return views.Verdict.model_validate(
        {
            "evaluator": _text(row.get("evaluator")),
            "version": _text(row.get("version")),
            "judged_at": judged_at,
            "outcome": row.get("outcome"),
            "reason": _text(row.get("reason")),
            "detail": _text(row.get("detail"))[:TEXT],
            "score": None if row.get("score") is None else _number(row["score"]),
            "label": _text(row.get("label")),
            "level": _text(row.get("level")),
            "defect": bool(row.get("defect")),
            "explanation": _text(row.get("explanation"))[:TEXT],
            "contradicts": row.get("contradicts") is True,
            "evidence": [_evidence(one) for one in _list(row.get("evidence"))[:_EVIDENCE]],
            "weight": _number(row.get("weight")),
            "probability": _number(_mapping(drawn).get("probability")) if drawn else None,
            "lag": max(judged_at - answered_at, 0.0) if answered_at > 0 else None,
            "model": _text(judge.get("model")),
            "dollars": _number(judge.get("dollars")),
            "seconds": _number(judge.get("seconds")),
            "input_tokens": int(_number(judge.get("input_tokens"))),
            "output_tokens": int(_number(judge.get("output_tokens"))),
            "cached": bool(judge.get("cached")),
            "versions": {name: text for name in _VERSIONS if (text := _text(behind.get(name)))},
            "standing": row.get("standing", "live"),
        }
    )


def _evidence(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "claim": _text(given.get("claim"))[:TEXT],
        "verdict": given.get("verdict"),
        "start": int(_number(given.get("start", -1))),
        "end": int(_number(given.get("end", -1))),
        "note": _text(given.get("note"))[:TEXT],
    }


def _documents(given: object, cut: list[str]) -> list[views.Document]:
    """As many as there is room for; what is left out is told in `cut`."""
    all_of_them, left = _list(given), TEXT * 5
    found = []
    for number, one in enumerate(all_of_them[:_DOCUMENTS], 1):
        content = _cut(f"document {number}", one.get("content"), cut=cut, limit=min(TEXT, left))
        left -= len(content)
        score = one.get("score")
        found.append(
            views.Document(
                content=content,
                doc_uri=_text(one.get("doc_uri")),
                doc_id=_text(one.get("doc_id")),
                score=_number(score) if isinstance(score, (int, float)) and math.isfinite(score) else None,
            )
        )
    if len(all_of_them) > _DOCUMENTS:
        cut.append(f"documents: the first {_DOCUMENTS} of {len(all_of_them)}")
    return found


def _cut(name: str, value: object, *, cut: list[str], limit: int = TEXT) -> str:
    text = _text(value)
    if len(text) > limit:
        cut.append(f"{name}: the first {limit:,} of {len(text):,} characters")
    return text[:limit]


def _bands(facts: Facts, query: AnswersQuery) -> dict[str, tuple[float, float]]:
    """Which scores are on the level that is asked for, by evaluator."""
    found = {}
    for one in facts.assigned:
        scale = one.evaluator.scale
        starts = {level.name: level.start for level in scale.levels}
        if query.level in starts:
            start = starts[query.level]
            above = [other for other in starts.values() if other > start]
            found[one.evaluator.name] = (start, min(above, default=math.inf))
    return found


def _why_none(facts: Facts, query: AnswersQuery, now: float) -> str:
    known = [*(one.evaluator.name for one in facts.assigned), *foreign(facts.runtime.metrics)]
    if query.evaluator and query.evaluator not in known:
        return f"No evaluator {query.evaluator!r} is configured; there are: {', '.join(known) or 'none'}."
    if query.since < now - facts.keeps and query.until is not None and query.until < now - facts.keeps:
        return f"Results are kept for {human_duration(facts.keeps)}."
    seen = [app for app, _ in facts.windows.keys()]  # noqa: SIM118 - not a mapping
    if not seen:
        return "Nothing was judged yet. The overview says what came in, and where it ended."
    if query.app and query.app not in seen:
        return f"No answer of {query.app!r} was judged lately; there are: {', '.join(sorted(set(seen))[:20])}."
    return "No verdict is like that. A longer time or other results may be."


def _text(value: object) -> str:
    return whole(value) if isinstance(value, str) else "" if value is None else whole(str(value))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
