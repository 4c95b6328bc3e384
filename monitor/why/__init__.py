"""Explains the results of a trace or of an evaluator, or why there are none: facts in, sentences out.

values (what is known; what an explanation is) -> reasons (a sentence and a setting for each way to end) ->
decision (one evaluator on one case) -> trace (one trace) | evaluator (one evaluator over a span of time)
"""

from monitor.why.evaluator import explain_evaluator
from monitor.why.reasons import expected_via
from monitor.why.trace import explain_trace
from monitor.why.values import (
    Cause,
    EvaluatorFacts,
    EvaluatorSetup,
    Explanation,
    ExternalScores,
    MonitorSetup,
    OpenTrace,
    Step,
    TraceFacts,
)

__all__ = [
    "Cause",
    "EvaluatorFacts",
    "EvaluatorSetup",
    "Explanation",
    "ExternalScores",
    "MonitorSetup",
    "OpenTrace",
    "Step",
    "TraceFacts",
    "expected_via",
    "explain_evaluator",
    "explain_trace",
]
