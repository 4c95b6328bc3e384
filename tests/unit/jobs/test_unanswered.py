"""Questions without an answer, by topic: found nothing, or refused; with shares, examples and the change."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.jobs.unanswered import (
    UnansweredReport,
    UnansweredRequest,
    as_object,
    is_readable,
    unanswered_report,
)
from monitor.model.case import Case, ContextStatus, Document, Request
from monitor.model.outcome import EvaluationResult, Skipped, SkippedReason
from monitor.sinks.history import HistorySink
from monitor.statistics.topics import OTHER, QuestionTopic, topic_words
from monitor.storage.history.answers import AnswerReader
from tests.support.results import judged
from tests.support.rise import NOW, PERIOD
from tests.support.runtime import runtime

pytestmark = pytest.mark.anyio

SUBJECTS = ("refund", "invoice", "shipping", "warranty")
NUMBER = 400


def asked(number: int, text: str, *, nothing: bool = False, refused: bool = False) -> list[EvaluationResult]:
    """A question with the results of three local evaluators."""
    at = NOW - (NUMBER - number) * PERIOD
    case = Case(
        request_id=f"{number:032x}",
        request=Request(text),
        retrieved_context=() if nothing else (Document("x", "kb/a"),),
        context_status=ContextStatus.RETRIEVED_NOTHING if nothing else ContextStatus.RETRIEVED,
        response="I do not know." if refused else "Yes.",
        app="shop",
        session_id=f"s{number}",
        answered_at=at,
    )
    one = replace(judged(number, value=0.0, defect=False, evaluated_at=at + 1), case=case, weight=2.0)
    overlap = replace(one, evaluator="overlap_groundedness", weight=2.0)
    return [
        replace(one, evaluator="retrieval_empty", defect=nothing),
        replace(one, evaluator="refusal_pattern", defect=refused),
        replace(overlap, outcome=Skipped(SkippedReason.REFUSAL)) if refused else overlap,
    ]


def traffic(*, gap: str = "norway") -> list[EvaluationResult]:
    """Four subjects are answered, mostly; in the second half one in ten asks about what is in no document."""
    found = []
    for number in range(NUMBER):
        if number >= NUMBER // 2 and number % 10 == 3:
            found += asked(number, f"Do you deliver to {gap}? {number}", nothing=number % 20 == 3, refused=True)
        else:
            subject = SUBJECTS[number % 4]
            found += asked(number, f"A question about my {subject}, number {number}", refused=number % 50 == 0)
    return found


async def kept(folder: Path, results: list[EvaluationResult], texts: Any = "all") -> None:
    sink = HistorySink(path=folder / "history.db", retention="30d", texts=texts)
    async with sink.open(runtime(ManualClock(NOW))) as deliver:
        await deliver(results)


def report(
    folder: Path, topics: tuple[QuestionTopic, ...] = (), window: float = NUMBER // 2 * PERIOD
) -> UnansweredReport:
    return unanswered_report(AnswerReader(folder / "history.db"), topics, UnansweredRequest("shop", window), NOW)


async def test_what_no_document_answers_is_the_first_topic_with_its_share_and_examples(tmp_path: Path) -> None:
    await kept(tmp_path, traffic())
    found = report(tmp_path)
    first = found.topics[0]
    assert first.name in ("norway", "deliver")
    assert (first.asked, first.unanswered, first.refused, first.nothing_found) == (20, 20, 20, 10)
    assert (first.requests, round(first.share, 2)) == (40.0, round(20 / 24, 2))
    assert first.surely_more
    assert first.rate.rate == 1.0
    assert first.before is None
    assert first.examples[0].text.startswith("Do you deliver to norway? 39")
    assert (found.questions, found.unanswered, found.change) == (200, 24, "rise")
    assert not any(one.surely_more for one in found.topics[1:])


async def test_a_refusal_is_known_without_the_evaluator_of_refusals(tmp_path: Path) -> None:
    await kept(tmp_path, [one for one in traffic() if one.evaluator != "refusal_pattern"])
    assert report(tmp_path).topics[0].refused == 20


async def test_topics_that_are_known_keep_their_names(tmp_path: Path) -> None:
    await kept(tmp_path, traffic())
    known = (QuestionTopic("norway", "norwegian", 0.05),)
    assert report(tmp_path, known).topics[0].name == "norwegian"


async def test_where_texts_are_not_stored_topics_are_hashes_and_examples_have_no_text(tmp_path: Path) -> None:
    await kept(tmp_path, traffic(), texts="none")
    found = report(tmp_path)
    assert (found.topics[0].unanswered, is_readable(found)) == (20, False)
    assert not any(word in repr(found) for word in (*SUBJECTS, "norway", "deliver"))
    assert topic_words(found.topics[0].name) == f"topic {found.topics[0].name[:6]}"


async def test_hostile_questions_are_bounded_and_plain_json(tmp_path: Path) -> None:
    await kept(tmp_path, traffic(gap="<script>\x1b[31m\u202e" + "x" * 1_000_000))
    found = report(tmp_path)
    written = json.dumps(as_object(found))
    assert json.loads(written) == as_object(found)
    assert max(len(one.text) for topic in found.topics for one in topic.examples) <= 301
    assert all(len(one.name) <= 32 for one in found.topics)


async def test_different_questions_of_no_topic_are_other_and_last(tmp_path: Path) -> None:
    found = [result for number in range(NUMBER) for result in asked(number, f"q{number} z{number * 7}", nothing=True)]
    await kept(tmp_path, found)
    assert [one.name for one in report(tmp_path).topics] == [OTHER]


async def test_no_questions_make_an_empty_report(tmp_path: Path) -> None:
    await kept(tmp_path, [])
    found = report(tmp_path)
    assert (found.questions, found.rate, found.topics) == (0, None, ())
