"""A result as plain JSON: the one schema of the JSON lines file, the history and the Kafka topic.

`docs/results.schema.json` is the same as a JSON Schema. A new key leaves `schema` as it is; a key that is removed or
changes its meaning raises it.

| key | what it is |
|---|---|
| `schema` | 1 |
| `id` | 32 hex digits, the same when the same evaluation is repeated |
| `evaluated_at`, `answered_at` | seconds since 1970 |
| `request_id` | the request: the trace or the row, followed by `/` and a span or a turn if it has several requests |
| `trace_id`, `span_id`, `app`, `source`, `session_id`, `convention` | of the case |
| `model` | the model of the service |
| `evaluator`, `version` | what scored the case |
| `outcome`, `reason`, `detail` | `score`, `skipped` or `unscored`; why there is no score |
| `score`, `label`, `level`, `defect`, `explanation` | null unless `outcome` is `score` |
| `second` | {`outcome`, `score`, `model`} of a severe answer judged again: `confirmed`, `refuted` or `unscored`; else
  left out |
| `recheck` | `same`, `other` or `unscored`: whether the judge said the same of the defect when asked again; else left
  out |
| `contradicts` | true if a judge's explanation says the opposite of the score; else left out |
| `evidence` | [{`claim`, `verdict`, `start`, `end`, `note`}]: passages of the response, by character |
| `weight` | how many requests this one represents |
| `sampling` | {`probability`, `target`, `inputs`, `shift`, `inputs_version`}: how its evaluator sampled it; null
  without sampling |
| `judge` | {`model`, `dollars`, `input_tokens`, `output_tokens`, `seconds`, `attempts`, `cached`, `asked`}: what the
  result cost, and whether a judge gave a verdict for it, not from its cache |
| `scope` | `live`; `late`: scored too long after the answer; `non_production`: other traffic than production;
  `user_disliked`: scored because of a thumbs-down; `backfill`: scored later on request; `ranking`: the score only puts
  answers in order. Only `live` counts in rates |
| `origin` | with `backfill` only, where the case came from: `kafka`, `spool`, `file` or `missed` |
| `score_source` | `own`, or how an external score came: `gen_ai_events`, `openinference`, `feedback` |
| `traffic` | `production`, `experiment`, `synthetic` or `internal` |
| `attributes` | the configured slices, and facts without texts, such as versions |
| `versions` | {`fingerprint`, `evaluator`, `judge`, `prompt`, `index`, `service`}: the versions that produced it |
| `request`, `retrieved_context`, `response`, `user_id` | only if texts are kept |
| `used` | with these, if the evaluator reports it: a digit for each of `retrieved_context`, 1 if the answer uses it |
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from monitor.errors import InvalidData
from monitor.model.case import Case, ContextStatus, Document, Message, Request, Traffic, app_name, plain
from monitor.model.external import ScoreSource
from monitor.model.outcome import (
    Cost,
    EvaluationResult,
    Evidence,
    Outcome,
    RateScope,
    RecheckOutcome,
    Score,
    Selection,
    Skipped,
    SkippedReason,
    Unscored,
    UnscoredReason,
)
from monitor.model.service_version import ServiceVersion
from monitor.model.severe import SecondJudgement, SevereOutcome
from monitor.stages import PastResult
from monitor.statistics.defect_model import INPUTS_VERSION

SCHEMA: Final = 1
"""The version of the rows."""


def as_json(result: EvaluationResult, *, texts: bool = True, quotes: bool = True) -> dict[str, Any]:
    """Make the row of one result; without `texts`, no question, context or answer, except quotes in the explanation.

    Without `quotes`, no reasons either: explanation, detail, claims and notes are empty, but offsets of evidence stay.
    """
    case, outcome = result.case, result.outcome
    score = outcome if isinstance(outcome, Score) else None
    row: dict[str, Any] = {
        "schema": SCHEMA,
        "id": result.id,
        "evaluated_at": result.evaluated_at,
        "answered_at": case.answered_at,
        "request_id": case.request_id,
        "trace_id": case.trace_id,
        "span_id": case.span_id,
        "app": case.app,
        "source": case.source,
        "session_id": case.session_id,
        "model": case.model,
        "convention": case.convention,
        "evaluator": result.evaluator,
        "version": result.version,
        "outcome": outcome.kind,
        "reason": None if isinstance(outcome, Score) else str(outcome.reason),
        "detail": None if isinstance(outcome, Score | Skipped) else outcome.detail if quotes else "",
        "score": score.value if score else None,
        "label": score.label if score else None,
        "level": result.level if score else None,
        "defect": result.defect if score else None,
        "explanation": (score.explanation if quotes else "") if score else None,
        "evidence": [_evidence(one, quotes=quotes) for one in score.evidence] if score else [],
        "weight": result.weight,
        "sampling": plain(result.selection) if result.selection else None,
        "judge": _judge(result),
        "scope": result.scope.value,
        "score_source": result.score_source.value,
        "traffic": case.traffic.value,
        "attributes": dict(case.attributes),
        "versions": {"fingerprint": result.service_version.fingerprint, **result.service_version.parts},
    }
    if result.second is not None:
        row["second"] = plain(result.second)
    if result.recheck is not None:
        row["recheck"] = result.recheck.value
    if score is not None and score.contradicts:
        row["contradicts"] = True
    if result.origin:
        row["origin"] = result.origin
    # The answer of an external score is no longer available, and deleted texts cannot be written.
    if texts and result.score_source is ScoreSource.OWN and (case.request.query or case.response):
        row["request"] = case.request.as_row()
        row["retrieved_context"] = [plain(one) for one in case.retrieved_context]
        row["context_status"] = case.context_status.value
        row["response"] = case.response
        row["user_id"] = case.user_id
        if score is not None and score.used_sources:
            row["used"] = score.used_sources
    return row


def _evidence(one: Evidence, *, quotes: bool) -> dict[str, Any]:
    whole = plain(one)
    return whole if quotes else {**whole, "claim": "", "note": ""}


def _judge(result: EvaluationResult) -> dict[str, Any]:
    """Return the cost; the single calls are in the request log."""
    whole = plain(result.cost)
    del whole["tries"]
    return whole


def dump(row: dict[str, Any]) -> bytes:
    """Write a row as one line of JSON, without the line break."""
    try:
        return orjson.dumps(row)
    except TypeError:  # a JSON string within a span may contain half a surrogate pair, which is not valid UTF-8
        return json.dumps(row).encode("ascii")


def line(result: EvaluationResult, make: Callable[[EvaluationResult], dict[str, Any]]) -> bytes:
    """Write the row that `make` makes of a result as `dump` does.

    Raises `InvalidData` that names the evaluator and the request if the result contains a value that cannot be written.
    """
    try:
        return dump(make(result))
    except Exception as error:  # noqa: BLE001 - a field that a plug-in has filled may fail in any way
        raise unwritable(result, error) from None


def unwritable(result: EvaluationResult, error: Exception) -> InvalidData:
    """Return the error that says which result cannot be written."""
    of = f"the result of {result.evaluator} on {result.case.request_id}"
    return InvalidData(f"{of} cannot be written: {type(error).__name__}: {error}")


def load(line: bytes) -> dict[str, Any]:
    """Read what `dump` wrote. Raises `ValueError`."""
    try:
        row: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            row = json.loads(line)
        except RecursionError:
            raise ValueError("nested too deeply") from None
    return row


def from_json(row: Mapping[str, Any]) -> EvaluationResult:
    """Read a result from its row. Fields missing from the row are empty, such as texts that were not kept.

    Written again, it gives the same row with the same id. Raises `ValueError` if it is not such a row.
    """
    try:
        return _result(row)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a result: {type(error).__name__}: {error}") from None


def _result(row: Mapping[str, Any]) -> EvaluationResult:
    outcome: Outcome
    if row["outcome"] == Score.kind:
        evidence = tuple(Evidence(**one) for one in row["evidence"])
        explanation, label = row["explanation"], row["label"]
        contradicts, used = row.get("contradicts", False), str(row.get("used", ""))
        outcome = Score(row["score"], explanation, label, evidence, contradicts=contradicts, used_sources=used)
    elif row["outcome"] == Skipped.kind:
        outcome = Skipped(SkippedReason(row["reason"]))
    else:
        outcome = Unscored(UnscoredReason(row["reason"]), row["detail"])
    sampling = row["sampling"]
    return EvaluationResult(
        case=_case(row),
        evaluator=row["evaluator"],
        version=row["version"],
        outcome=outcome,
        weight=row["weight"],
        level=row["level"] or "",
        defect=bool(row["defect"]),
        cost=_cost(row["judge"]),
        evaluated_at=row["evaluated_at"],
        scope=RateScope(row["scope"]),
        service_version=ServiceVersion(**{key: one for key, one in row["versions"].items() if key != "fingerprint"}),
        selection=Selection(**{**sampling, "inputs": tuple(sampling["inputs"])}) if sampling else None,
        score_source=ScoreSource(row["score_source"]),
        origin=row.get("origin", ""),
        second=_second(row.get("second")),
        recheck=RecheckOutcome(row["recheck"]) if row.get("recheck") else None,
        known_id=row["id"],
    )


def _cost(row: Mapping[str, Any]) -> Cost:
    """Read a cost. Rows of earlier versions do not say whether a judge was asked, only how often it was called."""
    return Cost(**{"asked": row["attempts"] > 0, **row})


def _second(row: Mapping[str, Any] | None) -> SecondJudgement | None:
    return SecondJudgement(SevereOutcome(row["outcome"]), row["score"], row["model"]) if row else None


def _case(row: Mapping[str, Any]) -> Case:
    request = row.get("request") or {}
    return Case(
        request_id=row["request_id"],
        request=Request(request.get("query", ""), tuple(Message(**one) for one in request.get("history", ()))),
        retrieved_context=tuple(Document(**one) for one in row.get("retrieved_context") or ()),
        context_status=ContextStatus(row.get("context_status", ContextStatus.NO_RETRIEVAL)),
        response=row.get("response", ""),
        user_id=row.get("user_id", ""),
        model=row["model"],
        session_id=row["session_id"],
        app=app_name(row["app"]),  # a history may be from before it had the same name everywhere
        source=row["source"],
        span_id=row["span_id"],
        convention=row["convention"],
        attributes=row["attributes"],
        answered_at=row["answered_at"],
        traffic=Traffic(row["traffic"]),
    )


def past_result(row: Mapping[str, Any]) -> PastResult | None:
    """Read what samplers learn from a row; None if nothing. Never raises: the row is untrusted."""
    try:
        if row["schema"] != SCHEMA:
            return None
        drawn = row["sampling"] or {"probability": 1.0, "target": 1.0, "inputs": ()}
        counts = row["outcome"] == "score" and row["traffic"] == Traffic.PRODUCTION
        asked_for = row.get("scope") in (RateScope.BACKFILL, RateScope.USER_DISLIKED, RateScope.RANKING)
        counts = counts and not asked_for  # cases that people chose are not a random sample
        defect = row["defect"] if counts else None
        inputs = tuple(float(one) for one in drawn["inputs"])
        if drawn.get("inputs_version") != INPUTS_VERSION:
            inputs = ()
        numbers = (*inputs, float(drawn.get("shift", 0.0)), drawn["target"] / drawn["probability"])
        dollars = float(row["judge"]["dollars"])
        named = [row[key] for key in ("id", "app", "evaluator", "version")]
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError):
        return None
    if counts and not isinstance(defect, bool):
        return None
    if not all(isinstance(one, str) for one in named) or not all(map(math.isfinite, (*numbers, dollars))):
        return None
    return PastResult(
        result=named[0],
        app=app_name(named[1]),
        evaluator=named[2],
        version=named[3],
        inputs=inputs,
        shift=numbers[-2],
        emphasis=numbers[-1],
        defect=defect,
        dollars=max(dollars, 0.0),
    )
