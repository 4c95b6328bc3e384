"""Explains the results of a trace or of an evaluator, or why there are none: facts in, sentences out.

values (what is known; what an explanation is) -> reasons (a sentence and a setting for each way to end) ->
decision (one evaluator on one case) -> trace (one trace) | evaluator (one evaluator over a span of time)
"""

from monitor.pipeline.introspection.explain.evaluator import explain_evaluator
from monitor.pipeline.introspection.explain.reasons import expected_via
from monitor.pipeline.introspection.explain.trace import explain_trace
from monitor.pipeline.introspection.explain.values import (
    Cause,
    EvaluatorFacts,
    EvaluatorSetup,
    Explanation,
    ExplanationStep,
    ExternalScores,
    MonitorSetup,
    OpenTrace,
    TraceFacts,
)

__all__ = [
    "Cause",
    "EvaluatorFacts",
    "EvaluatorSetup",
    "Explanation",
    "ExplanationStep",
    "ExternalScores",
    "MonitorSetup",
    "OpenTrace",
    "TraceFacts",
    "expected_via",
    "explain_evaluator",
    "explain_trace",
]
