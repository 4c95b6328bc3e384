"""The JSON API in its own words: OpenAPI 3.1, from the views and the parameters that the code itself uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from monitor import __version__
from monitor.web import queries, views
from monitor.web.posting import Wanted
from monitor.web.tried import TryResult

_PATHS: Final[Mapping[str, tuple[str, type[BaseModel], tuple[str, ...]]]] = {
    "overview": ("How everything stands: rates, alerts, where traces ended.", views.Overview, queries.OVERVIEW),
    "answers": ("The worst recent answers, or others, with their verdicts.", views.Answers, queries.ANSWERS),
    "cases/{trace_id}": ("One answer with all that is known of it.", views.Case, ()),
    "why": ("Why a trace, or an evaluator, has the verdicts it has, or none.", views.Why, queries.WHY),
    "alerts": ("All alerts, those that fire first.", views.Alerts, ()),
}


def document() -> bytes:
    """The description, as JSON."""
    return orjson.dumps(described())


def described() -> dict[str, Any]:
    """The description."""
    shown = [*(view for _, view, _ in _PATHS.values()), TryResult, views.Fault]
    models = [*((view, "serialization") for view in shown), (Wanted, "validation")]
    _, schema = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type] # literals
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rag-monitor",
            "version": __version__,
            "description": "What the built-in page shows, and an evaluator tried on a case. Times are seconds since"
            " 1970 in UTC, durations seconds, rates shares from 0 to 1. Fields may be added.",
        },
        "servers": [{"url": "../v1"}],  # as seen from where this is served, wherever that is
        "paths": {
            **{f"/{path}": {"get": _operation(path, *about)} for path, about in _PATHS.items()},
            "/try": {"post": _try()},
        },
        "components": {"schemas": schema["$defs"]},
    }


def _operation(path: str, summary: str, view: type[BaseModel], parameters: Iterable[str]) -> dict[str, Any]:
    given = [_parameter(name) for name in parameters]
    if "{trace_id}" in path:
        about = "The id of the trace, or of the row that brought the case."
        given.append(
            {"name": "trace_id", "in": "path", "required": True, "schema": {"type": "string"}, "description": about}
        )
    answers = {
        "200": _answer("What was asked for.", view),
        "400": _answer("A parameter is wrong; says which, its value and what is allowed.", views.Fault),
        "503": _answer("The results cannot be read now.", views.Fault),
    }
    if "{trace_id}" in path:
        answers["404"] = _answer("No result of this trace is kept.", views.Fault)
    name = path.split("/", maxsplit=1)[0]
    return {"operationId": name, "summary": summary, "parameters": given, "responses": answers}


def _try() -> dict[str, Any]:
    sent = {"application/json": {"schema": {"$ref": f"#/components/schemas/{Wanted.__name__}"}}}
    faults = {
        "400": "The body is wrong; says what in it, and what is allowed.",
        "403": "Another website sent it.",
        "404": "No result of this trace is kept, or nothing can be tried here.",
        "409": "The texts of the case are not kept; says which setting keeps those to come.",
        "413": "The body is too large.",
        "415": "The body is no JSON by its content type.",
        "429": "Another try goes on, or no more may begin within this hour; `Retry-After` says when.",
        "503": "The results cannot be read now.",
    }
    return {
        "operationId": "try",
        "summary": "Evaluate a case up to five times, apart from all that is live; answers when it is over.",
        "requestBody": {"required": True, "content": sent},
        "responses": {
            "200": _answer("What was sent, what came back, and what became of it.", TryResult),
            **{status: _answer(about, views.Fault) for status, about in faults.items()},
        },
    }


def _parameter(name: str) -> dict[str, Any]:
    about, schema = queries.PARAMETERS[name]
    return {"name": name, "in": "query", "description": about, "schema": dict(schema)}


def _answer(about: str, view: type[BaseModel]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{view.__name__}"}
    return {"description": about, "content": {"application/json": {"schema": schema}}}
