"""Which fields a request arrived with, counted by app and dialect, and what to change where one is missing."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.extraction import coverage
from monitor.extraction.coverage import FIELDS, Coverage
from monitor.model.case import Case, ContextStatus, Document, Reading, ReadingStatus, Request, Usage

WHOLE: dict[str, Any] = {
    "request_id": "r",
    "request": Request("Why?"),
    "response": "So.",
    "retrieved_context": (Document("One."),),
    "context_status": ContextStatus.RETRIEVED,
    "model": "m",
    "session_id": "s",
    "usage": Usage(1, 2, 3),
    "app": "shop",
    "convention": "gen_ai",
}


def reading(status: ReadingStatus = ReadingStatus.READY, **other: Any) -> Reading:
    return Reading(status, Case(**{**WHOLE, **other}))


def missing(found: Reading) -> set[str]:
    came = coverage.came(found)
    assert came is not None
    return set(FIELDS) - set(came)


def test_a_whole_request_came_with_every_field_in_their_order() -> None:
    assert coverage.came(reading()) == FIELDS


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("model", {"model": ""}),
        ("session", {"session_id": ""}),
        ("tokens", {"usage": Usage(1, 2)}),
        ("context", {"retrieved_context": (), "context_status": ContextStatus.NOT_RECORDED}),
    ],
)
def test_what_a_ready_request_lacks_is_missing(name: str, absent: dict[str, Any]) -> None:
    assert missing(reading(**absent)) == {name}


@pytest.mark.parametrize("status", [ContextStatus.NO_RETRIEVAL, ContextStatus.RETRIEVED_NOTHING])
def test_a_request_that_needed_no_documents_or_found_none_lacks_no_context(status: ContextStatus) -> None:
    assert missing(reading(retrieved_context=(), context_status=status)) == set()


def test_a_count_of_no_tokens_is_a_count() -> None:
    assert missing(reading(usage=Usage(0, 0, 0))) == set()


@pytest.mark.parametrize(("name", "absent"), [("question", {"request": Request()}), ("answer", {"response": ""})])
def test_a_text_that_was_not_sent_is_missing(name: str, absent: dict[str, Any]) -> None:
    assert missing(reading(ReadingStatus.CONTENT_MISSING, **absent)) == {name}


def test_without_texts_a_context_came_only_where_a_document_has_one() -> None:
    lost = {"request": Request(), "context_status": ContextStatus.RETRIEVED}
    assert missing(reading(ReadingStatus.CONTENT_MISSING, **lost)) == {"question"}
    for documents in ((), (Document("", doc_id="a"),)):
        found = reading(ReadingStatus.CONTENT_MISSING, **lost, retrieved_context=documents)
        assert missing(found) == {"question", "context"}


@pytest.mark.parametrize("status", [ReadingStatus.NO_REQUEST, ReadingStatus.FAILED_REQUEST, ReadingStatus.INCOMPLETE])
def test_what_is_no_whole_request_is_not_counted(status: ReadingStatus) -> None:
    assert coverage.came(reading(status)) is None
    assert coverage.collect([reading(status)]) == {}


def test_requests_are_counted_by_app_and_dialect() -> None:
    found = coverage.collect([
        reading(),
        reading(model=""),
        reading(convention="mlflow"),
        reading(app="desk", session_id="", model=""),
    ])  # fmt: skip
    assert {key: one.requests for key, one in found.items()} == {
        ("shop", "gen_ai"): 2,
        ("shop", "mlflow"): 1,
        ("desk", "gen_ai"): 1,
    }
    shop, desk = found["shop", "gen_ai"], found["desk", "gen_ai"]
    assert (shop.missing("model"), shop.missing("session"), desk.missing("session")) == (1, 0, 1)


def test_a_new_count_has_seen_nothing() -> None:
    assert [Coverage().missing(name) for name in FIELDS] == [0] * len(FIELDS)


def test_advice_is_the_section_of_the_dialect_and_that_of_gen_ai_for_a_plug_in() -> None:
    own, general = coverage.advice("langfuse", "session"), coverage.advice("gen_ai", "session")
    assert own != general
    assert coverage.advice("a_plug_in", "session") == general != ""
    assert not own.startswith("#")
    assert coverage.advice("gen_ai", "no_such_field") == ""


def test_rows_of_every_shape_have_the_advice_on_rows() -> None:
    assert coverage.advice("ragas", "context") == coverage.advice("rows", "context") != coverage.advice("x", "context")


def test_how_a_dialect_is_turned_on_stands_before_its_advice() -> None:
    text = coverage.set_up("openinference")
    assert text
    assert "## " not in text
    assert not text.startswith("# ")
    for other in ("a_plug_in", "../advice/openinference", ""):
        assert coverage.set_up(other) == ""
