"""People's scores and annotation queues of Langfuse, held against its API."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from monitor.errors import MonitorError
from monitor.model.label import LabelVerdict
from monitor.operations.labels.langfuse import LangfuseLabels
from monitor.operations.labels.reading import VerdictWords
from monitor.operations.labels.server import ResultRef
from monitor.sinks.langfuse import LangfuseSink
from tests.support.http_api import Asked, HttpApi, Says
from tests.support.labels import label

REF = ResultRef("r1", "a" * 32, "a" * 32, "b" * 16, "groundedness")


def server(api: HttpApi, **options: Any) -> LangfuseLabels:
    return LangfuseLabels(
        LangfuseSink.model_validate({"url": api.url, "public_key": "pk", "secret_key": "sk"}), **options
    )


def score(**fields: Any) -> dict[str, Any]:
    defaults = {
        "id": "s1",
        "name": "groundedness",
        "source": "ANNOTATION",
        "value": "defect",
        "dataType": "CATEGORICAL",
        "subject": {"kind": "observation", "id": "b" * 16, "traceId": "a" * 32},
        "comment": "no source says so",
        "authorUserId": "ana",
        "updatedAt": "2026-11-22T10:00:00Z",
    }
    return {**defaults, **fields}


def test_scores_of_people_are_read_page_by_page() -> None:
    def answer(asked: Asked) -> Says:
        query = parse_qs(urlsplit(asked.path).query)
        assert query["source"] == ["ANNOTATION"]
        assert asked.headers["authorization"].startswith("Basic ")
        if "cursor" in query:
            return Says(data={"data": [score(id="s2", value=True, authorUserId="bo")], "meta": {"limit": 100}})
        others = [score(source="API"), score(name="other"), score(subject={"kind": "trace", "id": "c" * 32}), 5]
        return Says(data={"data": [score(), *others], "meta": {"cursor": "next"}})

    with HttpApi(answer) as api, server(api) as langfuse:
        file = langfuse.pull([REF], VerdictWords())
    assert [(one.reviewer, one.verdict, one.comment, one.span_id) for one in file.labels] == [
        ("ana", LabelVerdict.DEFECT, "no source says so", "b" * 16),
        ("bo", LabelVerdict.GOOD, "no source says so", "b" * 16),
    ]


def test_an_older_server_is_asked_in_its_own_words() -> None:
    def answer(asked: Asked) -> Says:
        if "/v3/" in asked.path:
            return Says(404)
        old = score(traceId="a" * 32, observationId=None, value=0, stringValue="bad")
        del old["subject"]
        return Says(data={"data": [old], "meta": {"page": 1, "totalPages": 1}})

    with HttpApi(answer) as api, server(api) as langfuse:
        (read,) = langfuse.pull([REF], VerdictWords()).labels
    assert (read.trace_id, read.span_id, read.verdict) == ("a" * 32, "", LabelVerdict.DEFECT)


def test_a_label_is_a_categorical_score_and_a_queue_gets_the_answers() -> None:
    with HttpApi(Says(data={"id": "x"})) as api, server(api) as langfuse:
        sent = langfuse.push([label(1, result_id="r1", comment="good one"), label(2)], {"r1": REF})
        assert (sent.labels, sent.without_trace) == (1, 1)
        (asked,) = api.asked
        assert (asked.method, asked.path) == ("POST", "/api/public/scores")
        assert (asked.json["name"], asked.json["value"], asked.json["dataType"]) == (
            "groundedness.human",
            "good",
            "CATEGORICAL",
        )
        assert (asked.json["traceId"], asked.json["observationId"]) == ("a" * 32, "b" * 16)
    with HttpApi(Says(data={"id": "x"})) as api, server(api, queue="q/1") as langfuse:
        assert langfuse.push([], {"r1": REF}).queued == 1
        assert api.asked[0].path == "/api/public/annotation-queues/q%2F1/items"
        assert api.asked[0].json == {"objectId": "b" * 16, "objectType": "OBSERVATION"}


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (Says(401), "answered 401"),
        (Says(302, headers={"location": "http://127.0.0.1:1/"}), "answered 302"),
        (Says(content=b"<html>"), "did not answer in JSON"),
        (Says(content=b'"' + b"x" * 17_000_000 + b'"'), "larger than"),
    ],
)
def test_a_server_that_does_not_answer_as_it_should_is_named(says: Says, message: str) -> None:
    with HttpApi(says) as api, server(api) as langfuse, pytest.raises(MonitorError, match=message) as caught:
        langfuse.pull([REF], VerdictWords())
    assert "sk" not in str(caught.value).split("answered")[0]


def test_a_hostile_page_gives_no_labels() -> None:
    for data in ([], {"data": "x"}, {"data": [{"name": {}, "source": []}], "meta": 3}):
        with HttpApi(Says(data=data)) as api, server(api) as langfuse:
            assert not langfuse.pull([REF], VerdictWords()).labels
