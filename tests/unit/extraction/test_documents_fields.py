# ruff: noqa: E501 - shapes are quoted as emitters write them, one a line
"""Which field of a document is its text, its id, its address and its score, and how deep they are looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from monitor.extraction import documents, values
from monitor.model.case import Document
from monitor.model.span import Value

ONE = {"page_content": "One.", "id": "a"}


def read_one(value: Value) -> Document:
    (found,) = documents.read([value]) or ()
    return found


def nested(inner: Any, key: str, levels: int) -> Any:
    """A value within lists, or within objects under a key."""
    for _ in range(levels):
        inner = {key: inner} if key else [inner]
    return inner


@pytest.mark.parametrize(
    ("read", "inner", "key", "levels"),
    [
        (documents.read, ONE, "", 6),
        (documents.read, ONE, "documents", 5),
        (documents.read, ONE, "node", 5),
        (documents.read, ["One."], "output", 5),
        (documents.read_result, "One.", "", 6),
        (documents.read_result, "One.", "result", 6),
        (documents.read_result, "One.", "content", 7),
    ],
)
def test_what_is_nested_is_read_up_to_six_levels(
    read: Callable[[Value], object], inner: Value, key: str, levels: int
) -> None:
    assert all(read(nested(inner, key, at)) for at in range(levels + 1))
    assert not any(read(nested(inner, key, at)) for at in range(levels + 1, levels + 7))


# -- fields


@pytest.mark.parametrize(
    ("item", "document"),
    [
        ({"text": "One.", "metadata": {"doc_id": "inner", "source": "u", "score": 0.5}}, Document("One.", "u", "inner", 0.5)),
        ({"text": "One.", "id": "outer", "url": "o", "score": 0.1, "metadata": {"id": "inner", "source": "u", "score": 0.5}},
         Document("One.", "o", "outer", 0.1)),
        ({"text": "One.", "id": 7, "meta": '{"file_name": "f"}', "similarity": "0.25"}, Document("One.", "f", "7", 0.25)),
        ({"text": "One.", "score": 0, "_score": 9}, Document("One.", score=0.0)),
        ({"text": "One.", "score": "high", "_score": 9}, Document("One.", score=9.0)),
        ({"text": "One.", "score": None, "metadata": {"score": 2}}, Document("One.", score=2.0)),
        ({"content": " ", "text": "One."}, Document("One.")),
        ({"content": "__REDACTED__", "text": "One."}, Document("One.")),
        ({"content": ["One.", {"text": "Two."}, 7, ""]}, Document("One.\nTwo.")),
        ({"content": [7], "text": "One."}, Document("One.")),
        ({"content": '["One.", "Two."]'}, Document("One.\nTwo.")),
        ({"document": {"text": "One.", "id": "inner", "score": 0.5}, "id": "outer"}, Document("One.", "", "outer", 0.5)),
        ({"node": {"text": "One.", "source": "u"}, "score": 0.0}, Document("One.", "u", "", 0.0)),
        ({"node": {"nothing": 1}, "payload": {"text": "One."}}, Document("One.")),
        ({"node": {"id": "inner"}, "metadata": {"text": "One."}}, Document("", "", "inner")),
        ({"id": "a", "metadata": {"chunk_text": "One."}}, Document("One.", "", "a")),
        ({"id": "a", "metadata": {"body": "One."}}, Document("", "", "a")),
        ({"source": "u", "score": 0.5}, Document("", "u", "", 0.5)),
        ("One.", Document("One.")),
        ('{"text": "One."}', Document("One.")),
    ],
)  # fmt: skip
def test_a_document_is_read_from_itself_then_from_what_it_wraps_and_its_metadata(
    item: Value, document: Document
) -> None:
    assert read_one(item) == document


@pytest.mark.parametrize("item", [{"source": "u"}, {"score": 0.5}, {"title": "T"}, {"text": 7}, " ", 7, None, {}])
def test_without_a_text_an_id_or_an_address_with_a_score_it_is_no_document(item: Value) -> None:
    assert documents.read([item]) is None
    assert documents.read([item, "One."]) == (Document("One."),)


@pytest.mark.parametrize(
    ("pair", "found"),
    [
        ([ONE, 0.5], (Document("One.", "", "a", 0.5),)),
        ([ONE, 0], (Document("One.", "", "a", 0.0),)),
        (["One.", 0.5], (Document("One.", score=0.5),)),
        (["One.", "0.5"], (Document("One."), Document("0.5"))),
        (["One.", "Two."], (Document("One."), Document("Two."))),
        (["One.", 0.5, 7], (Document("One."),)),
        ([7, 0.5], ()),
        ([], ()),
    ],
)
def test_a_pair_with_a_number_is_a_document_with_its_score_any_other_list_the_hits_of_a_query(
    pair: Any, found: tuple[Document, ...]
) -> None:
    assert documents.read([pair, "Last."]) == (*found, Document("Last."))


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"documents": ["One.", "Two."], "ids": ["a", "b"]}, (Document("One.", "", "a"), Document("Two.", "", "b"))),
        ({"documents": [["One."], ["Two."]], "ids": [["a"], ["b"]]},
         (Document("One.", "", "a"), Document("Two.", "", "b"))),
        ({"documents": ["One.", "Two."], "ids": ["a"]}, (Document("One.", "", "a"), Document("Two."))),
        ({"documents": ["One.", None], "ids": ["a", "b"]}, (Document("One.", "", "a"),)),
        ({"documents": [ONE], "distances": [0.5]}, (Document("One.", "", "a"),)),
        ({"documents": ["One."], "ids": [7], "metadatas": ["x"]}, (Document("One.", "", "7"),)),
        ({"documents": [["One."], "Two."], "ids": []}, (Document("Two."),)),
        ({"documents": [], "ids": []}, ()),
    ],
)  # fmt: skip
def test_columns_of_a_vector_store_are_read_row_by_row(columns: Any, found: tuple[Document, ...]) -> None:
    assert documents.read(columns) == found


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("Document(page_content='One.', metadata={'source': 's3://a'})", Document("One.", "s3://a")),
        ("TextNode(id_='a', text='One.')", Document("One.", "", "a")),
        ("Node(node_id=a-1, score=-0.5)", Document("", "", "a-1", -0.5)),
        ("Node(doc_id='a', text='One.', score=2e-3)", Document("One.", "", "a", 0.002)),
    ],
)
def test_a_document_may_be_a_python_repr(text: str, document: Document) -> None:
    assert documents.read(text) == (document,)
    assert read_one(text) == document


def test_a_repr_without_text_and_id_is_no_document() -> None:
    assert documents.read("Node(score=0.5)") is None


def test_the_score_of_a_repr_stands_at_its_end_and_its_id_near_its_beginning() -> None:
    assert read_one(f"Node(id_='a', score=0.5, x={'y' * 189})").score is None
    assert read_one(f"Node(id_='a', score=0.5, x={'y' * 180})").score == 0.5
    assert documents.read([f"Node(x={'y' * values.MAX_REPR}, id_='a')"]) is None


# -- lists


def test_the_most_specific_key_holds_the_documents() -> None:
    assert documents.read({"outputs": ["Two."], "source_documents": ["One."]}) == (Document("One."),)
    assert documents.read({"documents": "no list", "results": ["One."]}) == (Document("One."),)
    assert documents.read({"documents": [7], "results": ["One."]}) == (Document("One."),)
    assert documents.read({"text": "One.", "documents": ["Two."]}) == (Document("One."),)


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ({"result": "One.", "id": 1}, (Document("One."),)),
        ({"raw_output": None, "content": "One."}, (Document("One."),)),
        ({"data": {"status": 7}, "output": "One."}, (Document("One."),)),
        ({"documents": ["One."], "result": "Two."}, (Document("One."),)),
        ({"sources": ["One."], "result": "Two."}, (Document("Two."),)),
        ({"content": "no results"}, ()),
        (" One. ", (Document("One."),)),
        ("__REDACTED__", None),
        ("Thing(text='One.')", None),
        ({"status": 7}, None),
        (7, None),
    ],
)
def test_the_result_of_a_tool_is_a_text_or_the_documents_that_its_message_carries(
    result: Value, found: tuple[Document, ...] | None
) -> None:
    assert documents.read_result(result) == found


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ({"documents": ["One."], "question": "Why?"}, (Document("One."),)),
        ({"kwargs": {"context": '["One."]'}}, (Document("One."),)),
        ({"inputs": {"docs": []}}, ()),
        ({"documents": "no list", "kwargs": {"docs": ["One."]}}, (Document("One."),)),
        ({"results": ["One."]}, None),
        (["One."], None),
        (None, None),
    ],
)
def test_the_state_of_a_chain_holds_documents_under_usual_names_only(
    state: Value, found: tuple[Document, ...] | None
) -> None:
    assert documents.of_state(state) == found


def test_an_address_stands_in_the_item_or_in_its_metadata() -> None:
    assert documents.address({"url": "u", "metadata": {"source": "inner"}}) == "u"
    assert documents.address({"metadata": '{"source": "inner"}'}) == "inner"
    assert documents.address({"metadata": "x"}) == documents.address("u") == documents.address(None) == ""


def test_documents_without_text_are_counted() -> None:
    assert documents.without_text([Document("One."), Document(""), Document("", "u")]) == 2
    assert documents.without_text([]) == 0


# -- nothing


@pytest.mark.parametrize(
    "text",
    [
        "Sorry, we found no matching articles.",
        "There were zero results for your query.",
        "0 hits",
        "I could not find anything.",
        "We didn't find any documents on this.",
        "Nothing was found.",
        "NULL",
        "Keine Treffer zu dieser Frage.",
        "没有找到相关内容",
        " \n",
    ],
)
def test_a_short_sentence_says_that_there_is_nothing(text: str) -> None:
    assert documents.says_none(text)


def test_a_sentence_of_more_than_120_characters_is_a_text() -> None:
    begins = "Sorry, there were no matching documents found "
    sentence = begins + "x" * (120 - len(begins))
    assert documents.says_none(f" {sentence} ")
    assert not documents.says_none(sentence + "x")
