"""Describes the JSON API: OpenAPI 3.1, generated from the views and parameters that the code itself uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from monitor import __version__
from monitor.web import queries
from monitor.web.diagnosis import DiagnosisView
from monitor.web.documents import DocumentsView, UnansweredView
from monitor.web.incidents import IncidentReportView, IncidentsView
from monitor.web.post_guard import NoteRequest, TrialRequest
from monitor.web.rate_views import AlertsView, Overview
from monitor.web.review.access import TOKEN_HEADER
from monitor.web.review.views import JudgeView, ReviewCaseView, ReviewLabelsView, ReviewView
from monitor.web.review.work import LabelRequest
from monitor.web.trials import TrialView
from monitor.web.views import AnswersView, CaseView, ErrorView
from monitor.web.why import WhyView
from monitor.web.worst import WorstView

_PATHS: Final[Mapping[str, tuple[str, type[BaseModel], tuple[str, ...]]]] = {
    "overview": ("The state of everything: rates, alerts, evaluators, trace outcomes.", Overview, queries.OVERVIEW),
    "answers": ("Answers with their results, worst first.", AnswersView, queries.ANSWERS),
    "worst": (
        "The worst answers by app that no judge has seen, in the learned order if that is the better one.",
        WorstView,
        queries.WORST,
    ),
    "cases/{trace_id}": ("One answer with everything that is known about it.", CaseView, ()),
    "why": ("Why a trace, or an evaluator, has the scores it has, or none.", WhyView, queries.WHY),
    "diagnosis": (
        "When a rate rose, and what its bad answers have in common.",
        DiagnosisView,
        queries.DIAGNOSIS,
    ),
    "documents": ("Documents, and the answers for which they were retrieved.", DocumentsView, queries.DOCUMENTS),
    "unanswered": ("Unanswered questions, by topic.", UnansweredView, queries.UNANSWERED),
    "alerts": ("All alerts, firing ones first.", AlertsView, ()),
    "incidents": ("The newest incidents, newest first.", IncidentsView, ()),
    "incidents/{id}": ("One incident with everything stored about it.", IncidentReportView, ()),
    "review": (
        "All queues of answers to label, and what the labels say about the judge.",
        ReviewView,
        queries.REVIEW_QUEUES,
    ),
    "review/next": ("The next answer to label, or the answer of `result`.", ReviewCaseView, queries.REVIEW_NEXT),
    "review/judge": (
        "How good the judge of a queue is, by labels: sensitivity, specificity, kappa, and where it errs.",
        JudgeView,
        queries.REVIEW_JUDGE,
    ),
    "review/labels": ("Labels, newest first.", ReviewLabelsView, queries.REVIEW_LABELS),
}
_REVIEWER: Final[Mapping[str, Any]] = {
    "name": TOKEN_HEADER,
    "in": "header",
    "required": True,
    "schema": {"type": "string"},
    "description": "The token of a reviewer.",
}


_REVIEW_FAULTS: Final[Mapping[str, str]] = {
    "401": "The token is missing, or is not a reviewer's.",
    "404": "Review is switched off, or there is nothing to label.",
    "429": "Too many wrong tokens; see `Retry-After`.",
}
_NAMES: Final[Mapping[str, str]] = {"review/next": "next_to_label", "review/labels": "labels", "review/judge": "judge"}


def document() -> bytes:
    """Return the description as JSON."""
    return orjson.dumps(described())


def described() -> dict[str, Any]:
    """Return the description."""
    shown = [*(view for _, view, _ in _PATHS.values()), TrialView, ErrorView]
    sent = (TrialRequest, NoteRequest, LabelRequest)
    models = [*((view, "serialization") for view in shown), *((one, "validation") for one in sent)]
    _, schema = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type] # literals
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rag-monitor",
            "version": __version__,
            "description": "What the built-in UI shows, and trials. Times are seconds since 1970 in UTC, durations"
            " seconds, rates shares from 0 to 1. Later versions may add fields.",
        },
        "servers": [{"url": "../v1"}],  # as seen from where this is served, wherever that is
        "paths": {
            **{f"/{path}": {"get": _operation(path, *about)} for path, about in _PATHS.items()},
            "/try": {"post": _trial()},
            "/notes": {"post": _note()},
            "/review/labels": {
                "get": _operation("review/labels", *_PATHS["review/labels"]),
                "post": _label(),
            },
        },
        "components": {"schemas": schema["$defs"]},
    }


def _operation(path: str, summary: str, view: type[BaseModel], parameters: Iterable[str]) -> dict[str, Any]:
    given = [_parameter(name) for name in parameters]
    if "{trace_id}" in path:
        about = "The id of the trace, or of the row that contained the case."
        given.append(
            {"name": "trace_id", "in": "path", "required": True, "schema": {"type": "string"}, "description": about}
        )
    if "{id}" in path:
        given.append(
            {
                "name": "id",
                "in": "path",
                "required": True,
                "schema": {"type": "string"},
                "description": "The id of the incident.",
            }
        )
    if path.startswith("review"):
        given.append(dict(_REVIEWER))
    responses = {
        "200": _response("The requested view.", view),
        "400": _response("A parameter is wrong; `error` names it, its value and what is allowed.", ErrorView),
        "503": _response("Results cannot be read at the moment.", ErrorView),
    }
    if "{trace_id}" in path:
        responses["404"] = _response("No result of this trace is stored.", ErrorView)
    if "{id}" in path:
        responses["404"] = _response("There is no incident with this id.", ErrorView)
    if path.startswith("review"):
        responses |= {status: _response(about, ErrorView) for status, about in _REVIEW_FAULTS.items()}
    name = "incident" if "{id}" in path else _NAMES.get(path, path.split("/", maxsplit=1)[0])
    return {"operationId": name, "summary": summary, "parameters": given, "responses": responses}


def _trial() -> dict[str, Any]:
    sent = {"application/json": {"schema": {"$ref": f"#/components/schemas/{TrialRequest.__name__}"}}}
    faults = {
        "400": "The body is wrong; `error` names the field and what is allowed.",
        "403": "The request comes from another website.",
        "404": "No result of this trace is stored, or trials are switched off.",
        "409": "The texts of the case are not stored; `error` names the setting that stores those of new traces.",
        "413": "The body is too large.",
        "415": "The content type is not JSON.",
        "429": "Another trial is running, or the limit per hour is reached; see `Retry-After`.",
        "503": "Results cannot be read at the moment.",
    }
    return {
        "operationId": "try",
        "summary": "Evaluate a case up to five times without affecting anything live; responds when finished.",
        "requestBody": {"required": True, "content": sent},
        "responses": {
            "200": _response("The prompts sent, the replies received, and the results.", TrialView),
            **{status: _response(about, ErrorView) for status, about in faults.items()},
        },
    }


def _note() -> dict[str, Any]:
    sent = {"application/json": {"schema": {"$ref": f"#/components/schemas/{NoteRequest.__name__}"}}}
    faults = {
        "400": "The body is wrong; `error` names the field and what is allowed.",
        "403": "The request comes from another website.",
        "404": "There is no incident with this id.",
        "413": "The body is too large.",
        "415": "The content type is not JSON.",
        "503": "The note cannot be written at the moment.",
    }
    return {
        "operationId": "note",
        "summary": "Add a note to an incident. The audit log records who did, without the text.",
        "requestBody": {"required": True, "content": sent},
        "responses": {
            "200": _response("The incident, with the note.", IncidentReportView),
            **{status: _response(about, ErrorView) for status, about in faults.items()},
        },
    }


def _label() -> dict[str, Any]:
    sent = {"application/json": {"schema": {"$ref": f"#/components/schemas/{LabelRequest.__name__}"}}}
    faults = {
        **_REVIEW_FAULTS,
        "400": "The body is wrong; `error` names the field and what is allowed.",
        "403": "The request comes from another website.",
        "409": "The reviewer's label of this answer is not the one given by `seen`.",
        "410": "The answer, or its text, has been deleted.",
        "413": "The body is too large.",
        "415": "The content type is not JSON.",
        "503": "The label cannot be written at the moment.",
    }
    return {
        "operationId": "label",
        "summary": "Label an answer, or change your label. The audit log records who did, without the comment.",
        "parameters": [dict(_REVIEWER)],
        "requestBody": {"required": True, "content": sent},
        "responses": {
            "200": _response("The answer with the label, and what the judge said.", ReviewCaseView),
            **{status: _response(about, ErrorView) for status, about in faults.items()},
        },
    }


def _parameter(name: str) -> dict[str, Any]:
    about, schema = queries.PARAMETERS[name]
    return {"name": name, "in": "query", "description": about, "schema": dict(schema)}


def _response(about: str, view: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{view.__name__}"}
    return {"description": about, "content": {"application/json": {"schema": schema}}}
