"""Scores for Langfuse, held against the body its API defines (`CreateScoreRequest`)."""

from __future__ import annotations

import base64
from dataclasses import replace

import jsonschema
import pytest

from monitor.clock import SystemClock
from monitor.model.outcome import EvaluationResult, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.sinks.langfuse import LangfuseSink
from tests.support.http_api import Asked, HttpApi, Says
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio
SCORE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "value"],
    "properties": {
        **{
            key: {"type": "string"}
            for key in ("id", "traceId", "sessionId", "observationId", "datasetRunId", "name", "comment", "configId")
        },
        "value": {"type": "number"},
        "metadata": {"type": "object"},
        "environment": {"type": "string", "pattern": "^(?!langfuse)[a-z0-9_-]{1,40}$"},
        "dataType": {"enum": ["NUMERIC", "CATEGORICAL", "BOOLEAN", "TEXT"]},
    },
}


def create(asked: Asked) -> Says:
    assert (asked.method, asked.path) == ("POST", "/api/public/scores")
    jsonschema.validate(asked.json, SCORE)
    return Says(data={"id": asked.json["id"]})


async def deliver(api: HttpApi, *results: EvaluationResult, **options: object) -> None:
    sink = LangfuseSink.model_validate({"url": api.url, "public_key": "pk", "secret_key": "sk", **options})
    async with sink.open(runtime(SystemClock())) as deliver_one:
        for one in results:
            await deliver_one([one])


async def test_a_score_is_a_numeric_score_on_the_judged_observation() -> None:
    with HttpApi(create) as api:
        await deliver(api, judged(1), judged(1))
    first, second = (asked.json for asked in api.asked)
    assert first == second
    assert first["id"] == judged(1).id
    assert (first["traceId"], first["observationId"]) == (f"{1:032x}", f"{1:016x}")
    assert (first["name"], first["value"], first["dataType"]) == ("groundedness", 4.0, "NUMERIC")
    assert first["comment"] == "because"
    assert first["metadata"]["label"] == "x"
    assert first["metadata"]["level"] == "high"
    assert api.asked[0].headers["authorization"] == f"Basic {base64.b64encode(b'pk:sk').decode()}"


async def test_reasons_stay_here_unless_wanted() -> None:
    with HttpApi(create) as api:
        await deliver(api, judged(1), include_explanations=False)
        assert b"because" not in api.asked[0].content


async def test_what_is_no_score_is_not_written() -> None:
    skipped = judged(1, outcome=Skipped(SkippedReason.NO_HISTORY), level="", defect=False)
    unscored = judged(1, outcome=Unscored(UnscoredReason.TIMEOUT), level="", defect=False)
    with HttpApi(create) as api:
        await deliver(api, skipped, unscored)
        assert not api.asked


@pytest.mark.parametrize(
    ("named", "written"), [("Production", "production"), ("langfuse-x", None), ("a b", None), ("", None)]
)
async def test_a_score_is_in_the_environment_of_its_service(named: str, written: str | None) -> None:
    result = judged(1)
    attributes = {"deployment.environment.name": named}
    with HttpApi(create) as api:
        await deliver(api, replace(result, case=replace(result.case, attributes=attributes)))
    assert api.asked[0].json.get("environment") == written


async def test_a_row_is_scored_under_its_request_id() -> None:
    result = judged(1)
    with HttpApi(create) as api:
        await deliver(api, replace(result, case=replace(result.case, request_id="order-7", span_id="")))
    assert api.asked[0].json["traceId"] == "order-7"
    assert "observationId" not in api.asked[0].json
