"""Results of scored answers, and records of requests, as they are delivered and stored."""

from __future__ import annotations

from typing import Any

from monitor.model.case import Case, Document, Request
from monitor.model.outcome import EvaluationResult, Evidence, Score
from monitor.model.request_log import RequestRecord


def judged(number: int, value: float = 4.0, **fields: Any) -> EvaluationResult:
    """Return result `number`: a score unless `outcome` says otherwise."""
    case = Case(
        request_id=f"{number:032x}",
        span_id=f"{number:016x}",
        request=Request("How long is the warranty?"),
        retrieved_context=(Document("Two years.", doc_uri="kb/7"),),
        response="It is two years.",
        app=fields.pop("app", "shop"),
        user_id="u-1",
    )
    score = Score(value, "because", label="x", evidence=(Evidence("two years", "supported", 6, 15),))
    chosen: dict[str, Any] = {
        "evaluator": "groundedness",
        "version": "v1",
        "outcome": score,
        "weight": 10.0,
        "level": "high",
        "defect": value < 3,
        "evaluated_at": 1_700_000_000.0 + number,
        **fields,
    }
    return EvaluationResult(case=case, **chosen)


def request_record(number: int, at: float = 0.0, **fields: Any) -> RequestRecord:
    """Return the request log's record of request `number`, which arrived, closed and ended at `at`."""
    chosen: dict[str, Any] = {
        "request_id": f"{number:032x}",
        "app": "shop",
        "source": "otlp_http",
        "received_at": at,
        "closed_at": at,
        "ended_at": at,
        "outcome": "evaluated",
        **fields,
    }
    return RequestRecord(**chosen)
