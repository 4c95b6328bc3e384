"""What a row leaves out decides its status; what it holds decides its id; nothing that it holds is a fault of ours."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InvalidData
from monitor.extraction import rows
from monitor.extraction.rows.shapes import SHAPES
from monitor.model.case import (
    DOCUMENT_KINDS,
    Case,
    ContextStatus,
    Document,
    Message,
    Reading,
    ReadingStatus,
    Request,
    Usage,
)
from monitor.operations.offline.files import CaseFiles
from tests.support.examples import examples
from tests.support.paths import DATA
from tests.support.rows import READ_TRACE, contents, reading
from tests.support.traces import SETUPS

FULL = {"request_id": "r", "request": "Why?", "response": "So.", "retrieved_context": [{"content": "Text."}]}
MLFLOW = DATA / "rows" / "mlflow"
FACTS = json.loads((MLFLOW / "expected.json").read_text())["traces"]
TRACES = sorted(MLFLOW.glob("*.trace.json"))


# -- statuses


@pytest.mark.parametrize("empty", [[], "", "No results.", {"documents": []}])
def test_a_retrieval_that_found_nothing_is_ready_and_says_so(empty: Any) -> None:
    found = reading({**FULL, "retrieved_context": empty})
    assert (found.status, found.case.context_status) == (ReadingStatus.READY, ContextStatus.RETRIEVED_NOTHING)


def test_a_row_that_says_nothing_of_a_context_had_no_retrieval() -> None:
    for row in ({"request": "Why?", "response": "So."}, {**FULL, "retrieved_context": None}):
        found = reading(row)
        assert (found.status, contents(found), found.case.context_source) == (ReadingStatus.READY, [], "none")
        assert found.case.context_status is ContextStatus.NO_RETRIEVAL


@pytest.mark.parametrize("missing", [None, "", "  ", [], {}, 5])
@pytest.mark.parametrize(("name", "told"), [("request", "question"), ("response", "answer")])
def test_without_question_or_answer_the_content_is_missing(name: str, told: str, missing: Any) -> None:
    found = reading({**FULL, name: missing})
    assert (found.status, found.error) == (ReadingStatus.CONTENT_MISSING, f"the row has no {told}")


def test_documents_without_their_text_are_a_context_that_was_not_recorded() -> None:
    for lost in ([{"doc_uri": "u"}], [{"content": "Text."}, {"doc_id": "7"}], [{"doc_uri": "u"}, {"content": "x"}]):
        found = reading({**FULL, "retrieved_context": lost})
        assert (found.status, found.case.context_status) == (ReadingStatus.READY, ContextStatus.NOT_RECORDED)
        assert f"1 of {len(lost)} retrieved documents" in found.error


# -- ids and other fields


def test_a_row_without_an_id_has_one_of_its_content_however_it_is_written() -> None:
    row = {"query": "Why?", "response": "So.", "context": "Text."}
    first = reading(row).case.request_id
    assert len(first) == 32
    assert reading(dict(reversed(row.items()))).case.request_id == first
    assert reading({**row, "context": "Other."}).case.request_id != first


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"request_id": "a"}, "a"),
        ({"trace_id": "b", "id": "c"}, "b"),
        ({"id": 17}, "17"),
        ({"request_id": "TR", "id": "c"}, "TR"),
        ({"request_id": "tr-0123456789ABCDEF0123456789abcdef"}, "0123456789abcdef0123456789abcdef"),
        ({"trace_id": "0123456789ABCDEF0123456789ABCDEF"}, "0123456789abcdef0123456789abcdef"),
    ],
)
def test_the_id_is_the_rows_own_and_a_trace_id_is_bare_hex(told: dict[str, Any], expected: str) -> None:
    assert reading({"query": "Why?", "response": "So.", **told}).case.request_id == expected


def test_an_endless_id_is_replaced_by_its_hash() -> None:
    one, other = (reading({**FULL, "request_id": "x" * 3000 + end}).case.request_id for end in ("", "y"))
    assert len(one) == len(other) == 32
    assert one != other


def test_every_shape_takes_session_user_app_model_attributes_and_time() -> None:
    extras = {
        "session_id": "s",
        "user_id": 7,
        "app": "shop",
        "model": "m",
        "attributes": {"tenant": "acme", "long": "x" * 500, "deep": {"a": 1}},
        "timestamp": "2026-11-21T10:00:00Z",
    }
    case = reading({"user_input": "Why?", "response": "So.", **extras}, app="other").case
    assert (case.session_id, case.user_id, case.app, case.model) == ("s", "7", "shop", "m")
    assert (case.attributes, case.answered_at) == ({"tenant": "acme"}, 1795255200.0)


@pytest.mark.parametrize("moment", [1795255200, 1795255200.0, 1795255200000, 1795255200000000000, "2026-11-21T10:00"])
def test_a_timestamp_may_be_written_in_any_usual_unit(moment: Any) -> None:
    assert reading({**FULL, "timestamp": moment}).case.answered_at == 1795255200.0


@pytest.mark.parametrize("moment", [None, "soon", -5, 1e300, True, {}, "9999-99-99"])
def test_a_time_that_is_none_is_the_time_of_arrival(moment: Any) -> None:
    assert reading({**FULL, "timestamp": moment}).case.answered_at == 5.0


def test_the_app_of_the_sender_stands_where_the_row_names_none() -> None:
    assert reading(FULL, app="shop").case.app == "shop"


def test_the_app_of_a_row_is_named_as_that_of_a_trace() -> None:
    assert reading({**FULL, "app": " a\u3000b\x00 "}, app="shop").case.app == "a b?"
    assert reading({**FULL, "app": "\u3000"}, app=f" {129 * 'x'}").case.app == 128 * "x"
    assert reading(FULL).case.app == ""


# -- our own rows

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
LABEL = st.text("abc-1", max_size=10)
COUNT = st.none() | st.integers(0, 10**9)
NUMBER = st.none() | st.floats(-1e9, 1e9)
DOCUMENTS = st.lists(st.builds(Document, TEXT, TEXT, TEXT, NUMBER, st.sampled_from(DOCUMENT_KINDS)), max_size=4).map(
    tuple
)
MESSAGES = st.lists(st.builds(Message, st.sampled_from(["user", "assistant", "system", "tool"]), TEXT)).map(tuple)
READER_DECIDES = {"source", "probability", "traffic"}
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "request_id": st.text("abcdefg-12345/", min_size=1, max_size=40).filter(lambda text: not text.startswith("tr-")),
    "request": st.builds(Request, TEXT, MESSAGES),
    "retrieved_context": DOCUMENTS,
    "context_source": st.sampled_from(["spans", "prompt", "row", "none"]),
    "context_status": st.sampled_from(ContextStatus),
    "prompt": MESSAGES,
    "response": TEXT,
    "model": TEXT,
    "usage": st.builds(Usage, COUNT, COUNT, COUNT),
    "session_id": TEXT,
    "user_id": TEXT,
    "app": LABEL,
    "span_id": LABEL,
    "convention": TEXT,
    "attributes": st.dictionaries(LABEL.filter(bool), LABEL.filter(bool), max_size=3),
    "expected_response": st.none() | TEXT,
    "expected_retrieved_context": st.none() | DOCUMENTS,
    "answered_at": st.floats(1, 1e12),
    "seconds": NUMBER,
}
READINGS = st.builds(Reading, st.sampled_from(ReadingStatus), st.builds(Case, **FIELDS), TEXT)


def test_every_field_of_a_case_is_printed_and_read_again() -> None:
    """`READINGS` is about all of them: nothing that an evaluator may see is lost between two commands."""
    assert set(FIELDS) == {field.name for field in dataclasses.fields(Case)} - READER_DECIDES


@given(READINGS)
def test_what_cases_prints_is_read_again_word_for_word(printed: Reading) -> None:
    if printed.status is ReadingStatus.READY and not (printed.case.request.query and printed.case.response):
        return  # such a case has both
    found = reading(printed.as_row())
    assert found.as_row() == printed.as_row()
    assert dataclasses.replace(found.case, source="") == printed.case
    assert rows.recognise(printed.as_row()).unused == ()


@pytest.mark.parametrize("setup", SETUPS)
def test_every_recorded_trace_is_the_same_case_when_its_row_is_read(setup: str) -> None:
    printed = [json.loads(json.dumps(one.as_row())) for one in CaseFiles([SETUPS[setup]]).readings()]
    assert printed
    for row in printed:
        assert reading(row, received_at=0).as_row() == row


# -- traces of MLflow


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_an_mlflow_trace_is_a_row(path: Path) -> None:
    (row,) = rows.take(path.read_bytes()).rows
    (found,) = rows.read(row, READ_TRACE, source="cases").readings
    facts = FACTS[row.request_id]
    if facts["error"]:
        assert found.status is ReadingStatus.FAILED_REQUEST
        return
    came = ContextStatus.RETRIEVED if facts["contexts"] else ContextStatus.RETRIEVED_NOTHING
    assert (found.status, found.case.context_status) == (ReadingStatus.READY, came)
    assert found.case.request.query == facts["question"]
    assert [{"role": m.role, "content": m.content} for m in found.case.request.history] == facts["history"]
    assert (found.case.response, contents(found)) == (facts["answer"], facts["contexts"])
    assert found.case.session_id == (facts["session_id"] or "")
    assert found.case.usage.total_tokens == facts["total_tokens"]


@pytest.mark.parametrize("as_text", [True, False])
def test_what_a_row_leaves_out_is_read_from_its_trace(as_text: bool) -> None:
    trace = json.loads((MLFLOW / "lcel_plain.trace.json").read_text())
    alone = reading(trace)
    held = json.dumps(trace) if as_text else trace
    with_answer = reading({"trace": held, "response": "Mine.", "request_id": "r"})
    assert with_answer.case.response == "Mine."
    assert with_answer.case.request == alone.case.request
    assert contents(with_answer) == contents(alone) != []
    assert with_answer.case.request_id == "r"
    assert reading({"trace": held}).case.request_id == alone.case.request_id


@pytest.mark.parametrize(
    "expectation", [{"value": "2 years"}, {"serialized_value": {"value": '"2 years"', "serialization_format": "JSON"}}]
)
@pytest.mark.parametrize("name", ["name", "assessment_name"])
def test_the_expectations_of_a_trace_are_references(expectation: Any, name: str) -> None:
    trace = json.loads((MLFLOW / "lcel_plain.trace.json").read_text())
    trace["info"]["assessments"] = [
        {name: "quality", "feedback": {"value": "expected_response"}},
        {name: "expected_response", "expectation": {"value": "Older."}},
        {name: "expected_response", "expectation": expectation},
        {name: "expected_response", "expectation": {"value": "Gone."}, "valid": False},
        {name: "expected_retrieved_context", "expectation": {"value": [{"doc_uri": "u1"}]}},
        None,
    ]
    for row in (trace, {"trace": trace}, {"trace": json.dumps(trace)}):
        found = reading(row).case
        assert (found.expected_response, found.expected_retrieved_context) == ("2 years", (Document("", "u1"),))
    assert reading({**trace, "ground_truth": "Beside."}).case.expected_response == "Beside."


def test_an_answer_that_failed_is_failed_in_a_row_with_its_trace_too() -> None:
    trace = json.loads((MLFLOW / "decorator_error.trace.json").read_text())
    found = reading({"request": "Why?", "trace": trace})
    assert found.status is ReadingStatus.FAILED_REQUEST
    assert found.error


@pytest.mark.parametrize("trace", ["no trace", {"info": {}}, {"info": {}, "data": {"spans": [1, {}, None]}}, 5])
def test_a_trace_that_is_none_leaves_the_row_as_it_is(trace: Any) -> None:
    assert reading({**FULL, "trace": trace}).status is ReadingStatus.READY
    assert reading({"trace": trace}).status in (ReadingStatus.CONTENT_MISSING, ReadingStatus.NO_REQUEST)


# -- anything at all

NAMES = sorted({name for shape in SHAPES for mark in shape.marks for name in (*mark, *shape.names)})
NAMES += ["id", "app", "attributes", "timestamp", "history", "messages", "role", "content", "usage", "spans", "error"]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(
        [*ReadingStatus, "user", "assistant", "spans", "[1] a [2] b", '{"answer": 1}', "[]", "Context: a", "tr-"]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | TEXT, inner, max_size=5),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(NAMES), JSON, min_size=1, max_size=8))
@examples(200)
def test_any_json_object_is_a_reading_or_invalid(value: dict[str, Any]) -> None:
    found = rows.take(json.dumps([value]).encode())
    for row in found.rows:
        once = rows.read(row, READ_TRACE, source="cases")
        assert all(json.dumps(one.as_row()) for one in once.readings)
        again = rows.take(row.content).rows[0]
        assert again == row
        assert all(0 <= one.case.answered_at < 2**33 for one in once.readings)
    assert len(found.rows) + len(found.faults) == 1


@given(st.binary(max_size=60) | st.text('{}[]":,\n 019a\\u', max_size=60).map(str.encode))
def test_any_body_is_rows_faults_or_invalid(body: bytes) -> None:
    try:
        found = rows.take(body)
    except InvalidData:
        return
    assert body.strip() in (b"[]", b"\xef\xbb\xbf[]") or found.rows or found.faults


@pytest.mark.parametrize("name", ["request", "context", "user_input", "conversation", "trace", "retrieved_context"])
@pytest.mark.parametrize("depth", [100, 250, 1000, 100_000])
def test_deep_nesting_is_read_or_refused(name: str, depth: int) -> None:
    for opening, closing in (("[", "]"), ('{"messages":', "}"), ('{"documents":[', "]}")):
        body = f'{{"query": "q", "response": "r", "{name}": {opening * depth}1{closing * depth}}}'.encode()
        found = rows.take(body)
        for row in found.rows:
            rows.read(row, READ_TRACE, source="cases")
        assert len(found.rows) + len(found.faults) == 1


def test_huge_texts_are_read_in_linear_time() -> None:
    for text in (
        "x" * 3_000_000,
        "[1] " * 500_000,
        "<doc>" * 400_000,
        '[{"a":' * 300_000,
        "\n" * 2_000_000,
        "0x" * 10**6,
    ):
        found = reading({"query": text, "response": text, "context": text, "messages": text, "trace": text})
        assert found.status in ReadingStatus


def test_integers_beyond_every_limit_are_no_trouble() -> None:
    body = b'{"query": "q", "response": "r", "timestamp": %s, "usage": {"total_tokens": 1e999}}' % (b"9" * 400)
    (fault,) = rows.take(body).faults
    assert fault.error.startswith("line 1: not JSON")
    assert reading({"query": "q", "response": "r", "timestamp": 2**64 - 1}).status is ReadingStatus.READY


def test_an_object_of_a_million_fields_is_refused_shortly() -> None:
    with pytest.raises(InvalidData) as refused:
        rows.recognise({str(number): None for number in range(1_000_000)})
    assert len(str(refused.value)) < 1024
