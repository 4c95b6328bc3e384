"""Answers and cases from the history. Rows come from a file: fields that a row does not have are empty here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio.to_thread

from monitor.model.severe import SECOND
from monitor.quantities import human_duration
from monitor.telemetry.metrics import UNKNOWN_APP
from monitor.web import highlights
from monitor.web.context import PageContext
from monitor.web.counters import external_evaluators
from monitor.web.queries import AnswersQuery
from monitor.web.settings import UiSettings
from monitor.web.texts import whole
from monitor.web.views import (
    AnswersView,
    AnswerView,
    CaseView,
    DocumentView,
    EvidenceView,
    MessageView,
    ResultView,
)

TEXT: Final = 200_000
"""Maximum characters of one text; all documents of a case together may have five times as many."""
_DOCUMENTS, _TURNS, _RESULTS, _EVIDENCE = 200, 200, 200, 500
_VERSIONS = ("judge", "prompt", "index", "service")
_QUESTION, _EXCERPT = 300, 700
"""Characters of question and response in a list."""


async def answers(context: PageContext, query: AnswersQuery) -> AnswersView:
    """Return the answers that match, each once. Raises `MonitorError` if the history cannot be read."""
    scales = {one.evaluator.name: one.evaluator.scale for one in context.configured}
    ends = {
        name: (one.lowest, one.highest) if one.better == "higher" else (one.highest, one.lowest)
        for name, one in scales.items()
    }
    rows = await context.history.search(
        apps=() if not query.app else ("", query.app) if query.app == UNKNOWN_APP else (query.app,),
        evaluator=query.evaluator or None,
        since=query.since,
        until=query.until,
        outcome=query.outcome,
        order="worst" if query.outcome in ("defect", "passed", "score") else "newest",
        scales=ends,
        bands=_bands(context, query),
        limit=query.limit + 1,
    )
    now = context.runtime.clock.now()
    return AnswersView(
        at=now,
        app=query.app,
        evaluator=query.evaluator,
        since=query.since,
        until=query.until,
        outcome=query.outcome,
        level=query.level,
        defect_rule=query.defect_rule,
        answers=await anyio.to_thread.run_sync(by_trace, rows[: query.limit]),  # may be megabytes
        more=len(rows) > query.limit,
        texts_kept=context.keeps_texts,
        empty_reason="" if rows else _empty_reason(context, query, now),
    )


async def case(context: PageContext, settings: UiSettings, trace_id: str) -> CaseView | None:
    """Return a case, or None if no result of it is stored. Raises `MonitorError` like `answers`."""
    rows = await context.history.by_trace(trace_id)
    return await anyio.to_thread.run_sync(_case, rows, context, settings) if rows else None


def _case(rows: Sequence[Mapping[str, Any]], context: PageContext, settings: UiSettings) -> CaseView:
    row = next((one for one in rows if "response" in one), rows[0])
    cut: list[str] = []
    text = partial(_cut, cut=cut)
    request = _mapping(row.get("request"))
    answered_at, stated = _number(row.get("answered_at")), _mapping(row.get("attributes"))
    return CaseView(
        at=context.runtime.clock.now(),
        request_id=_text(row.get("request_id")),
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
        slices={name: _text(stated.get(name)) for name in context.slices},
        attributes={_text(name): _text(value) for name, value in stated.items() if name not in context.slices},
        question=text("question", request.get("query")) if request else None,
        history=[
            MessageView(role=_text(one.get("role")), content=text(f"turn {number}", one.get("content")))
            for number, one in enumerate(_list(request.get("history"))[-_TURNS:], 1)
        ],
        documents=_documents(row.get("retrieved_context"), cut),
        context_status=_text(row.get("context_status")),
        response=text("response", row["response"]) if "response" in row else None,
        cut=cut,
        results=[_result(one) for one in rows[-_RESULTS:]],
    )


def by_trace(rows: Sequence[Mapping[str, Any]]) -> list[AnswerView]:
    """Return answers in the order of the first result of each, leaving out later ones with the same texts."""
    together: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        together.setdefault((_text(row.get("request_id")), _text(row.get("span_id"))), []).append(row)
    same: dict[object, list[list[Mapping[str, Any]]]] = {}
    for key, ours in together.items():
        first = _with_texts(ours)
        response, request = _text(first.get("response")), _mapping(first.get("request"))
        texts = (_text(ours[0].get("app")), _text(request.get("query")), response) if response else key
        same.setdefault(texts, []).append(ours)
    return [_answer(group[0], duplicates=len(group) - 1) for group in same.values()]


def _with_texts(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the first row that has the texts of the case: rows of external scores have none."""
    return next((one for one in rows if "response" in one), rows[0])


def _answer(rows: Sequence[Mapping[str, Any]], *, duplicates: int) -> AnswerView:
    row, results = _with_texts(rows), [_result(one) for one in rows]
    request = _mapping(row.get("request"))
    response = _text(row.get("response"))
    marks = [place for result in results for one in unsupported(result) if (place := one.place) is not None]
    start, end = highlights.window(len(response), marks, _EXCERPT)
    moved = [
        one.model_copy(update={"evidence": [_moved(piece, start, end) for piece in one.evidence]}) for one in results
    ]
    question = _text(request.get("query"))
    return AnswerView(
        request_id=_text(row.get("request_id")),
        trace_id=_text(row.get("trace_id")),
        app=_text(row.get("app")) or UNKNOWN_APP,
        at=min(one.evaluated_at for one in results),
        question=(f"{question[:_QUESTION]}…" if len(question) > _QUESTION else question) if request else None,
        response=response[start:end] if "response" in row else None,
        response_cut=end - start < len(response),
        duplicates=duplicates,
        results=moved,
    )


