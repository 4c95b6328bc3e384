"""Why a trace, or an evaluator, has the verdicts it has, or none: facts in, sentences out, and the one setting."""

from monitor.why.evaluator import EvaluatorFacts, of_evaluator
from monitor.why.foreign import Foreign, expected_via
from monitor.why.trace import of_trace
from monitor.why.values import Answer, Cause, Evaluating, Open, Situation, Step, TraceFacts

__all__ = [
    "Answer",
    "Cause",
    "Evaluating",
    "EvaluatorFacts",
    "Foreign",
    "Open",
    "Situation",
    "Step",
    "TraceFacts",
    "expected_via",
    "of_evaluator",
    "of_trace",
]
