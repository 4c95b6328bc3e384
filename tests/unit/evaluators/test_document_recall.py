from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.evaluators.document_recall import DocumentRecall
from monitor.model.case import Case, ContextStatus, Document
from monitor.model.outcome import Outcome, Score, Skipped, SkippedReason

pytestmark = pytest.mark.anyio

LONG = "Mars has two moons, Phobos and Deimos."


async def outcome(expected: tuple[Document, ...] | None, *retrieved: Document) -> Outcome:
    case = Case(request_id="1", retrieved_context=retrieved, expected_retrieved_context=expected)
    return await DocumentRecall().evaluate(case, None)


@pytest.mark.parametrize(
    ("expected", "retrieved", "found"),
    [
        (Document("", doc_uri="a.html"), Document("text", doc_uri="a.html"), True),
        (Document("one chunk", doc_uri="a.html"), Document("another chunk", doc_uri="a.html"), True),
        (Document("", doc_uri="a.html"), Document("", doc_uri="b.html"), False),
        (Document("", doc_id="7"), Document("", doc_id="7"), True),
        (Document("", doc_id="7"), Document("", doc_uri="a.html", doc_id="7"), True),
        (Document("", doc_uri="a.html", doc_id="7"), Document("", doc_uri="b.html", doc_id="7"), False),
        (Document(LONG), Document(LONG.upper().replace(" ", "\n ")), True),
        (Document(LONG), Document("Before. " + LONG + " After."), True),
        (Document("Before. " + LONG + " After."), Document(LONG), False),  # a part of it is not the document
        (Document("Mars."), Document("Mars."), True),
        (Document("Mars."), Document("Not on Mars."), False),  # too short to be known by being contained
        (Document(LONG, doc_uri="a.html"), Document(LONG, doc_uri="mirror.html"), True),
        (Document("", doc_uri="a.html"), Document(""), False),
    ],
)
async def test_a_document_is_known_by_its_address_its_id_or_its_text(expected, retrieved, found):
    assert (await outcome((expected,), Document("something else"), retrieved)).value == found


async def test_the_score_is_the_share_of_distinct_expected_documents():
    a, b, c = (Document("", doc_uri=name) for name in "abc")
    found = await outcome((a, a, b, c), c, a, Document("x"))
    assert found.value == pytest.approx(2 / 3)
    assert found.explanation == "2 of 3 expected documents found among 3 retrieved."
    assert [(one.claim, one.verdict, one.note) for one in found.evidence] == [
        ("a", "supported", "by doc_uri"),
        ("b", "absent", ""),
        ("c", "supported", "by doc_uri"),
    ]


async def test_a_search_that_found_nothing_has_missed_everything():
    assert (await outcome((Document(LONG),))).value == 0


@pytest.mark.parametrize("expected", [None, (), (Document(""),), (Document(" \n"),)])
async def test_without_expected_documents_there_is_no_score(expected):
    """A case that has an expected response only is not one without recall."""
    assert await outcome(expected, Document(LONG)) == Skipped(SkippedReason.NO_REFERENCE)


documents = st.lists(
    st.builds(
        Document, st.text(max_size=30), doc_uri=st.sampled_from(["", "a", "b"]), doc_id=st.sampled_from(["", "1"])
    )
)


@given(documents, documents, documents)
async def test_more_documents_never_lower_it_and_all_of_them_find_all(expected, some, more):
    one = await outcome(tuple(expected), *some)
    other = await outcome(tuple(expected), *some, *more)
    everything = await outcome(tuple(expected), *some, *expected)
    if isinstance(one, Skipped):
        assert one == other == everything
        return
    assert isinstance(other, Score)
    assert isinstance(everything, Score)
    assert one.value <= other.value
    assert everything.value == 1


async def test_documents_that_were_not_recorded_are_not_counted_as_missed():
    expected = (Document("", doc_uri="a.html"),)
    unknown = Case(request_id="1", context_status=ContextStatus.NOT_RECORDED, expected_retrieved_context=expected)
    assert await DocumentRecall().evaluate(unknown, None) == Skipped(SkippedReason.CONTEXT_NOT_RECORDED)
    named = replace(unknown, retrieved_context=(Document("", doc_uri="a.html"),))
    found = await DocumentRecall().evaluate(named, None)
    assert isinstance(found, Score)
    assert found.value == 1
