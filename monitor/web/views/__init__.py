"""What is shown, as plain values: the HTML is written from them, and the JSON API answers with them."""

from __future__ import annotations

from monitor.web.views.answers import Answers, Case, Document, Evidence, Found, Turn, Verdict
from monitor.web.views.rates import (
    Alert,
    Alerts,
    App,
    Changed,
    Evaluator,
    EvaluatorState,
    Missed,
    Overview,
    Rate,
    State,
    Step,
    WeekBefore,
)
from monitor.web.views.reasons import CauseName, Fault, Why, WhyStep

__all__ = [
    "Alert",
    "Alerts",
    "Answers",
    "App",
    "Case",
    "CauseName",
    "Changed",
    "Document",
    "Evaluator",
    "EvaluatorState",
    "Evidence",
    "Fault",
    "Found",
    "Missed",
    "Overview",
    "Rate",
    "State",
    "Step",
    "Turn",
    "Verdict",
    "WeekBefore",
    "Why",
    "WhyStep",
]
