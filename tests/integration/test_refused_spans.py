"""A trace of which the monitor has refused a span is never evaluated on the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.transport.otlp.json_mapping import to_protobuf
from tests.support.command import command
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.shape import REQUEST

CONFIG: dict[str, Any] = {
    "evaluators": [{"type": "overlap_groundedness"}],
    "alerts": [],
    "assembly": {"grace_period": "300ms", "idle_timeout": "10m"},
}
CHAIN, RETRIEVER, LLM = range(3)


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[MonitorProcess]:
    with MonitorProcess(tmp_path, CONFIG) as running:
        yield running


def request_of(number: int, *kept: int, large: int | None = None) -> dict[str, Any]:
    """One request of a service: a chain, its retriever and its model call; `kept` of them, one with 5 MB of text."""
    text = REQUEST.read_text().replace("0123456789abcdef" * 2, f"{number:032x}")
    data = json.loads(text.replace('"1790000000', f'"{int(time.time()) - 1}'))  # else it would be late
    scoped = data["resourceSpans"][0]["scopeSpans"][0]
    if large is not None:
        note = {"key": "note", "value": {"stringValue": "filler " * 750_000}}
        scoped["spans"][large]["attributes"].append(note)
    scoped["spans"] = [scoped["spans"][one] for one in kept or range(3)]
    return data


def send(monitor: MonitorProcess, data: dict[str, Any]) -> int:
    return monitor.post(json.dumps(data).encode(), "/v1/traces", "application/json")


def why(monitor: MonitorProcess, number: int) -> dict[str, Any]:
    result = command("why", f"{number:032x}", "-c", monitor.folder / "config.yaml", "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_request_that_lacks_a_refused_span_is_incomplete_and_why_says_so(monitor: MonitorProcess) -> None:
    assert send(monitor, request_of(1)) == 200
    assert send(monitor, request_of(2, large=RETRIEVER)) == 200  # in one request with the others
    assert send(monitor, request_of(3, RETRIEVER, large=RETRIEVER)) == 400  # alone, before the others
    assert send(monitor, request_of(3, CHAIN, LLM)) == 200
    assert send(monitor, request_of(4, LLM)) == 200
    assert send(monitor, request_of(4, RETRIEVER, large=RETRIEVER)) == 400  # alone, between the others
    assert send(monitor, request_of(4, CHAIN)) == 200
    monitor.wait_for_total(3, "ragmonitor_traces_total", app="shop", outcome="incomplete")
    monitor.wait_for_total(1, "ragmonitor_requests_total", app="shop", outcome="evaluated")
    monitor.wait_for_total(4, "ragmonitor_request_log_records_total", outcome="kept")
    assert monitor.total("ragmonitor_evaluations_total") == 1
    assert monitor.total("ragmonitor_spans_total", outcome="too_large") == 3
    for number in (2, 3, 4):
        found = why(monitor, number)
        assert found["cause"] == "incomplete"
        assert "the monitor refused 1 span larger than max_span_bytes" in found["conclusion"]
        assert found["setting"] == "max_span_bytes of its source: larger"
    assert_balanced(monitor.samples())


def test_a_span_that_cannot_be_decoded_is_missed_over_http_and_grpc(monitor: MonitorProcess) -> None:
    for number, over_grpc in ((1, False), (2, True)):
        request = ExportTraceServiceRequest.FromString(to_protobuf("traces", json.dumps(request_of(number)).encode()))
        request.resource_spans[0].scope_spans[0].spans[RETRIEVER].name = "BROKEN"
        broken = request.SerializeToString().replace(b"BROKEN", b"\xed\xa0\xbdKEN")
        if over_grpc:
            with grpc.insecure_channel(f"127.0.0.1:{monitor.grpc}") as channel:
                export = channel.unary_unary(
                    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
                    request_serializer=bytes,
                    response_deserializer=bytes,
                )
                export(broken, timeout=60)
        else:
            assert monitor.post(broken) == 200
    monitor.wait_for_total(2, "ragmonitor_traces_total", app="shop", outcome="incomplete")
    assert monitor.total("ragmonitor_evaluations_total") == 0
    assert_balanced(monitor.samples())


def test_what_was_refused_is_known_after_a_crash(monitor: MonitorProcess) -> None:
    assert send(monitor, request_of(1, RETRIEVER, large=RETRIEVER)) == 400
    monitor.kill()
    monitor.start()
    assert send(monitor, request_of(1, CHAIN, LLM)) == 200
    monitor.wait_for_total(1, "ragmonitor_traces_total", app="shop", outcome="incomplete")
    assert monitor.total("ragmonitor_evaluations_total") == 0
