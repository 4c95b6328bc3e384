"""The review for programs: as its description says, with a reviewer's token, and never from a website."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from monitor.telemetry.site import WebResponse
from monitor.web.openapi import described
from tests.support.page import Site
from tests.support.review import ANA, REVIEWERS, judged, measurable

pytestmark = pytest.mark.anyio
NEXT = "/api/v1/review/next?app=shop&evaluator=groundedness"
PROGRAM = {"content-type": "application/json", "x-review-token": ANA}


async def site_of(folder: Path, **options: Any) -> Site:
    site = Site(folder, reviewers=REVIEWERS, **options)
    site.judge("shop", "groundedness", 9, 3)
    await site.store([judged(one, defect=one % 4 == 0) for one in measurable(4)])
    return site


def as_described(found: WebResponse, path: str, method: str = "get") -> Any:
    description, body = described(), json.loads(found.body)
    answers = description["paths"][path][method]["responses"]
    schema = answers[str(int(found.status))]["content"]["application/json"]["schema"]
    Draft202012Validator({**schema, "components": description["components"]}).validate(body)
    return body


async def label(site: Site, headers: dict[str, str] | None = None, **fields: Any) -> WebResponse:
    body = {"verdict": "defect", "level": None, "comment": "", "seen": None, **fields}
    return await site.pages.post("/api/v1/review/labels", {**PROGRAM, **(headers or {})}, json.dumps(body).encode())


async def test_a_program_gets_an_answer_labels_it_and_sees_what_the_judge_said(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    case = as_described(await site.get(NEXT, PROGRAM), "/review/next")
    assert (case["judge"], case["own"], case["others"]) == (None, None, [])
    assert case["levels"][0] == "ungrounded"
    saved = as_described(
        await label(site, result=case["result_id"], level="ungrounded", comment="No."), "/review/labels", "post"
    )
    assert (saved["own"]["verdict"], saved["own"]["level"], saved["own"]["comment"]) == ("defect", "ungrounded", "No.")
    assert saved["judge"]["explanation"].startswith("The judge says so")
    (one,) = as_described(await site.get("/api/v1/review/labels", PROGRAM), "/review/labels")["labels"]
    assert one == saved["own"]
    (queue,) = as_described(await site.get("/api/v1/review", PROGRAM), "/review")["queues"]
    assert (queue["labels"], queue["waiting"]) == (1, 3)


async def test_how_good_the_judge_is_comes_as_described_also_before_the_first_label(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    path = "/api/v1/review/judge?app=shop&evaluator=groundedness"
    found = as_described(await site.get(path, PROGRAM), "/review/judge")
    assert (found["labels"], found["sensitivity"], found["factors"]) == (0, None, [])
    for _ in range(4):
        case = as_described(await site.get(NEXT, PROGRAM), "/review/next")
        await label(site, result=case["result_id"], verdict="good")
    found = as_described(await site.get(path, PROGRAM), "/review/judge")
    assert (found["labels"], found["compared"], found["missed"], found["alarmed"]) == (4, 4, 0, 2)
    assert found["specificity"]["lower"] < found["specificity"]["value"] == 0.5
    assert (await site.get("/api/v1/review/judge?app=shop", PROGRAM)).status == 400


@pytest.mark.parametrize("path", ["/review", "/review/next", "/review/labels", "/review/judge"])
@pytest.mark.parametrize("token", [None, "wrong", ""])
async def test_without_a_reviewers_token_nothing_is_shown(tmp_path: Path, path: str, token: str | None) -> None:
    site = await site_of(tmp_path)
    found = await site.get(f"/api/v1{path}", {"x-review-token": token} if token is not None else {})
    assert (found.status, set(as_described(found, path))) == (401, {"error"})


@pytest.mark.parametrize(
    ("headers", "fields", "status"),
    [
        ({"x-review-token": "wrong"}, {}, 401),
        ({"sec-fetch-site": "cross-site"}, {}, 403),
        ({"content-type": "text/plain"}, {}, 415),
        ({}, {"verdict": "great"}, 400),
        ({}, {"level": "perfect"}, 400),
        ({}, {"comment": "x" * 4001}, 400),
        ({}, {"more": 1}, 400),
        ({}, {"result": "none"}, 410),
        ({}, {"seen": "1.0"}, 409),
    ],
)
async def test_what_cannot_be_saved_is_refused_with_the_reason(
    tmp_path: Path, headers: dict[str, str], fields: dict[str, Any], status: int
) -> None:
    site = await site_of(tmp_path)
    case = json.loads((await site.get(NEXT, PROGRAM)).body)
    found = await label(site, headers, **{"result": case["result_id"], **fields})
    assert found.status == status
    assert set(as_described(found, "/review/labels", "post")) == {"error"}
    assert json.loads((await site.get("/api/v1/review/labels", PROGRAM)).body)["labels"] == []


async def test_guessing_is_slowed_down_and_said_so(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    for _ in range(10):
        await site.get("/api/v1/review", {"x-review-token": "wrong"})
    for found in (await site.get("/api/v1/review", PROGRAM), await label(site, result="any")):
        assert (found.status, found.headers["retry-after"]) == (429, "60")


async def test_nothing_left_is_not_found_and_a_queue_needs_both_names(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    for path, status in ((f"{NEXT}&by=disagreed", 404), ("/api/v1/review/next?app=shop", 400), (f"{NEXT}&by=x", 400)):
        assert (await site.get(path, PROGRAM)).status == status


async def test_of_many_queues_thirty_are_shown_and_one_app_can_be_asked_for(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    for number in range(40):
        site.judge(f"app-{number:02}", "overlap_groundedness", 1, 0)
    view = json.loads((await site.get("/api/v1/review", PROGRAM)).body)
    assert (len(view["queues"]), view["left_out"], view["queues"][0]["app"]) == (30, 11, "shop"), "judges first"
    view = json.loads((await site.get("/api/v1/review?app=app-39", PROGRAM)).body)
    assert [one["app"] for one in view["queues"]] == ["app-39"]


async def test_what_is_no_opinion_has_no_queue(tmp_path: Path) -> None:
    names = ("groundedness", "overlap_groundedness", "retrieval_empty", "learned_groundedness")
    site = await site_of(tmp_path, evaluators=names)
    for name in names:
        site.judge("shop", name, 1, 0)
    view = json.loads((await site.get("/api/v1/review", PROGRAM)).body)
    assert [one["evaluator"] for one in view["queues"]] == ["groundedness", "overlap_groundedness"]


async def test_the_page_of_a_case_leads_to_its_labels_where_review_is_on(tmp_path: Path) -> None:
    site = await site_of(tmp_path)
    (number, *_) = measurable(1)
    page = (await site.get(f"/case/{number:032x}")).body.decode()
    result = json.loads((await site.get(f"/api/v1/cases/{number:032x}")).body)["results"][0]["id"]
    assert f'href="../review/label?result={result}"' in page
    assert (await site.get(f"/api/v1/review/next?result={result}", PROGRAM)).status == 200
    (tmp_path / "off").mkdir()
    without = Site(tmp_path / "off")
    await without.store([judged(1)])
    assert "review/label" not in (await without.get(f"/case/{1:032x}")).body.decode()
