"""What tools return: documents, or one text that is taken apart only at clear marks."""

from __future__ import annotations

import pytest

from monitor.extraction import prompt
from monitor.model.case import Document
from monitor.model.span import Value


@pytest.mark.parametrize(
    "stated",
    [
        "[1] One\n\n[2] Two",
        '"[1] One\\n\\n[2] Two"',
        {"content": [{"type": "text", "text": "[1] One\n[2] Two"}], "isError": False},
        {"type": "tool", "data": {"content": "<document>One</document><document>Two</document>"}},
        ["One", "Two"],
    ],
)
def test_the_documents_in_one_text_are_found_in_whatever_carries_it(stated: Value) -> None:
    assert prompt.of_tool(stated) == (Document("One"), Document("Two"))


def test_a_document_with_a_name_is_left_whole() -> None:
    assert prompt.of_tool([{"id": "a", "text": "[1] One\n[2] Two"}]) == (Document("[1] One\n[2] Two", doc_id="a"),)


def test_a_text_without_marks_is_one_document() -> None:
    assert prompt.of_tool("One.\n\nAnd more.") == (Document("One.\n\nAnd more."),)


@pytest.mark.parametrize("stated", ["", "[]", {"pages": []}, "No matching help pages were found."])
def test_a_tool_that_found_nothing_says_so(stated: Value) -> None:
    assert prompt.of_tool(stated) == ()


@pytest.mark.parametrize("stated", [None, "<generator object find at 0x7f>"])
def test_what_is_no_evidence_says_nothing(stated: Value) -> None:
    assert prompt.of_tool(stated) is None


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        (3, "3"),
        ({"count": 2}, '{"count":2}'),
        ('{"temperature": 21, "unit": "C"}', '{"temperature":21,"unit":"C"}'),
        ([[1, 2], [3, 4]], "[[1,2],[3,4]]"),
    ],
)
def test_a_bare_result_is_one_document_with_its_json(stated: Value, text: str) -> None:
    assert prompt.of_tool(stated) == (Document(text),)
