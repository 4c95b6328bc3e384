"""Scoring without a running monitor: cases that are read from files, by the evaluators and rules of a configuration."""

from monitor.operations.offline.evaluate import (
    EvaluatorSummary,
    FileEvaluation,
    RateDifference,
    compare,
    evaluate_files,
)
from monitor.operations.offline.files import CaseFiles
from monitor.operations.offline.scoring import choose_evaluators, score

__all__ = [
    "CaseFiles",
    "EvaluatorSummary",
    "FileEvaluation",
    "RateDifference",
    "choose_evaluators",
    "compare",
    "evaluate_files",
    "score",
]
