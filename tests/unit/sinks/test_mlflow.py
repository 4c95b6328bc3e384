"""Assessments for MLflow, held against the body its API defines. The real server: tests/backends."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from monitor.clock import SystemClock
from monitor.errors import InvalidData, MonitorError, Overloaded
from monitor.model.outcome import Cost, EvaluationResult, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.sinks import mlflow
from monitor.sinks.mlflow import Mlflow
from tests.support.http_api import Asked, HttpApi, Says
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
ASSESSMENT = {
    "type": "object",
    "additionalProperties": False,
    "required": [
        "assessment_id",
        "assessment_name",
        "trace_id",
        "source",
        "create_time",
        "last_update_time",
        "feedback",
    ],
    "properties": {
        "assessment_id": {"type": "string", "pattern": "^a-[0-9a-f]{32}$"},
        "assessment_name": {"type": "string", "maxLength": 250},
        "trace_id": {"type": "string", "maxLength": 50},
        "span_id": {"type": "string"},
        "source": {
            "type": "object",
            "additionalProperties": False,
            "required": ["source_type"],
            "properties": {"source_type": {"enum": ["HUMAN", "LLM_JUDGE", "CODE"]}, "source_id": {"type": "string"}},
        },
        "create_time": TIME,
        "last_update_time": TIME,
        "feedback": {
            "type": "object",
            "additionalProperties": False,
            "minProperties": 1,
            "properties": {
                "value": {"type": "number"},
                "error": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["error_code"],
                    "properties": {"error_code": {"type": "string"}, "error_message": {"type": "string"}},
                },
            },
        },
        "rationale": {"type": "string"},
        "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
        "valid": {"const": True},
    },
}


class FakeMlflow:
    """Knows some traces; an assessment id can be used once, and a second use is a fault like any other."""

    def __init__(self, *traces: str) -> None:
        self.traces = set(traces)
        self.kept: dict[str, dict[str, Any]] = {}

    def __call__(self, asked: Asked) -> Says:
        found = re.fullmatch(r"/api/3\.0/mlflow/traces/(tr-[0-9a-f]+)/assessments(?:/(a-[0-9a-f]+))?", asked.path)
        assert found, asked.path
        nowhere = Says(404, {"error_code": "RESOURCE_DOES_NOT_EXIST"})
        if asked.method == "GET":
            return Says(data={"assessment": {}}) if found[2] in self.kept else nowhere
        jsonschema.validate(
            asked.json,
            {
                "type": "object",
                "required": ["assessment"],
                "additionalProperties": False,
                "properties": {"assessment": ASSESSMENT},
            },
        )
        given = asked.json["assessment"]
        assert given["trace_id"] == found[1]
        if found[1] not in self.traces:
            return nowhere
        if given["assessment_id"] in self.kept:
            return Says(500, {"error_code": "INTERNAL_ERROR"})
        self.kept[given["assessment_id"]] = given
        return Says(data={"assessment": given})


TRACE = f"tr-{1:032x}"


async def deliver(api: HttpApi, *results: EvaluationResult, **options: object) -> None:
    sink = Mlflow.model_validate({"url": api.url, **options})
    async with sink.open(runtime(SystemClock())) as deliver_one:
        for one in results:
            await deliver_one([one])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow, "_AGAIN_AFTER", 0.01)


async def test_a_score_is_feedback_on_the_trace_that_came_by_otlp() -> None:
    server = FakeMlflow(TRACE)
    with HttpApi(server) as api:
        await deliver(api, judged(1, cost=Cost(model="gpt-4o-mini")), api_key="token")
        assert api.asked[0].headers["authorization"] == "Bearer token"
    (kept,) = server.kept.values()
    assert kept["assessment_id"] == f"a-{judged(1).id}"
    assert (kept["assessment_name"], kept["feedback"], kept["rationale"]) == ("groundedness", {"value": 4.0}, "because")
    assert kept["source"] == {"source_type": "LLM_JUDGE", "source_id": "rag-monitor"}
    assert kept["create_time"] == "2023-11-14T22:13:21.000Z"
    assert kept["metadata"]["rag_monitor.span_id"] == f"{1:016x}"
    assert kept["metadata"]["rag_monitor.label"] == "x"
    assert kept["metadata"]["rag_monitor.defect"] == "False"


async def test_a_repeat_adds_nothing_and_is_a_success() -> None:
    server = FakeMlflow(TRACE)
    with HttpApi(server) as api:
        await deliver(api, judged(1), judged(1))
    assert len(server.kept) == 1


async def test_a_judgement_that_did_not_come_about_is_feedback_with_an_error() -> None:
    server = FakeMlflow(TRACE)
    unscored = judged(1, outcome=Unscored(UnscoredReason.TIMEOUT, "30 s"), level="", defect=False)
    with HttpApi(server) as api:
        await deliver(api, unscored)
    (kept,) = server.kept.values()
    assert kept["feedback"] == {"error": {"error_code": "timeout", "error_message": "30 s"}}


async def test_what_is_not_of_a_trace_or_does_not_apply_is_not_written() -> None:
    skipped = judged(1, outcome=Skipped(SkippedReason.NO_HISTORY), level="", defect=False)
    row = replace(judged(1), case=replace(judged(1).case, request_id="order-7"))
    with HttpApi(FakeMlflow()) as api:
        await deliver(api, skipped, row)
        assert not api.asked


async def test_a_row_with_a_trace_of_mlflow_keeps_its_id() -> None:
    server = FakeMlflow("tr-abc123")
    with HttpApi(server) as api:
        await deliver(api, replace(judged(1), case=replace(judged(1).case, request_id="tr-abc123")))
    assert len(server.kept) == 1


async def test_a_trace_that_comes_a_little_later_gets_its_feedback() -> None:
    server = FakeMlflow()

    def late(asked: Asked) -> Says:
        said = server(asked)
        server.traces.add(TRACE)
        return said

    with HttpApi(late) as api:
        await deliver(api, judged(1))
    assert len(server.kept) == 1


async def test_a_trace_that_never_comes_is_a_failure_that_says_so() -> None:
    with HttpApi(FakeMlflow()) as api, pytest.raises(InvalidData, match=f"mlflow: unknown trace {TRACE}"):
        await deliver(api, judged(1))


async def test_a_fault_of_the_server_is_not_taken_for_a_repeat() -> None:
    nothing = Says(404, {"error_code": "RESOURCE_DOES_NOT_EXIST"})
    with HttpApi(lambda asked: Says(500) if asked.method == "POST" else nothing) as api:
        with pytest.raises(Overloaded, match="answered 500"):
            await deliver(api, judged(1))
        assert [asked.method for asked in api.asked] == ["POST", "GET"] * 2


async def test_another_server_is_not_taken_for_an_mlflow() -> None:
    with HttpApi(Says(404, content=b"no such page")) as api, pytest.raises(MonitorError, match="of an MLflow 3"):
        await deliver(api, judged(1))


async def test_basic_authentication_and_silence_about_reasons() -> None:
    server = FakeMlflow(TRACE)
    with HttpApi(server) as api:
        await deliver(api, judged(1), username="ann", api_key="pass", include_explanations=False)
        assert api.asked[0].headers["authorization"] == f"Basic {base64.b64encode(b'ann:pass').decode()}"
        assert b"because" not in api.asked[0].content
