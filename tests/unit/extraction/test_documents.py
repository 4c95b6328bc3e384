# ruff: noqa: E501 - shapes are quoted as emitters write them, one a line
"""Every shape of document list is read by the one reader."""

from __future__ import annotations

import json

import pytest

from monitor.extraction import documents, evidence
from monitor.model.case import Document
from monitor.model.span import Value

ONE = Document("the text", "s3://kb/a.md", "a", 0.5)
SHAPES: dict[str, Value] = {
    "langchain": [{"id": "a", "metadata": {"source": "s3://kb/a.md", "score": 0.5}, "page_content": "the text"}],
    "langchain in its state": {"documents": [{"page_content": "the text", "metadata": {"source": "s3://kb/a.md", "id": "a", "score": 0.5}}], "count": 1},
    "langchain serialised": [{"lc": 1, "type": "constructor", "id": ["langchain", "Document"], "kwargs": {"page_content": "the text", "id": "a", "metadata": {"source": "s3://kb/a.md", "score": 0.5}}}],
    "with score pairs": [[{"page_content": "the text", "id": "a", "metadata": {"source": "s3://kb/a.md"}}, 0.5]],
    "openinference": [{"document": {"content": "the text", "id": "a", "score": 0.5, "metadata": '{"source": "s3://kb/a.md"}'}}],
    "llama index": [{"node": {"id_": "a", "text": "the text", "metadata": {"file_path": "s3://kb/a.md"}}, "score": 0.5}],
    "haystack": {"documents": [{"url": "s3://kb/a.md", "id": "a", "content": "the text", "blob": None, "score": 0.5, "embedding": None}]},
    "pages with excerpts": {"pages": [{"id": "a", "href": "s3://kb/a.md", "excerpt": "the text", "score": 0.5}]},
    "own words": [{"id": "a", "uri": "s3://kb/a.md", "text": "the text", "score": 0.5}],
    "a vector store's hits": {"matches": [{"id": "a", "score": 0.5, "metadata": {"text": "other"}, "payload": {"text": "the text", "url": "s3://kb/a.md"}}]},
    "search engine": {"hits": {"total": 1, "hits": [{"_id": "a", "_score": 0.5, "_source": {"text": "the text", "url": "s3://kb/a.md"}}]}},
    "json in a string in a string": json.dumps(json.dumps([{"doc_id": "a", "content": "the text", "source": "s3://kb/a.md", "score": "0.5"}])),
    "python repr": "[{'id': 'a', 'text': 'the text', 'uri': 's3://kb/a.md', 'score': 0.5}]",
    "content in parts": [{"id": "a", "content": [{"type": "text", "text": "the text"}], "url": "s3://kb/a.md", "score": 0.5}],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_one_document_is_read_out_of_every_shape(shape: str) -> None:
    assert documents.read(SHAPES[shape]) == (ONE,)


def test_columns_side_by_side_are_one_document_a_row() -> None:
    columns: Value = {"ids": [["a", "b"]], "documents": [["one", "two"]], "metadatas": [[{"source": "u"}, None]]}
    assert documents.read(columns) == (Document("one", "u", "a"), Document("two", "", "b"))


def test_bare_texts_are_documents() -> None:
    assert documents.read(["one", "two"]) == (Document("one"), Document("two"))


def test_reprs_give_what_stands_in_them() -> None:
    bare: Value = ["<NodeWithScore(node=TextNode(id_=doc-1), score=0.25)>"]
    full: Value = ["NodeWithScore(node=TextNode(id_='doc-1', metadata={}, text='It\\'s here', x=1), score=0.25)"]
    assert documents.read(bare) == (Document("", "", "doc-1", 0.25),)
    assert documents.read(full) == (Document("It's here", "", "doc-1", 0.25),)


@pytest.mark.parametrize(
    "empty",
    [
        [],
        "[]",
        "",
        {"documents": []},
        '{"documents": [], "count": 0}',
        {"outputs": []},
        "No results.",
        "none",
        "No relevant documents were found.",
        '"[]"',
    ],
)
def test_every_way_of_saying_none_gives_no_documents(empty: Value) -> None:
    assert documents.read(empty) == ()
    assert documents.read_result(empty) == ()


@pytest.mark.parametrize("other", [None, 3, True, b"x", "A sentence.", {"a": 1}, [1, 2], [{}], "<generator object>"])
def test_what_is_no_list_of_documents_says_nothing(other: Value) -> None:
    assert documents.read(other) is None


def test_a_tools_text_is_one_document_also_inside_its_message() -> None:
    wanted = (Document("The office opens at nine."),)
    assert documents.read_result("The office opens at nine.") == wanted
    assert documents.read_result({"type": "tool", "data": {"content": "The office opens at nine."}}) == wanted
    assert documents.read_result({"blocks": [{"text": "The office opens at nine."}], "is_error": False}) == wanted
    assert documents.read_result({"type": "tool", "data": {"content": "No results."}}) == ()


@pytest.mark.parametrize("text", ["No documents are needed to travel.", "None of the plans include this.", "No"])
def test_a_sentence_that_only_begins_like_none_is_content(text: str) -> None:
    assert not documents.says_none(text)


def test_merging_keeps_the_first_of_each_text_and_drops_bare_ids_of_known_ones() -> None:
    a, again, bare, other = (
        Document("A b", doc_id="1"),
        Document("a  B", doc_id="9"),
        Document("", doc_id="1"),
        Document("C"),
    )
    assert evidence.merge([[bare, a], [again, other]]) == (a, other)


def test_bare_ids_get_the_one_text_that_is_known_for_them() -> None:
    known = [Document("text", "u", "1", 0.3), Document("x", "", "2"), Document("y", "", "2")]
    filled = evidence.fill([Document("", "", "1", 0.9), Document("", "", "2")], known)
    assert filled == (Document("text", "u", "1", 0.9), Document("", "", "2"))


def test_documents_are_found_in_a_prompt_in_its_order_despite_quoting() -> None:
    first, second, absent = Document('It is "best"\neffort.'), Document("年度套餐"), Document("not there")
    sent = json.dumps({"b": "年度套餐", "a": 'It is "best"\neffort.'})
    assert evidence.reached([first, absent, second], [sent]) == (second, first)


def test_a_document_of_which_only_a_part_was_sent_is_found() -> None:
    words = " ".join(f"word{at}" for at in range(200))
    assert evidence.reached([Document(words)], [words[:300]]) == (Document(words),)
    assert evidence.reached([Document(words)], [words[200:]]) == (Document(words),)
    assert evidence.reached([Document(words)], ["word1 word2 word3"]) == ()


def test_what_a_document_says_is_none_of_its_fields() -> None:
    stated = "Document(page_content='see id=9 and score=1, source=x')"
    assert documents.read([stated]) == (Document("see id=9 and score=1, source=x"),)


def test_a_score_beyond_all_numbers_is_none() -> None:
    assert documents.read(["Document(page_content='the text', score=1e999)"]) == (Document("the text"),)


def test_where_looking_for_documents_would_take_too_long_none_is_said_to_be_there() -> None:
    found = [Document(f"text {number}") for number in range(1_001)]
    assert len(evidence.reached(found[:2], ["text 0 text 1 " + "x" * 100_000])) == 2
    assert evidence.reached(found, ["text 0 " + "x" * 100_000]) == ()


def test_a_long_document_is_found_by_pieces_wherever_they_stand() -> None:
    words = " ".join(f"word{number}" for number in range(2_000))
    assert evidence.reached([Document(f"another beginning {words}")], [f"Context: {words}"])
    assert not evidence.reached([Document(f"another beginning {words}")], [f"Context: {words[: len(words) // 4]}"])


def test_a_text_may_stand_in_the_metadata_where_a_store_has_no_other_place_for_it() -> None:
    stated = {
        "matches": [{"id": "a", "score": 0.5, "values": [], "metadata": {"text": "the text", "source": "s3://kb/a.md"}}]
    }
    assert documents.read(stated) == (ONE,)
    assert documents.read([{"id": "a", "metadata": {"title": "T"}}]) == (Document("", doc_id="a"),)
