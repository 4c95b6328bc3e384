"""Annotations for Phoenix, held against the body its API defines. The real server: tests/backends."""

from __future__ import annotations

from typing import Any

import anyio
import jsonschema
import pytest

from monitor.clock import SystemClock
from monitor.errors import MonitorError, ResultsRefused
from monitor.model.outcome import Cost, EvaluationResult, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.sinks import phoenix as module
from monitor.sinks.phoenix import Phoenix
from tests.support.http_api import Asked, HttpApi, Says
from tests.support.results import judged
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio
ANNOTATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["span_id", "name", "annotator_kind", "identifier", "result"],
    "properties": {
        "span_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "name": {"type": "string", "minLength": 1},
        "annotator_kind": {"enum": ["LLM", "CODE", "HUMAN"]},
        "identifier": {"type": "string"},
        "result": {
            "type": "object",
            "additionalProperties": False,
            "minProperties": 1,
            "properties": {
                "score": {"type": "number"},
                "label": {"type": "string"},
                "explanation": {"type": "string"},
            },
        },
        "metadata": {"type": "object"},
    },
}
BODY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["data"],
    "properties": {"data": {"type": "array", "minItems": 1, "items": ANNOTATION}},
}


class FakePhoenix:
    """Knows some spans; keeps annotations by name, span and identifier, as Phoenix does: all of a request or none."""

    def __init__(self, *spans: int) -> None:
        self.spans = {f"{number:016x}" for number in spans}
        self.kept: dict[tuple[str, str, str], dict[str, Any]] = {}

    def __call__(self, asked: Asked) -> Says:
        assert (asked.method, asked.path) == ("POST", "/v1/span_annotations?sync=true")
        jsonschema.validate(asked.json, BODY)
        given = asked.json["data"]
        missing = {one["span_id"] for one in given} - self.spans
        if missing:
            text = f"Spans with IDs {', '.join(missing)} do not exist."
            return Says(404, content=text.encode(), headers={"content-type": "text/plain"})
        for one in given:
            self.kept[one["name"], one["span_id"], one["identifier"]] = one
        return Says(data={"data": [{"id": "x"} for _ in given]})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SPANS_COME_WITHIN", 0.01)


async def deliver(sink: Phoenix, *results: EvaluationResult) -> list[Exception | None]:
    found: list[Exception | None] = [None] * len(results)

    async def one(at: int, result: EvaluationResult) -> None:
        try:
            await deliver_one([result])
        except MonitorError as error:
            found[at] = error

    async with sink.open(runtime(SystemClock())) as deliver_one, anyio.create_task_group() as group:
        for at, result in enumerate(results):
            group.start_soon(one, at, result)
    return found


async def test_a_score_is_an_annotation_on_the_judged_span() -> None:
    phoenix = FakePhoenix(1)
    result = judged(1, cost=Cost(model="gpt-4o-mini"))
    with HttpApi(phoenix) as api:
        assert await deliver(Phoenix(url=api.url, api_key="key"), result) == [None]
        assert api.asked[0].headers["authorization"] == "Bearer key"
    (kept,) = phoenix.kept.values()
    assert kept["name"] == "groundedness"
    assert kept["annotator_kind"] == "LLM"
    assert kept["identifier"] == result.id
    assert kept["result"] == {"score": 4.0, "label": "x", "explanation": "because"}
    assert kept["metadata"]["defect"] is False
    assert kept["metadata"]["level"] == "high"
    assert kept["metadata"]["version"] == "v1"


async def test_a_repeat_replaces_and_another_version_stands_beside_it() -> None:
    phoenix = FakePhoenix(1)
    with HttpApi(phoenix) as api:
        assert await deliver(Phoenix(url=api.url), judged(1), judged(1), judged(1, version="v2")) == [None] * 3
    assert len(phoenix.kept) == 2


async def test_a_verdict_of_no_model_is_of_code() -> None:
    phoenix = FakePhoenix(1)
    with HttpApi(phoenix) as api:
        await deliver(Phoenix(url=api.url), judged(1))
    assert [one["annotator_kind"] for one in phoenix.kept.values()] == ["CODE"]


async def test_reasons_stay_here_unless_wanted() -> None:
    phoenix = FakePhoenix(1)
    with HttpApi(phoenix) as api:
        await deliver(Phoenix(url=api.url, include_explanations=False), judged(1))
        assert b"because" not in api.asked[0].content


async def test_only_scores_of_traces_are_written() -> None:
    skipped = judged(1, outcome=Skipped(SkippedReason.NO_HISTORY), level="", defect=False)
    unscored = judged(1, outcome=Unscored(UnscoredReason.TIMEOUT), level="", defect=False)
    with HttpApi(FakePhoenix()) as api:
        assert await deliver(Phoenix(url=api.url), skipped, unscored) == [None, None]
        assert not api.asked


async def test_a_span_that_comes_a_little_later_gets_its_annotation() -> None:
    phoenix = FakePhoenix()

    def late(asked: Asked) -> Says:
        said = phoenix(asked)
        phoenix.spans.add(f"{1:016x}")
        return said

    with HttpApi(late) as api:
        assert await deliver(Phoenix(url=api.url), judged(1)) == [None]
    assert len(phoenix.kept) == 1


async def test_a_span_that_never_comes_fails_its_results_and_no_others() -> None:
    phoenix = FakePhoenix(*range(1, 50))
    results = [judged(number) for number in range(1, 61)]
    with HttpApi(phoenix) as api:
        async with Phoenix(url=api.url).open(runtime(SystemClock())) as deliver_all:
            with pytest.raises(ResultsRefused, match="unknown span") as caught:
                await deliver_all(results)
    assert caught.value.ids == {one.id for one in results[49:]}
    assert len(phoenix.kept) == 49


async def test_another_server_is_not_taken_for_a_phoenix() -> None:
    with HttpApi(Says(404, content=b"no such page")) as api:
        (error,) = await deliver(Phoenix(url=api.url), judged(1))
    assert "is `url` the address of a Phoenix server?" in str(error)


async def test_a_text_that_no_database_takes_is_made_fit() -> None:
    phoenix = FakePhoenix(1)
    with HttpApi(phoenix) as api:
        await deliver(Phoenix(url=api.url), judged(1, app="sh\x00op\udc80"))
    assert [one["metadata"]["app"] for one in phoenix.kept.values()] == ["sh�op�"]
