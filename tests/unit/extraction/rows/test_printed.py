"""A row that `rag-monitor cases` printed is believed as far as its values have the right type."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.extraction.rows import printed
from monitor.model.case import ContextStatus, Document, Message, ReadingStatus, Request, Usage

TEXT, BARE = {"content": "One."}, {"doc_id": "a"}


@pytest.mark.parametrize(
    ("stated", "status"),
    [
        ({}, ContextStatus.NO_RETRIEVAL),
        ({"retrieved_context": []}, ContextStatus.RETRIEVED_NOTHING),
        ({"retrieved_context": [TEXT]}, ContextStatus.RETRIEVED),
        ({"retrieved_context": [TEXT, BARE]}, ContextStatus.NOT_RECORDED),
        ({"retrieved_context": [TEXT], "context_status": "not_recorded"}, ContextStatus.NOT_RECORDED),
        ({"retrieved_context": [TEXT], "context_status": "unheard of"}, ContextStatus.RETRIEVED),
    ],
)
def test_how_a_context_came_about_is_stated_or_shown_by_the_documents(stated: Any, status: ContextStatus) -> None:
    assert printed.read(stated).case.context_status is status


@pytest.mark.parametrize(
    ("field", "value", "left"),
    [
        ("request", "Why?", Request()),
        ("request", {"query": 5, "history": "x"}, Request()),
        ("request", {"query": "Why?", "history": [{"role": "user", "content": "Hi."}, 7]},
         Request("Why?", (Message("user", "Hi."),))),
        ("response", 5, ""),
        ("prompt", [{"role": None, "content": "x"}], (Message("", "x"),)),
        ("context_source", "elsewhere", "none"),
        ("usage", {"input_tokens": -1, "output_tokens": "2"}, Usage(None, 2)),
        ("usage", [1], Usage()),
        ("expected_response", 5, None),
        ("expected_response", "", ""),
        ("expected_retrieved_context", "x", None),
        ("expected_retrieved_context", [5, TEXT], (Document("One."),)),
        ("retrieved_context", [{"content": "x", "kind": "unheard of", "score": "0.5"}], (Document("x", score=0.5),)),
        ("retrieved_context", [{"content": "x", "kind": "tool_result"}], (Document("x", kind="tool_result"),)),
        ("attributes", {"tenant": "acme", "deep": {}}, {"tenant": "acme"}),
        ("attributes", "x", {}),
        ("timestamp", -5, 0.0),
        ("timestamp", "7.5", 7.5),
        ("timestamp", None, 0.0),
        ("seconds", "x", None),
        ("seconds", 0, 0.0),
        ("model", ["m"], ""),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_left_out(field: str, value: Any, left: Any) -> None:
    case = printed.read({field: value}).case
    assert getattr(case, {"timestamp": "answered_at"}.get(field, field)) == left


def test_a_status_is_a_claim() -> None:
    assert printed.read({"status": "failed_request", "error": "429"})[1:] == (ReadingStatus.FAILED_REQUEST, "429")
    assert printed.read({"status": "unheard of"})[1:] == (None, "")
