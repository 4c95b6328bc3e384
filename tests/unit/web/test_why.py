"""The page that explains why there is a verdict or none."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from tests.support.page import Site, answer

pytestmark = pytest.mark.anyio
ID = f"{1:032x}"
HOSTILE = "</title></style><script>document.title='run'</script><img src=x onerror=alert(1)>\"'&{{7*7}}"


async def site(folder, **options) -> Site:
    made = Site(folder, **options)
    await made.store([answer(1)])
    return made


async def test_a_trace_is_explained_with_its_cause_its_setting_and_its_steps(tmp_path):
    made = await site(tmp_path)
    found = json.loads((await made.get(f"/api/v1/why?trace={ID}")).body)
    assert found["cause"] == "off"
    assert found["conclusion"].startswith("Scored by overlap_groundedness. Not by groundedness")
    text = (await made.get(f"/why?trace={ID}")).body.decode()
    for shown in (found["setting"], *(one["what"] for one in found["steps"])):
        assert shown in text


async def test_an_evaluator_is_explained_over_a_span_of_time(tmp_path):
    made = await site(tmp_path)
    found = json.loads((await made.get("/api/v1/why?evaluator=groundedness&since=6h")).body)
    assert found["subject"] == "groundedness, the last 6 h"
    assert "groundedness, the last 6 h" in (await made.get("/why?evaluator=groundedness&since=6h")).body.decode()


async def test_hostile_ids_and_names_are_text(tmp_path):
    made = await site(tmp_path)
    for query in (
        f"trace={quote(HOSTILE)}",
        f"evaluator={quote(HOSTILE)}",
        f"evaluator=groundedness&app={quote(HOSTILE)}",
    ):
        found = await made.get(f"/why?{query}")
        assert found.status == 200
        assert b"<script>" not in found.body
        assert b"<img" not in found.body


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "one of them is required"),
        ("since=1h", "one of them is required"),
        ("evaluator=groundedness&since=soon", "since"),
        ("evaluator=groundedness&since=2099-01-01T00:00:00Z", "not in the past"),
        ("trace=1&limit=3", "limit"),
    ],
)
async def test_a_wrong_parameter_is_named(tmp_path, query, words):
    found = await (await site(tmp_path)).get(f"/api/v1/why?{query}")
    assert found.status == 400
    assert words in json.loads(found.body)["error"]


async def test_every_case_and_every_evaluator_leads_to_its_explanation_and_an_unknown_case_too(tmp_path):
    made = await site(tmp_path)
    assert f"why?trace={ID}" in (await made.get(f"/case/{ID}")).body.decode()
    overview = (await made.get("/")).body.decode()
    for name in made.evaluators:
        assert f"why?evaluator={name}&amp;since=24h" in overview
    unknown = await made.get(f"/case/{2:032x}")
    assert unknown.status == 404
    assert f"../why?trace={2:032x}" in unknown.body.decode()
