"""Each field of a row's case is traced to its keys, and what has no part in any field is listed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extraction import rows
from monitor.extraction.provenance import Provenance
from monitor.extraction.rows.shapes import SHAPES
from tests.support.examples import examples
from tests.support.paths import DATA
from tests.support.rows import READ_TRACE, contents

EXAMPLES = [json.loads(line) for line in (DATA / "rows" / "shapes.jsonl").read_text().splitlines()]
MLFLOW = DATA / "rows" / "mlflow" / "lcel_plain.trace.json"


def explained(row: Any) -> Provenance:
    (found,) = rows.explain(rows.recognise(row), lambda one: rows.read(one, READ_TRACE, source="cases").readings)
    return found


def keys(found: Provenance) -> dict[str, tuple[str, ...]]:
    return {name: one.keys for name, origins in found.origins.items() for one in origins}


def unused(found: Provenance) -> list[str]:
    return [key for one in found.unused for key in one.origin.keys]


@pytest.mark.parametrize("example", EXAMPLES, ids=[one["name"] for one in EXAMPLES])
def test_question_answer_and_context_of_every_shape_have_their_keys(example: Any) -> None:
    found = explained(example["row"])
    assert contents(found.reading)
    assert {"question", "answer", "context"} <= keys(found).keys()
    assert {one.convention for origins in found.origins.values() for one in origins} == {example["shape"]}
    stated = {key.split(".")[0] for of_field in keys(found).values() for key in of_field}
    said_nothing = {name for name, value in example["row"].items() if value in (None, "", [], {})}
    assert stated | {key.split(".")[0] for key in unused(found)} | said_nothing | {"request_id"} >= set(example["row"])


def test_every_key_is_used_by_a_field_or_listed() -> None:
    row = {
        "id": 7,
        "userText": "How long?",
        "dataList": [{"text": "Two years."}],
        "responseContent": "Two years.",
        "ground_truth": "2 years",
        "reference": "3 years",
        "chat_history": [{"role": "user", "content": "Hi"}],
        "expected_documents": [{"doc_uri": "u1"}],
        "usage": {"prompt_tokens": 3, "cached": 4},
        "session_id": "s",
        "user_id": "u",
        "model": "m",
        "app": "shop",
        "prompt": "Be brief.",
        "attributes": {"tenant": "acme", "deep": {"a": 1}},
        "timestamp": 1795255200,
        "latency": 3,
    }
    found = explained(row)
    assert keys(found) == {
        "question": ("userText",),
        "history": ("chat_history",),
        "context": ("dataList",),
        "answer": ("responseContent",),
        "reference": ("ground_truth",),
        "expected": ("expected_documents",),
        "prompt": ("prompt",),
        "model": ("model",),
        "usage": ("usage.prompt_tokens",),
        "session": ("session_id",),
        "user": ("user_id",),
        "app": ("app",),
        "attributes": ("attributes.tenant",),
        "time": ("timestamp",),
    }
    assert unused(found) == ["reference", "latency", "usage.cached", "attributes.deep"]


def test_a_key_within_an_object_is_named() -> None:
    found = explained({
        "inputs": {"question": "Why?", "lang": "en", "chat_history": [{"role": "user", "content": "Hi"}]},
        "outputs": {"answer": "So.", "documents": ["Text."]},
        "expectations": {"expected_response": "So."},
    })  # fmt: skip
    assert keys(found) == {
        "question": ("inputs.question",),
        "history": ("inputs.chat_history",),
        "answer": ("outputs.answer",),
        "context": ("outputs.documents",),
        "reference": ("expectations.expected_response",),
    }
    assert unused(found) == ["inputs.lang"]


def test_what_comes_out_of_a_trace_is_said_to() -> None:
    trace = json.loads(MLFLOW.read_text())
    assert {keys(explained(trace))[name] for name in ("question", "answer", "context")} == {("data.spans",)}
    found = explained({"trace": MLFLOW.read_text(), "response": "Mine.", "request_id": "r"})
    assert keys(found)["question"] == keys(found)["context"] == ("trace",)
    assert keys(found)["answer"] == ("response",)


NAMES = sorted({name for shape in SHAPES for name in shape.names} | {"expected", "usage", "id", "foo"})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=2, max_size=9))
@examples(60)
def test_any_row_is_explained(row: dict[str, Any]) -> None:
    taken = rows.take(json.dumps(row).encode())
    for one in taken.rows:
        for found in rows.explain(one, lambda row: rows.read(row, READ_TRACE, source="cases").readings):
            assert found.reading in rows.read(one, READ_TRACE, source="cases").readings


def test_a_row_of_many_fields_is_explained_without_reading_it_for_each() -> None:
    row = {"query": "Why?", "response": "So.", **{f"field-{number}": number for number in range(5_000)}}
    reads = 0

    def read(one: Any) -> list[Any]:
        nonlocal reads
        reads += 1
        return rows.read(one, READ_TRACE, source="cases").readings

    (found,) = rows.explain(rows.recognise(row), read)
    assert reads < 10
    assert len(found.unused) == 200
