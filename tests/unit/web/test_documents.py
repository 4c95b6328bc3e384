"""The pages of documents and of unanswered questions, their JSON and the CSV file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.model.case import ContextStatus, Document
from monitor.model.outcome import EvaluationResult, Score
from tests.support.page import NOW, Site
from tests.support.rise import PERIOD, results

pytestmark = pytest.mark.anyio

SINCE = f"{300 * PERIOD:.0f}s"
HOSTILE = "https://kb/<script>alert(1)</script>\x1b[31m\u202e"


def stale(number: int) -> bool:
    return number % 12 == 7


def shop() -> list[EvaluationResult]:
    """Answers of which each uses its first document, except a hostile one; one in ten found nothing."""
    found = []
    for number, one in enumerate(results(stale)):
        assert isinstance(one.outcome, Score)
        own = replace(one, evaluator="overlap_groundedness", outcome=replace(one.outcome, used_sources="10"))
        documents = (*one.case.retrieved_context, Document("z", HOSTILE))
        found.append(replace(own, case=replace(one.case, retrieved_context=documents)))
        empty = number % 10 == 0
        case = replace(
            one.case,
            request_id=f"e{one.case.request_id}",
            retrieved_context=() if empty else one.case.retrieved_context,
            context_status=ContextStatus.RETRIEVED_NOTHING if empty else ContextStatus.RETRIEVED,
            request=replace(one.case.request, query="Ship to Norway <b>?" if empty else one.case.request.query),
        )
        found.append(replace(one, case=case, evaluator="retrieval_empty", defect=empty))
    return found


async def site(folder: Path, given: Sequence[EvaluationResult], **options: Any) -> Site:
    made = Site(folder, **options)
    made.judge("shop", "overlap_groundedness", 9, 1)
    async with made.history.open(made.runtime) as deliver:
        await deliver(given)
    return made


async def of_json(made: Site, path: str) -> Any:
    found = await made.get(path)
    assert found.status == 200, found.body
    return json.loads(found.body)


async def test_the_stale_document_is_first_in_json_page_and_csv(tmp_path: Path) -> None:
    made = await site(tmp_path, shop())
    view = await of_json(made, f"/api/v1/documents?since={SINCE}")
    first = view["documents"][0]
    assert (view["app"], view["evaluator"], first["document"]) == ("shop", "overlap_groundedness", "kb/1/d7")
    assert (first["surely_worse"], first["change"], first["bad_rate"]["rate"]) == (True, "rise", 1.0)
    page = (await made.get(f"/documents?since={SINCE}")).body.decode()
    assert page.index("kb/1/d7") < page.index("kb/0/d0")
    assert f'href="case/{first["example"]}"' in page
    written = await made.get(f"/documents.csv?since={SINCE}&search=D7")
    assert written.kind == "text/csv; charset=utf-8"
    assert [row["document"] for row in csv.DictReader(io.StringIO(written.body.decode()))] == ["kb/1/d7"]


async def test_a_never_used_document_with_a_hostile_address_is_shown_as_text(tmp_path: Path) -> None:
    made = await site(tmp_path, shop())
    page = (await made.get(f"/documents?since={SINCE}&order=unused")).body.decode()
    assert "never used" in page
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert not {"\x1b", "\u202e"} & set(page)


async def test_documents_are_paged_and_searched(tmp_path: Path) -> None:
    given = [
        replace(
            one,
            evaluator="overlap_groundedness",
            case=replace(one.case, retrieved_context=(Document("x", f"kb/{number:04}"),)),
        )
        for number, one in enumerate(results(stale, number=120))
    ]
    made = await site(tmp_path, given)
    views = [await of_json(made, f"/api/v1/documents?page={page}") for page in (1, 2, 3, 999)]
    assert [len(view["documents"]) for view in views] == [50, 50, 20, 20]
    assert [view["page"] for view in views] == [1, 2, 3, 3]
    assert len({one["document"] for view in views for one in view["documents"]}) == 120
    page = (await made.get("/documents?page=2&search=kb")).body.decode()
    assert "Page 2 of 3" in page
    assert "page=3" in page
    assert "search=kb" in page
    assert (await of_json(made, "/api/v1/documents?search=0042"))["matching"] == 1


async def test_unanswered_questions_are_shown_by_topic_with_examples(tmp_path: Path) -> None:
    made = await site(tmp_path, shop())
    view = await of_json(made, f"/api/v1/unanswered?since={SINCE}")
    first = view["topics"][0]
    assert (first["unanswered"], first["nothing_found"], first["surely_more"]) == (30, 30, True)
    assert first["topic"] in ("norway", "ship")
    assert first["examples"][0]["question"] == "Ship to Norway <b>?"
    page = (await made.get(f"/unanswered?since={SINCE}")).body.decode()
    assert "Ship to Norway &lt;b&gt;?" in page
    assert "significantly more often than other topics" in page


async def test_without_texts_nothing_readable_is_shown(tmp_path: Path) -> None:
    made = await site(tmp_path, shop(), texts=False)
    for path in (f"/unanswered?since={SINCE}", f"/api/v1/unanswered?since={SINCE}"):
        assert b"orway" not in (await made.get(path)).body
    assert b"no readable names" in (await made.get(f"/unanswered?since={SINCE}")).body


async def test_a_list_is_given_again_for_a_minute(tmp_path: Path) -> None:
    made = await site(tmp_path, shop())
    first = await of_json(made, "/api/v1/documents?since=7d")
    made.clock.advance(30)
    assert (await of_json(made, "/api/v1/documents?since=7d"))["at"] == first["at"] == NOW
    made.clock.advance(31)
    assert (await of_json(made, "/api/v1/documents?since=7d"))["at"] == NOW + 61


@pytest.mark.parametrize(
    "query",
    [
        "order=best",
        "page=0",
        "page=x",
        "page=99999999",
        "since=x",
        "since=2099-01-01T00:00:00Z",
        "limit=3",
        "app=a&app=b",
    ],
)
async def test_a_wrong_parameter_is_named(tmp_path: Path, query: str) -> None:
    made = await site(tmp_path, [])
    found = await made.get(f"/api/v1/documents?{query}")
    assert found.status == 400
    assert query.partition("=")[0] in json.loads(found.body)["error"]


async def test_pages_without_answers_say_so(tmp_path: Path) -> None:
    made = await site(tmp_path, [])
    assert b"No scored answers" in (await made.get("/documents?app=none")).body
    assert b"No questions" in (await made.get("/unanswered?app=none")).body
