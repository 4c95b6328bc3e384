"""Everything that an evaluator, a dialect, a source, a sink or a sampler of your own imports from this project.

These names do not change within a major version (docs/stability.md). docs/extending.md says how to write a plug-in;
`monitor.testing` helps to test it.
"""

from __future__ import annotations

from monitor.errors import ConfigError, InvalidData, JudgeError, Overloaded
from monitor.extraction.content import why_trivial
from monitor.extraction.documents import read as read_documents
from monitor.extraction.messages import read as read_messages
from monitor.extraction.rows import take as read_rows
from monitor.extraction.values import error_of as read_error
from monitor.extraction.values import text as read_text
from monitor.extraction.values import unfold
from monitor.model.ack import Ack
from monitor.model.case import Case, Document, Message, Request, Usage
from monitor.model.outcome import (
    Cost,
    DefectRule,
    EvaluationResult,
    Evidence,
    Level,
    Outcome,
    Scale,
    Score,
    Skipped,
    SkippedReason,
    Unscored,
    UnscoredReason,
)
from monitor.model.row import RowBatch
from monitor.model.span import LogRecord, Span, SpanBatch, Value
from monitor.stages import (
    Convention,
    Deliver,
    Evaluator,
    FixedSampler,
    Intake,
    Judge,
    Measures,
    Needs,
    Observation,
    Prompt,
    Question,
    Runtime,
    Sink,
    Source,
    Verdict,
)
from monitor.transport.otlp.wire import split as split_spans

__all__ = [
    "Ack",
    "Case",
    "ConfigError",
    "Convention",
    "Cost",
    "DefectRule",
    "Deliver",
    "Document",
    "EvaluationResult",
    "Evaluator",
    "Evidence",
    "FixedSampler",
    "Intake",
    "InvalidData",
    "Judge",
    "JudgeError",
    "Level",
    "LogRecord",
    "Measures",
    "Message",
    "Needs",
    "Observation",
    "Outcome",
    "Overloaded",
    "Prompt",
    "Question",
    "Request",
    "RowBatch",
    "Runtime",
    "Scale",
    "Score",
    "Sink",
    "Skipped",
    "SkippedReason",
    "Source",
    "Span",
    "SpanBatch",
    "Unscored",
    "UnscoredReason",
    "Usage",
    "Value",
    "Verdict",
    "read_documents",
    "read_error",
    "read_messages",
    "read_rows",
    "read_text",
    "split_spans",
    "unfold",
    "why_trivial",
]
