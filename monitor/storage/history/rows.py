"""A result as plain JSON: the one schema of the JSON lines file, the history and the Kafka topic.

`docs/results.schema.json` is the same as a JSON Schema. A key that is added leaves `schema` as it is; one that is gone,
or means something else, raises it.

| key | what it is |
|---|---|
| `schema` | 1 |
| `id` | the same for a repeat of the same evaluation; 32 hex digits |
| `judged_at`, `answered_at` | seconds since 1970 |
| `trace_id`, `span_id`, `app`, `source`, `session_id`, `convention` | of the case |
| `model` | the service's own |
| `evaluator`, `version` | who judged |
| `outcome`, `reason`, `detail` | `score`, `skipped` or `unscored`; why, where it is not `score`; more on that |
| `score`, `label`, `level`, `defect`, `explanation` | null unless `outcome` is `score` |
| `contradicts` | true where a judge's explanation says the opposite of the score; else left out |
| `evidence` | [{`claim`, `verdict`, `start`, `end`, `note`}]: stretches of the response, offsets in characters |
| `weight` | the requests that this one stands for |
| `sampling` | {`probability`, `target`, `inputs`, `shift`}: how its evaluator chose it; null where nothing did |
| `judge` | {`model`, `dollars`, `input_tokens`, `output_tokens`, `seconds`, `attempts`, `cached`} |
| `standing` | `live`; `late`: judged too long after the answer; `non_production`: not production; `user_disliked`:
chosen for it;
  `backfill`: judged afterwards, as somebody asked for it. Only `live` is in the rates |
| `origin` | of `backfill` only: `kafka`, `spool`, `file` or `missed`, where the case came from |
| `score_source` | `own`; of a verdict of others how it came: `gen_ai_events`, `openinference`, `feedback` |
| `traffic` | `production`, `experiment`, `synthetic` or `internal` |
| `attributes` | the configured slices, and harmless facts such as versions |
| `versions` | {`fingerprint`, `evaluator`, `judge`, `prompt`, `index`, `service`}: the versions behind it |
| `request`, `retrieved_context`, `response`, `user_id` | only where texts are kept |
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import orjson

from monitor.model.case import Traffic
from monitor.model.foreign import Via
from monitor.model.outcome import Evidence, Judged, Score, Skipped, Standing
from monitor.stages import Lesson

SCHEMA: Final = 1
"""The version of the rows."""


def as_json(judged: Judged, *, texts: bool = True, quotes: bool = True) -> dict[str, Any]:
    """The row of one result; without `texts` nothing that was asked or answered, save what the verdict quotes.

    Without `quotes` no reasons either: explanation, detail, claims and notes are empty, the places of evidence stay.
    """
    case, outcome = judged.case, judged.outcome
    score = outcome if isinstance(outcome, Score) else None
    row: dict[str, Any] = {
        "schema": SCHEMA,
        "id": judged.id,
        "judged_at": judged.judged_at,
        "answered_at": case.answered_at,
        "trace_id": case.request_id,
        "span_id": case.span_id,
        "app": case.app,
        "source": case.source,
        "session_id": case.session_id,
        "model": case.model,
        "convention": case.convention,
        "evaluator": judged.evaluator,
        "version": judged.version,
        "outcome": type(outcome).__name__.lower(),
        "reason": None if isinstance(outcome, Score) else str(outcome.reason),
        "detail": None if isinstance(outcome, Score | Skipped) else outcome.detail if quotes else "",
        "score": score.value if score else None,
        "label": score.label if score else None,
        "level": judged.level if score else None,
        "defect": judged.defect if score else None,
        "explanation": (score.explanation if quotes else "") if score else None,
        "evidence": [_evidence(one, quotes=quotes) for one in score.evidence] if score else [],
        "weight": judged.weight,
        "sampling": asdict(judged.selection) if judged.selection else None,
        "judge": _judge(judged),
        "standing": judged.standing.value,
        "score_source": judged.via.value,
        "traffic": case.traffic.value,
        "attributes": dict(case.attributes),
        "versions": {"fingerprint": judged.generation.fingerprint, **judged.generation.parts},
    }
    if score is not None and score.contradicts:
        row["contradicts"] = True
    if judged.origin:
        row["origin"] = judged.origin
    if texts and judged.via is Via.OWN:  # a verdict of others is on an answer that is no longer at hand
        whole = case.as_row()
        row |= {key: whole[key] for key in ("request", "retrieved_context", "response", "user_id")}
    return row


def _evidence(one: Evidence, *, quotes: bool) -> dict[str, Any]:
    told = asdict(one)
    return told if quotes else {**told, "claim": "", "note": ""}


def _judge(judged: Judged) -> dict[str, Any]:
    """What it cost; the single calls belong to the trail of the request."""
    told = asdict(judged.spending)
    del told["tries"]
    return told


def dump(row: dict[str, Any]) -> bytes:
    """One line of JSON, without its end."""
    try:
        return orjson.dumps(row)
    except TypeError:  # half a surrogate pair, as a JSON string within a span may hold, is no UTF-8
        return json.dumps(row).encode("ascii")


def load(line: bytes) -> dict[str, Any]:
    """The inverse of `dump`."""
    try:
        row: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError:
        row = json.loads(line)
    return row


def lesson(row: Mapping[str, Any]) -> Lesson | None:
    """What a row teaches; None for a row of another schema, or none at all. Never raises: it may come from anywhere."""
    try:
        if row["schema"] != SCHEMA:
            return None
        drawn = row["sampling"] or {"probability": 1.0, "target": 1.0, "inputs": ()}
        counts = row["outcome"] == "score" and row["traffic"] == Traffic.PRODUCTION
        asked_for = row.get("standing") in (Standing.BACKFILL, Standing.USER_DISLIKED)
        counts = counts and not asked_for  # what was asked for by hand, or by its user, is no fair sample
        defect = row["defect"] if counts else None
        inputs = tuple(float(one) for one in drawn["inputs"])
        numbers = (*inputs, float(drawn.get("shift", 0.0)), drawn["target"] / drawn["probability"])
        dollars = float(row["judge"]["dollars"])
        named = [row[key] for key in ("id", "app", "evaluator", "version")]
    except (KeyError, TypeError, ValueError, ZeroDivisionError, AttributeError):
        return None
    if counts and not isinstance(defect, bool):
        return None
    if not all(isinstance(one, str) for one in named) or not all(map(math.isfinite, (*numbers, dollars))):
        return None
    return Lesson(
        result=named[0],
        app=named[1],
        evaluator=named[2],
        version=named[3],
        inputs=inputs,
        shift=numbers[-2],
        emphasis=numbers[-1],
        defect=defect,
        dollars=max(dollars, 0.0),
    )
