"""Results as plain values that other products can store, for the sinks that write to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, Score, Skipped

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")  # PostgreSQL refuses NUL, UTF-8 half a surrogate pair
_TRACE_ID: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"(?!0{16})[0-9a-f]{16}")
_LONGEST: Final = 8_000  # characters of an explanation: no one reads more


class PlainResult(NamedTuple):
    """One result in plain values.

    `trace_id` and `span_id` are OpenTelemetry ids in hex, empty if the case came as a row with a different id. If
    `score` is None, `trouble` is the reason and `detail` its details. `label` is the evaluator's name for the score, or
    the name of its level. `by_model`: a model gave the score.
    """

    trace_id: str
    span_id: str
    name: str
    score: float | None
    label: str
    explanation: str
    skipped: bool
    trouble: str
    detail: str
    by_model: bool
    facts: Mapping[str, str | float | bool] = MappingProxyType({})


def to_plain(result: EvaluationResult, *, explanations: bool) -> PlainResult:
    """Convert a result; without `explanations`, leave out everything that may quote the request or the answer."""
    case, outcome = result.case, result.outcome
    score = outcome if isinstance(outcome, Score) else None
    detail = "" if isinstance(outcome, Score | Skipped) else outcome.detail
    facts: dict[str, str | float | bool] = {
        "result_id": result.id,
        "app": clean(case.app),
        "version": clean(result.version),
        "outcome": outcome.kind,
        "scope": result.scope.value,
        "weight": result.weight,
        "model": clean(result.cost.model),
    }
    if result.score_source is not ScoreSource.OWN:
        facts["score_source"] = result.score_source.value
    if score is not None:
        facts |= {"defect": result.defect, "level": clean(result.level)}
    return PlainResult(
        trace_id=case.trace_id if _TRACE_ID.fullmatch(case.trace_id) else "",
        span_id=case.span_id if _SPAN_ID.fullmatch(case.span_id) else "",
        name=clean(result.evaluator),
        score=score.value if score is not None else None,
        label=clean(score.label or result.level) if score is not None else "",
        explanation=clean(score.explanation)[:_LONGEST] if score is not None and explanations else "",
        skipped=isinstance(outcome, Skipped),
        trouble="" if isinstance(outcome, Score) else outcome.reason.value,
        detail=clean(detail)[:_LONGEST] if explanations else "",
        by_model=bool(result.cost.model),
        facts={key: value for key, value in facts.items() if value != ""},
    )


def clean(text: str) -> str:
    """Replace the characters that databases refuse."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)
