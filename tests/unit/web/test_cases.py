"""Answers and what was said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.model.case import Document, Message
from monitor.model.outcome import Cost, Evidence, RateScope, Unscored, UnscoredReason
from monitor.web import cases
from monitor.web.queries import AnswersQuery
from monitor.web.settings import UiSettings
from tests.support.page import NOW, Site, answer

pytestmark = pytest.mark.anyio
EVERYTHING = AnswersQuery(outcome="any", since=NOW - 3600)
ID = f"{1:032x}"


async def found(tmp_path, results, query=EVERYTHING, **options):
    site = Site(tmp_path, **options)
    await site.store(results)
    return await cases.answers(site.context, query)


async def one_case(tmp_path, *results, **options):
    site = Site(tmp_path, **options)
    await site.store(results)
    return await cases.case(site.context, site.settings, ID)


async def test_verdicts_on_one_answer_stand_together(tmp_path):
    judged = answer(1, 4.0, evaluator="groundedness", defect=False, cost=Cost("gpt", 0.002, 900, 100, 1.5, 1))
    shown = await found(tmp_path, [answer(1, 0.1), judged, answer(2, 0.2, question="another")])
    assert [{one.evaluator for one in each.results} for each in shown.answers] == [
        {"overlap_groundedness"},
        {"groundedness", "overlap_groundedness"},
    ]


async def test_the_same_words_are_shown_once_with_how_often(tmp_path):
    shown = await found(tmp_path, [answer(number) for number in range(5)] + [answer(9, question="another")])
    assert sorted(one.duplicates for one in shown.answers) == [0, 4]


async def test_without_texts_there_are_verdicts_and_no_words_of_the_traffic(tmp_path):
    shown = await found(tmp_path, [answer(1), answer(2)], texts=False)
    assert [(one.question, one.response, one.duplicates) for one in shown.answers] == [(None, None, 0)] * 2
    assert not shown.texts_kept
    case = await one_case(tmp_path, answer(1), texts=False)
    assert (case.question, case.response, case.documents) == (None, None, [])
    assert case.results[0].explanation == "The context says 30 days."


async def test_a_level_is_looked_for_by_its_scores(tmp_path):
    query = replace(EVERYTHING, level="supported", outcome="score")
    shown = await found(tmp_path, [answer(1, 0.1), answer(2, 0.95, question="fine")], query)
    assert [one.question for one in shown.answers] == ["fine"]


async def test_there_is_more_when_there_is_more(tmp_path):
    results = [answer(number, question=str(number)) for number in range(5)]
    shown = await found(tmp_path, results, replace(EVERYTHING, limit=3))
    assert (len(shown.answers), shown.more) == (3, True)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (AnswersQuery(), "No answer has been scored yet."),
        (AnswersQuery(evaluator="none"), "No evaluator 'none' is configured. Configured: overlap_groundedness, ground"),
    ],
)
async def test_none_found_says_why(tmp_path, query, why):
    site = Site(tmp_path)
    await site.store([])
    assert (await cases.answers(site.context, query)).empty_reason.startswith(why)


async def test_an_app_that_was_not_judged_is_told_with_those_that_were(tmp_path):
    site = Site(tmp_path)
    await site.store([])
    site.judge("docs", "overlap_groundedness", 1, 0)
    shown = await cases.answers(site.context, AnswersQuery(app="shop"))
    assert shown.empty_reason == "No recent answer from 'shop' was scored. Apps with scores: docs."


async def test_an_app_without_a_name_is_found_as_the_page_calls_it(tmp_path):
    shown = await found(tmp_path, [answer(1, app=""), answer(2, app="docs")], replace(EVERYTHING, app="unknown"))
    assert [one.app for one in shown.answers] == ["unknown"]


async def test_an_excerpt_shows_the_first_mark_and_its_offsets_fit(tmp_path):
    response = "good " * 500 + "BAD" + " good" * 500
    evidence = (Evidence("BAD", "absent", 2500, 2503), Evidence("far", "absent", 4900, 4903))
    (shown,) = (await found(tmp_path, [answer(1, response=response, evidence=evidence)])).answers
    near, far = shown.results[0].evidence
    assert shown.response[near.start : near.end] == "BAD"
    assert (far.start, far.end) == (None, None)
    assert shown.response_cut


async def test_a_case_has_all_that_is_known(tmp_path):
    timeout = answer(
        1, evaluator="groundedness", outcome=Unscored(UnscoredReason.TIMEOUT, "no answer in 30 s"), defect=False
    )
    late = answer(1, evaluator="relevance", scope=RateScope.LATE)
    case = await one_case(tmp_path, answer(1), timeout, late)
    assert case.question == "How long is the label valid?"
    assert [(turn.role, turn.content) for turn in case.history] == [("user", "Hello"), ("assistant", "Hi!")]
    assert [(one.doc_uri, one.score) for one in case.documents] == [("https://kb.example/labels", 7.5)]
    said = {one.evaluator: one for one in case.results}
    assert said["groundedness"].reason == "timeout"
    assert said["groundedness"].score is None
    assert said["relevance"].scope == "late"
    assert said["overlap_groundedness"].lag == pytest.approx(20, abs=1)


async def test_texts_are_cut_and_it_is_said(tmp_path):
    documents = tuple(Document("d" * 300_000) for _ in range(8))
    case = await one_case(tmp_path, answer(1, response="x" * 1_000_000, documents=documents))
    assert len(case.response) == cases.TEXT
    assert sum(len(one.content) for one in case.documents) == cases.TEXT * 5
    assert "response: the first 200,000 of 1,000,000 characters" in case.cut


async def test_hostile_values_are_text(tmp_path):
    case = await one_case(
        tmp_path,
        answer(1, response="\ud800\0<script>", history=(Message("user", "\udfff"),), attributes={"tenant": "\ud800"}),
    )
    assert case.response == "\ufffd\0<script>"
    assert case.model_dump_json()


async def test_a_case_that_is_not_kept_is_none(tmp_path):
    assert await one_case(tmp_path, answer(2)) is None


async def test_a_trace_has_its_link(tmp_path):
    settings = UiSettings(trace_url="https://jaeger.example/trace/{trace_id}?uiFind={span_id}")
    case = await one_case(tmp_path, answer(1), settings=settings)
    assert case.trace_url == f"https://jaeger.example/trace/{ID}?uiFind={1:016x}"
