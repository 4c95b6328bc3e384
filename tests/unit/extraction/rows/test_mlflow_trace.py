"""MLflow's own JSON of a trace: both of its schemas give the same spans, and a part that is no span costs no other."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from monitor.extraction.rows import mlflow_trace
from monitor.extraction.rows.mlflow_trace import TraceRow
from monitor.model.span import Span, SpanEvent

TRACE_ID, ROOT, CHILD = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


def encoded(digits: str) -> str:
    return base64.b64encode(bytes.fromhex(digits)).decode()


NEW: dict[str, Any] = {
    "info": {
        "trace_id": f"tr-{TRACE_ID}",
        "tags": {"service.name": "shop", "tenant": "acme", "mlflow.source.name": "app.py"},
        "trace_metadata": {"mlflow.trace.session": "s1", "mlflow.trace.user": "u1"},
    },
    "data": {
        "spans": [
            {
                "trace_id": encoded(TRACE_ID),
                "span_id": encoded(CHILD),
                "parent_span_id": encoded(ROOT),
                "name": "child",
                "start_time_unix_nano": 20,
                "end_time_unix_nano": 30,
                "attributes": {"a": "1"},
                "status": {"code": "STATUS_CODE_ERROR", "message": "boom"},
                "events": [{"name": "exception", "time_unix_nano": 25, "attributes": {"exception.message": "boom"}}, 7],
            },
            {
                "trace_id": encoded(TRACE_ID),
                "span_id": encoded(ROOT),
                "parent_span_id": None,
                "name": "root",
                "start_time_unix_nano": 10,
                "end_time_unix_nano": 40,
                "status": {"code": "STATUS_CODE_OK", "message": ""},
            },
        ]
    },
}
OLD: dict[str, Any] = {
    "info": {
        "request_id": f"tr-{TRACE_ID}",
        "tags": [{"key": "service.name", "value": "shop"}, {"key": "tenant", "value": "acme"}, None],
        "request_metadata": {"mlflow.trace.session": "s1", "mlflow.trace.user": "u1"},
    },
    "data": {
        "spans": [
            {
                "context": {"trace_id": f"0x{TRACE_ID}", "span_id": f"0x{CHILD}"},
                "parent_id": f"0x{ROOT}",
                "name": "child",
                "start_time": 20,
                "end_time": 30,
                "attributes": {"a": "1"},
                "status_code": "ERROR",
                "status_message": "boom",
                "events": [{"name": "exception", "timestamp": 25, "attributes": {"exception.message": "boom"}}],
            },
            {
                "context": {"trace_id": TRACE_ID, "span_id": ROOT.upper()},
                "parent_id": None,
                "name": "root",
                "start_time": 10,
                "end_time": 40,
                "status_code": "OK",
                "status_message": "",
            },
        ]
    },
}


def read(value: Any) -> TraceRow:
    found = mlflow_trace.read(value)
    assert found is not None
    return found


def span(**fields: Any) -> Span:
    (one,) = read({"info": {}, "data": {"spans": [{"span_id": ROOT, **fields}]}}).trace.spans
    return one


@pytest.mark.parametrize("trace", [NEW, OLD])
def test_a_trace_of_either_schema_is_read_with_its_spans_by_their_start(trace: Any) -> None:
    found = read(trace)
    assert (found.request_id, found.app, found.trace.app) == (f"tr-{TRACE_ID}", "shop", "shop")
    assert (found.session_id, found.user_id, found.facts) == ("s1", "u1", {"service.name": "shop", "tenant": "acme"})
    root, child = found.trace.spans
    assert (root.trace_id, root.span_id, root.parent_id, root.is_root) == (TRACE_ID, ROOT, "", True)
    assert (root.name, root.start_ns, root.end_ns, root.status, root.attributes) == ("root", 10, 40, "ok", {})
    assert (child.trace_id, child.span_id, child.parent_id, child.is_root) == (TRACE_ID, CHILD, ROOT, False)
    assert (child.start_ns, child.end_ns, child.attributes) == (20, 30, {"a": "1"})
    assert (child.status, child.status_message) == ("error", "boom")
    assert child.events == (SpanEvent("exception", 25, {"exception.message": "boom"}),)
    assert child.origin.service_name == "shop"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("OK", "ok"),
        ("STATUS_CODE_ERROR", "error"),
        ("error", "error"),
        (1, "ok"),
        (2, "error"),
        ("UNSET", "unset"),
        (None, "unset"),
    ],
)
def test_a_status_is_a_name_or_a_number(code: Any, status: str) -> None:
    assert span(status_code=code).status == status
    assert span(status={"code": code}).status == status


@pytest.mark.parametrize(
    ("written", "digits"),
    [
        (ROOT, ROOT),
        (f"0x{ROOT}", ROOT),
        (f"0X{ROOT.upper()}", ROOT),
        (f" {ROOT} ", ROOT),
        ("0xf067aa0ba902b7", CHILD),  # a number without its leading zeros
        (encoded(ROOT), ROOT),
        (base64.b64encode(b"x" * 40).decode(), b"x".hex() * 16),
    ],
)
def test_an_id_is_hex_digits_a_hex_number_or_base64(written: str, digits: str) -> None:
    assert span(span_id=written).span_id == digits


@pytest.mark.parametrize("written", ["", "0x", "0xnot hex", "not base64!", None, 7.5, [], "é" * 16])
def test_an_item_without_an_id_that_can_be_read_is_no_span(written: Any) -> None:
    spans = [{"span_id": written}, {"span_id": ROOT, "name": "kept"}, None, "text"]
    assert [one.name for one in read({"info": {}, "data": {"spans": spans}}).trace.spans] == ["kept"]


@pytest.mark.parametrize(
    ("written", "read_as"),
    [(1, 1), ("17", 17), (2**63 - 1, 2**63 - 1), (2**63, 0), (0, 0), (-1, 0), (True, 0), (None, 0), ("soon", 0)],
)
def test_a_time_is_a_number_of_nanoseconds_that_fits_and_else_unknown(written: Any, read_as: int) -> None:
    one = span(start_time=written, end_time_unix_nano=written)
    assert (one.start_ns, one.end_ns) == (read_as, read_as)


def test_parts_of_a_span_with_the_wrong_type_are_left_out() -> None:
    one = span(attributes=[1], events={"name": "x"}, name=None, status="OK")
    assert (one.attributes, one.events, one.name, one.status) == ({}, (), "", "unset")
    assert span(events=[{"attributes": 5}]).events == (SpanEvent("", 0, {}),)


@pytest.mark.parametrize(
    "value", [None, "text", 5, {}, {"info": {}}, {"data": {"spans": []}}, {"info": [], "data": {"spans": []}},
              {"info": {}, "data": []}, {"info": {}, "data": {"spans": {}}}],
)  # fmt: skip
def test_what_has_not_the_outline_of_a_trace_is_none(value: Any) -> None:
    assert not mlflow_trace.is_trace(value)
    assert mlflow_trace.read(value) is None
    assert mlflow_trace.named(value) == ("", "")


def test_a_trace_is_named_by_its_id_and_by_the_service_in_its_tags() -> None:
    assert mlflow_trace.is_trace({"info": {}, "data": {"spans": []}})
    assert mlflow_trace.named(NEW) == mlflow_trace.named(OLD) == (f"tr-{TRACE_ID}", "shop")
    assert mlflow_trace.named({"info": {}, "data": {"spans": []}}) == ("", "")


def test_expectations_are_what_is_valid_the_last_of_a_name_counts() -> None:
    assessments = [
        {"name": "expected_response", "expectation": {"value": "Old."}},
        {"name": "expected_response", "expectation": {"value": "New."}},
        {"name": "expected_response", "expectation": {"value": "Withdrawn."}, "valid": False},
        {"name": "expected_facts", "expectation": {"serialized_value": {"value": '["a", "b"]'}}},
        {"name": "", "expectation": {"value": "Nameless."}},
        {"name": "quality", "feedback": {"value": 1}},
        {"name": "quality", "expectation": "no object"},
        "no assessment",
    ]
    found = read({"info": {"assessments": assessments}, "data": {"spans": []}})
    assert found.expectations == {"expected_response": "New.", "expected_facts": ["a", "b"]}
