from __future__ import annotations

import pytest

from monitor.evaluators.context_not_recorded import ContextNotRecorded
from monitor.model.case import Case, ContextStatus, Document
from monitor.model.outcome import Outcome, Score, Skipped, SkippedReason

pytestmark = pytest.mark.anyio


async def outcome(status: ContextStatus, *documents: Document) -> Outcome:
    case = Case(request_id="1", retrieved_context=documents, context_status=status)
    return await ContextNotRecorded().evaluate(case, None)


async def test_documents_without_their_texts_are_a_defect_and_counted() -> None:
    found = await outcome(ContextStatus.NOT_RECORDED, Document("", doc_uri="u"), Document("One."))
    assert isinstance(found, Score)
    assert (found.label, ContextNotRecorded.default_defect.matches(found)) == ("not_recorded", True)
    assert found.explanation == "The texts of 1 retrieved document were not sent, or were cut."


@pytest.mark.parametrize(
    ("status", "documents"),
    [(ContextStatus.RETRIEVED, (Document("One."),)), (ContextStatus.RETRIEVED_NOTHING, ())],
)
async def test_what_was_recorded_is_none(status: ContextStatus, documents: tuple[Document, ...]) -> None:
    found = await outcome(status, *documents)
    assert isinstance(found, Score)
    assert (found.label, ContextNotRecorded.default_defect.matches(found)) == ("recorded", False)


async def test_an_answer_without_a_retrieval_is_in_neither_part_of_the_rate() -> None:
    assert await outcome(ContextStatus.NO_RETRIEVAL) == Skipped(SkippedReason.NO_RETRIEVAL)