def unsupported(result: ResultView) -> list[EvidenceView]:
    """Return the evidence against the response: passages and claims without support, and what was found in it."""
    return [one for one in result.evidence if one.verdict != "supported"]


def _moved(piece: EvidenceView, start: int, end: int) -> EvidenceView:
    """Return the evidence with its offsets within an excerpt from `start` to `end`."""
    first, last = piece.place or (0, 0)
    first, last = max(first, start), min(last, end)
    return piece.model_copy(update={"start": first - start, "end": last - start} if first < last else _NOWHERE)


_NOWHERE: Final = {"start": None, "end": None}


def _result(row: Mapping[str, Any]) -> ResultView:
    judge, drawn, behind = _mapping(row.get("judge")), row.get("sampling"), _mapping(row.get("versions"))
    evaluated_at, answered_at = _number(row.get("evaluated_at")), _number(row.get("answered_at"))
    return ResultView.model_validate(
        {
            "id": _text(row.get("id")),
            "evaluator": _text(row.get("evaluator")),
            "version": _text(row.get("version")),
            "evaluated_at": evaluated_at,
            "outcome": row.get("outcome"),
            "reason": _text(row.get("reason")),
            "detail": _text(row.get("detail"))[:TEXT],
            "score": None if row.get("score") is None else _number(row["score"]),
            "label": _text(row.get("label")),
            "level": _text(row.get("level")),
            "defect": bool(row.get("defect")),
            "explanation": _text(row.get("explanation"))[:TEXT],
            "contradicts": row.get("contradicts") is True,
            "second": _second(row.get("second")),
            "evidence": [_evidence(one) for one in _list(row.get("evidence"))[:_EVIDENCE]],
            "weight": _number(row.get("weight")),
            "probability": _number(_mapping(drawn).get("probability")) if drawn else None,
            "lag": max(evaluated_at - answered_at, 0.0) if answered_at > 0 else None,
            "model": _text(judge.get("model")),
            "dollars": _number(judge.get("dollars")),
            "seconds": _number(judge.get("seconds")),
            "input_tokens": int(_number(judge.get("input_tokens"))),
            "output_tokens": int(_number(judge.get("output_tokens"))),
            "cached": bool(judge.get("cached")),
            "versions": {name: text for name in _VERSIONS if (text := _text(behind.get(name)))},
            "scope": row.get("scope", "live"),
        }
    )


def _second(given: object) -> dict[str, Any] | None:
    row = _mapping(given)
    if row.get("outcome") not in SECOND:
        return None
    score = None if row.get("score") is None else _number(row["score"])
    return {"outcome": row["outcome"], "score": score, "model": _text(row.get("model"))}


def _evidence(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "claim": _text(given.get("claim"))[:TEXT],
        "verdict": given.get("verdict"),
        "start": _offset(given.get("start")),
        "end": _offset(given.get("end")),
        "note": _text(given.get("note"))[:TEXT],
    }


def _documents(given: object, cut: list[str]) -> list[DocumentView]:
    """Return as many documents as there is room for; notes about what is left out are added to `cut`."""
    all_of_them, left = _list(given), TEXT * 5
    found = []
    for number, one in enumerate(all_of_them[:_DOCUMENTS], 1):
        content = _cut(f"document {number}", one.get("content"), cut=cut, limit=min(TEXT, left))
        left -= len(content)
        score = one.get("score")
        found.append(
            DocumentView(
                content=content,
                doc_uri=_text(one.get("doc_uri")),
                doc_id=_text(one.get("doc_id")),
                kind=_text(one.get("kind")) or "document",
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


def _bands(context: PageContext, query: AnswersQuery) -> dict[str, tuple[float, float]] | None:
    """Return the range of scores of the requested level or defect rule, by evaluator; None if there is none.

    A rule that reads labels selects no range of scores.
    """
    if query.defect_rule:
        rule = next(one for one in context.alert_rules(query.evaluator) if one.name == query.defect_rule)
        bounds = {"below": (-math.inf, rule.threshold), "at_least": (rule.threshold, math.inf)}
        return {query.evaluator: bounds[rule.kind]} if rule.kind in bounds else None
    if not query.level:
        return None
    found = {}
    for one in context.configured:
        scale = one.evaluator.scale
        starts = {level.name: level.start for level in scale.levels}
        if query.level in starts:
            start = starts[query.level]
            above = [other for other in starts.values() if other > start]
            found[one.evaluator.name] = (start, min(above, default=math.inf))
    return found


def _empty_reason(context: PageContext, query: AnswersQuery, now: float) -> str:
    known = [*(one.evaluator.name for one in context.configured), *external_evaluators(context.runtime.metrics)]
    if query.evaluator and query.evaluator not in known:
        return f"No evaluator {query.evaluator!r} is configured. Configured: {', '.join(known) or 'none'}."
    if query.since < now - context.retention and query.until is not None and query.until < now - context.retention:
        return f"Results are kept for {human_duration(context.retention)}."
    seen = [app for app, _ in context.windows.keys()]  # noqa: SIM118 - not a mapping
    if not seen:
        return "No answer has been scored yet. The overview shows what has arrived and how it ended."
    if query.app and query.app not in seen:
        return f"No recent answer from {query.app!r} was scored. Apps with scores: {', '.join(sorted(set(seen))[:20])}."
    return "Try a longer time or another kind of result."


def _text(value: object) -> str:
    return whole(value) if isinstance(value, str) else "" if value is None else whole(str(value))


def _offset(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
