"""What applications had comes back as they had it, in every encoding that instrumentations use, whatever its texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extraction import documents, messages, values
from monitor.model.case import Document, Message
from monitor.model.span import Value
from tests.support.examples import examples
from tests.support.readers import is_plain

pytestmark = pytest.mark.timeout(1200)

FRAGMENTS = [
    "word",
    " ",
    "'",
    '"',
    "\n",
    "\\",
    "\\n",
    "{",
    "}",
    "{'a': 1}",
    "[",
    "]",
    "(",
    ")",
    "=",
    ", ",
    "': '",
    "\u00e9",
    "\u4e0a\u4e0b",
    "\U0001f642",
    "\u2028",
    "\x00",
    "NaN",
    "null",
    "None",
    "</doc>",
    "text='",
    "score=1",
    "id=x",
    "Question: ",
    "1.5",
]


TEXTS = (st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=5), min_size=1, max_size=8).map("".join)).filter(
    is_plain
)
IDS = st.from_regex(r"[A-Za-z0-9_:/.-]{1,12}", fullmatch=True)
URIS = st.from_regex(r"(kb|https)://[a-z0-9/._-]{1,20}", fullmatch=True)
DOCUMENTS = st.lists(
    st.builds(Document, TEXTS, URIS, IDS, st.floats(0, 1, allow_subnormal=False)), min_size=1, max_size=5
)


def rows(found: Sequence[Document], names: tuple[str, str, str, str]) -> list[dict[str, Any]]:
    return [dict(zip(names, (d.content, d.doc_uri, d.doc_id, d.score), strict=True)) for d in found]


def plain(found: Sequence[Document]) -> Any:
    return rows(found, ("text", "uri", "id", "score"))


def langchain(found: Sequence[Document]) -> Any:
    kwargs = [{"page_content": d.content, "id": d.doc_id, "metadata": {"source": d.doc_uri}} for d in found]
    return [{"lc": 1, "type": "constructor", "id": ["langchain", "Document"], "kwargs": one} for one in kwargs]


def langchain_typed(found: Sequence[Document]) -> Any:
    return [
        {
            "id": d.doc_id,
            "metadata": {"doc_uri": d.doc_uri, "score": d.score},
            "page_content": d.content,
            "type": "Document",
        }
        for d in found
    ]


def llamaindex(found: Sequence[Document]) -> Any:
    nodes = [{"id_": d.doc_id, "metadata": {"url": d.doc_uri}, "text": d.content, "embedding": None} for d in found]
    return [{"node": node, "score": d.score} for node, d in zip(nodes, found, strict=True)]


def flattened(found: Sequence[Document]) -> Any:
    attributes: dict[str, Value] = {"input.value": "q"}
    for at, d in reversed(list(enumerate(found))):
        attributes[f"retrieval.documents.{at}.document.metadata"] = json.dumps({"source": d.doc_uri})
        attributes[f"retrieval.documents.{at}.document.content"] = d.content
        attributes[f"retrieval.documents.{at}.document.id"] = d.doc_id
        attributes[f"retrieval.documents.{at}.document.score"] = d.score
    return values.unflatten(attributes, "retrieval.documents")


def columns(found: Sequence[Document]) -> Any:
    return {
        "ids": [[d.doc_id for d in found]],
        "documents": [[d.content for d in found]],
        "metadatas": [[{"source": d.doc_uri} for d in found]],
        "distances": [[0.1] * len(found)],
    }


def hits(found: Sequence[Document]) -> Any:
    return {
        "hits": {
            "total": len(found),
            "hits": [
                {"_id": d.doc_id, "_score": d.score, "_source": {"text": d.content, "url": d.doc_uri}} for d in found
            ],
        }
    }


def points(found: Sequence[Document]) -> Any:
    payloads = [{"text": d.content, "url": d.doc_uri} for d in found]
    return {"points": [{"id": d.doc_id, "score": d.score, "payload": p} for d, p in zip(found, payloads, strict=True)]}


def pairs(found: Sequence[Document]) -> Any:
    return [[{"page_content": d.content, "metadata": {"source": d.doc_uri}, "id": d.doc_id}, d.score] for d in found]


ALL, NO_SCORE, TEXT_ALONE = ("content", "doc_uri", "doc_id", "score"), ("content", "doc_uri", "doc_id"), ("content",)
SHAPES: dict[str, tuple[Callable[[Sequence[Document]], Any], tuple[str, ...]]] = {
    "list": (plain, ALL),
    "documents": (lambda found: {"documents": plain(found), "count": len(found)}, ALL),
    "haystack": (lambda found: {"documents": rows(found, ("content", "url", "id", "score"))}, ALL),
    "langchain": (langchain, NO_SCORE),
    "outputs": (lambda found: {"outputs": langchain(found)}, NO_SCORE),
    "typed": (langchain_typed, ALL),
    "llamaindex": (llamaindex, ALL),
    "source_nodes": (lambda found: {"response": "r", "source_nodes": llamaindex(found)}, ALL),
    "flattened": (flattened, ALL),
    "columns": (columns, NO_SCORE),
    "hits": (hits, ALL),
    "points": (points, ALL),
    "pairs": (pairs, ALL),
    "texts": (lambda found: [d.content for d in found], TEXT_ALONE),
}
ENCODINGS: dict[str, Callable[[Any], Value]] = {
    "array": lambda held: held,
    "json": json.dumps,
    "json as written in JavaScript": lambda held: json.dumps(held, ensure_ascii=False, separators=(",", ":")),
    "json of json": lambda held: json.dumps(json.dumps(held)),
    "elements as json": lambda held: (
        [json.dumps(one) if isinstance(one, dict) else one for one in held] if isinstance(held, list) else held
    ),
    "repr": repr,
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("shape", SHAPES)
def test_documents_come_back_out_of_every_shape_in_every_encoding(shape: str, encoding: str) -> None:
    build, fields = SHAPES[shape]

    @examples(8)
    @given(DOCUMENTS)
    def read_back(found: list[Document]) -> None:
        read = documents.read(ENCODINGS[encoding](build(found)))
        assert read is not None
        wanted = [tuple(getattr(d, field) for field in fields) for d in found]
        assert [tuple(getattr(d, field) for field in fields) for d in read] == wanted

    read_back()


@examples(60)
@given(TEXTS, IDS)
def test_a_document_comes_back_out_of_its_repr(text: str, doc_id: str) -> None:
    for written in (
        f"Document(page_content={text!r}, metadata={{}})",
        f"Document(id={doc_id!r}, page_content={text!r})",
        f"<NodeWithScore(node=TextNode(id_={doc_id!r}, text={text!r}), score=0.5)>",
    ):
        read = documents.read([written])
        assert read is not None
        assert [one.content for one in read] == [text]
        assert read[0].doc_id == ("" if "metadata" in written else doc_id)
        assert read[0].score == (0.5 if "Node" in written else None)


# -- messages

CHATS = st.lists(st.builds(Message, st.sampled_from(["system", "user", "assistant"]), TEXTS), min_size=1, max_size=5)
_CLASSES = {"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage"}
_TYPES = {"system": "system", "user": "human", "assistant": "ai"}


def _dotted(prefix: str, chat: Sequence[Message], inner: str, content: str) -> Any:
    attributes: dict[str, Value] = {}
    for at, message in reversed(list(enumerate(chat))):
        attributes[f"{prefix}.{at}.{inner}{content}"] = message.content
        attributes[f"{prefix}.{at}.{inner}role"] = message.role
    return values.unflatten(attributes, prefix)


CHAT_SHAPES: dict[str, Callable[[Sequence[Message]], Any]] = {
    "role and content": lambda chat: [{"role": m.role, "content": m.content} for m in chat],
    "messages": lambda chat: {"messages": [{"role": m.role, "content": m.content} for m in chat]},
    "batch": lambda chat: {"messages": [[{"role": m.role, "content": m.content} for m in chat]]},
    "parts": lambda chat: [{"role": m.role, "parts": [{"type": "text", "content": m.content}]} for m in chat],
    "text parts": lambda chat: [{"role": m.role, "content": [{"type": "text", "text": m.content}]} for m in chat],
    "haystack": lambda chat: [
        {"role": m.role, "meta": {}, "name": None, "content": [{"text": m.content}]} for m in chat
    ],
    "blocks": lambda chat: [{"role": m.role, "blocks": [{"block_type": "text", "text": m.content}]} for m in chat],
    "langchain data": lambda chat: [{"type": _TYPES[m.role], "data": {"content": m.content}} for m in chat],
    "langchain kwargs": lambda chat: [
        {"lc": 1, "type": "constructor", "id": ["langchain", _CLASSES[m.role]], "kwargs": {"content": m.content}}
        for m in chat
    ],
    "flattened": lambda chat: _dotted("llm.input_messages", chat, "message.", "content"),
    "flattened parts": lambda chat: _dotted("llm.input_messages", chat, "message.", "contents.0.message_content.text"),
    "indexed": lambda chat: _dotted("gen_ai.prompt", chat, "", "content"),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("shape", CHAT_SHAPES)
def test_messages_come_back_out_of_every_shape_in_every_encoding(shape: str, encoding: str) -> None:
    @examples(8)
    @given(CHATS)
    def read_back(chat: list[Message]) -> None:
        assert messages.read(ENCODINGS[encoding](CHAT_SHAPES[shape](chat))) == tuple(chat)

    read_back()


@pytest.mark.parametrize("encoding", ["array", "json", "json of json", "repr"])
@examples(40)
@given(question=TEXTS, answer=TEXTS, before=st.lists(st.tuples(TEXTS, TEXTS), max_size=2))
def test_question_history_and_answer_come_back_out_of_inputs_and_outputs(
    *, encoding: str, question: str, answer: str, before: list[tuple[str, str]]
) -> None:
    encode = ENCODINGS[encoding]
    turns = tuple(
        Message(role, text) for pair in before for role, text in zip(("user", "assistant"), pair, strict=True)
    )
    history = [{"role": m.role, "content": m.content} for m in turns]
    for given_in in (
        {"question": question, "chat_history": history},
        {"inputs": {"input": question, "history": history}, "tags": []},
        {"messages": [*history, {"role": "user", "content": question}]},
        [*history, {"role": "user", "content": question}],
    ):
        assert messages.read_request(encode(given_in)) == messages.StatedQuestion(question, turns)
    for put_out in (
        {"answer": answer, "context": []},
        {"outputs": {"output": answer}},
        {"messages": [*history, {"role": "assistant", "content": answer}]},
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": answer}}]},
    ):
        assert messages.read_answer(encode(put_out)) == answer
    assert messages.read_request(question) == messages.StatedQuestion(question)
    assert messages.read_answer(answer) == answer
