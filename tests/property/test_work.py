"""The work of reading grows with what was sent and no faster, whatever its shape.

Work is counted, not timed: the calls of functions, of Python and of C, for eight times the size against one time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from monitor import registry
from monitor.extraction import compose, evidence
from monitor.model.case import ReadingStatus
from monitor.model.trace import Trace
from tests.support.readers import READERS
from tests.support.traces import Builder
from tests.support.traces import documents as flattened
from tests.support.work import calls

pytestmark = pytest.mark.timeout(1200)

# -- values


def nested(levels: int, width: int = 3) -> object:
    """A tree under the keys that readers follow, each of its levels in a list."""
    if not levels:
        return "text"
    return {
        key: [nested(levels - 1, width)]
        for key in ("data", "content", "output", "messages", "kwargs", "document", "result")[:width]
    }


def chained(key: str, size: int) -> object:
    value: object = "text"
    for _ in range(min(size, 900)):
        value = {key: value, "pad": ["x"] * (size // 900 + 1)}
    return value


@pytest.mark.parametrize("reader", ["read", "read_result", "messages", "request", "answer"])
@pytest.mark.parametrize(
    "shape",
    [
        lambda size: [{"id": str(at), "text": "t"} for at in range(size)],
        lambda size: [{"role": "user", "content": [{"type": "text", "text": "t"}]}] * size,
        lambda size: {f"key{at}": {"question": at} for at in range(size)},
        lambda size: {"documents": [["t"] * size], "ids": [["i"] * size], "metadatas": [[{"a": "b"}] * size]},
        lambda size: [[["t", 0.5]]] * size,
        lambda size: {"kwargs": [chained("kwargs", 8)] * size},
        lambda size: [nested(3)] * (size // 8),
        lambda size: [json.dumps({"content": json.dumps([{"text": "t"}])})] * size,
    ],
)
def test_the_calls_that_a_value_costs_grow_with_its_size_and_no_faster(
    reader: str, shape: Callable[[int], Any]
) -> None:
    small, large = shape(200), shape(1600)
    assert calls(lambda: READERS[reader](large)) < 8 * 1.25 * calls(lambda: READERS[reader](small)) + 200


@pytest.mark.parametrize("key", ["data", "content", "output", "messages", "kwargs", "document", "result", "message"])
@pytest.mark.parametrize("reader", ["read", "read_result", "messages", "request", "answer"])
def test_nesting_costs_no_more_than_its_levels(reader: str, key: str) -> None:
    shallow, deep = chained(key, 10), chained(key, 800)
    assert calls(lambda: READERS[reader](deep)) < 4 * calls(lambda: READERS[reader](shallow)) + 200  # type: ignore[arg-type]


# -- trees of spans


def _begun() -> tuple[Builder, str]:
    build = Builder()
    return build, build.oi("CHAIN", {"input.value": "Why?", "output.value": "Because."})


def wide(size: int) -> Builder:
    """Calls of a model side by side, none of which gave the answer."""
    build, root = _begun()
    for number in range(size):
        build.llm(f"Question {number}?", f"Answer {number}.", root)
    return build


def retrievals(size: int) -> Builder:
    build, root = _begun()
    for number in range(size):
        build.oi("RETRIEVER", flattened("retrieval.documents", [f"Text {number}."]), root)
    build.llm("Context: Text 1.\nQuestion: Why?", "Because.", root)
    return build


def rerankings(size: int) -> Builder:
    build, root = _begun()
    for number in range(size):
        build.oi("RETRIEVER", flattened("retrieval.documents", [f"Text {number}."]), root)
        build.oi("RERANKER", flattened("reranker.output_documents", [f"Other {number}."]), root)
    build.llm("Context: Text 1.\nQuestion: Why?", "Because.", root)
    return build


def comb(size: int) -> Builder:
    """A call of a model at every level of a chain."""
    build, parent = _begun()
    for _ in range(size):
        below = build.oi("CHAIN", {}, parent)
        build.llm("q", "a", parent)
        parent = below
    return build


def broom(size: int) -> Builder:
    """Retrievals at the end of a long chain."""
    build, parent = _begun()
    for _ in range(size):
        parent = build.span("plain", None, parent)
    for number in range(size):
        build.oi("RETRIEVER", flattened("retrieval.documents", [f"Text {number}."]), parent)
    return build


def circles(size: int) -> Builder:
    """Spans around one whose parent is the last of them."""
    build, _ = _begun()
    for _ in range(size):
        build.llm("q", "a", "f" * 16)
    build.spans[-1] = type(build.spans[-1])(build.spans[-1].trace_id, "f" * 16, build.spans[1].span_id)
    return build


def documents_of_one(size: int) -> Builder:
    """One retrieval of many, and a reranking of all of them."""
    build, root = _begun()
    texts = [f"Text {number}." for number in range(size)]
    build.oi("RETRIEVER", flattened("retrieval.documents", texts), root)
    build.oi("RERANKER", flattened("reranker.output_documents", texts[::-1]), root)
    build.llm("Context: Text 1.\nQuestion: Why?", "Because.", root)
    return build


def orphans(size: int) -> Builder:
    build, _ = _begun()
    for number in range(size):
        build.llm("q", "a", f"{number + 10**9:016x}")
        build.log("gen_ai.choice", f"{number + 2:016x}", {"message": {"content": "a"}})
    return build


def indexes(size: int) -> Builder:
    """Spans that each name only a very high index."""
    build, root = _begun()
    for _ in range(size // 8):
        build.oi("RETRIEVER", {"retrieval.documents.10000.document.content": "t"}, root)
    return build


def several(size: int) -> Builder:
    """Questions with their answers below one span, each stated, with a retrieval beside."""
    build = Builder()
    root = build.span("POST /chat", kind=2)
    for number in range(size // 2):
        question, answer = f"What is the price of bike {number}?", f"The price of bike {number} is its own."
        build.oi("RETRIEVER", flattened("retrieval.documents", [f"The list of bike {number}."]), root)
        top = build.oi("CHAIN", {"input.value": question, "output.value": answer}, root)
        build.llm(f"Context: The list of bike {number}.\nQuestion: {question}", answer, top)
    return build


def several_flat(size: int) -> Builder:
    """Calls of a model and retrievals side by side, at the end of a chain of spans that say nothing."""
    build, parent = Builder(), ""
    for _ in range(size // 4):
        parent = build.oi("CHAIN", {}, parent)
    for number in range(size // 4):
        build.oi("RETRIEVER", flattened("retrieval.documents", [f"The list of bike {number}."]), parent)
        build.llm(f"What is the price of bike {number}?", f"The price of bike {number} is its own.", parent)
    return build


def transports(size: int) -> Builder:
    """Spans in one another whose texts no model has seen, around two questions."""
    build, parent = Builder(), ""
    for number in range(size):
        parent = build.oi("CHAIN", {"input.value": f"POST /{number}", "output.value": "200 OK"}, parent)
    for number in range(2):
        build.llm(f"What is the price of bike {number}?", f"The price of bike {number} is its own.", parent)
    return build


@pytest.mark.parametrize(
    "tree",
    [
        wide,
        retrievals,
        rerankings,
        comb,
        broom,
        circles,
        documents_of_one,
        orphans,
        indexes,
        several,
        several_flat,
        transports,
    ],
)
def test_the_calls_that_a_tree_costs_grow_with_its_spans_and_no_faster(tree: Callable[[int], Builder]) -> None:
    conventions = registry.conventions()
    # Below two hundred spans, some parts of a tree do not exist yet, and linear work looks steeper than it is.
    small, large = (tree(size).trace() for size in (240, 1920))

    def read(trace: Trace) -> None:
        for remembered in (evidence._short, evidence._long):  # remembered texts cost the small tree less than its share
            remembered.cache_clear()
        compose.read(trace, conventions)

    read(small)
    assert calls(lambda: read(large)) < 8 * 1.3 * calls(lambda: read(small))


def test_a_chain_of_thousands_of_spans_is_read_without_recursion() -> None:
    build, parent = Builder(), ""
    for _ in range(3000):
        parent = build.span("deep", None, parent)
    build.llm("Context: x\nQuestion: Why?", "Because.", parent)
    assert build.read().status is ReadingStatus.READY
