"""Results for the tests of sinks."""

from __future__ import annotations

import logging
from typing import Any

from monitor.clock import ManualClock
from monitor.model.case import Case, Document, Request
from monitor.model.outcome import EvaluationResult, Evidence, Score
from monitor.stages import Runtime
from monitor.telemetry.events import Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics


def runtime(clock: ManualClock | None = None) -> Runtime:
    metrics = Metrics()
    events = Events(metrics, logging.getLogger("monitor.test"))
    return Runtime(clock if clock is not None else ManualClock(), metrics, events, Health())


def judged(number: int, value: float = 4.0, **fields: Any) -> EvaluationResult:
    """Result `number`: a score unless `outcome` says otherwise."""
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
        "judged_at": 1_700_000_000.0 + number,
        **fields,
    }
    return EvaluationResult(case=case, **chosen)
