"""What senders and judges can make the monitor hold in memory is bounded, whatever they send."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.llm import LLMServer, bomb, redirect, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.otlp import length_delimited
from tests.support.service import RagService
from tests.support.tools import wait_until

MIB = 1024**2


def export(number: int, size: int) -> bytes:
    """A request with one span of a trace of its own, and `size` bytes of resource that no other has; gzip."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "shop"
    group.resource.attributes.add(key="process.command_line").value.string_value = "a" * size + str(number)
    group.scope_spans.add().spans.add(
        trace_id=(number + 1).to_bytes(16, "big"), span_id=b"12345678", name="x", start_time_unix_nano=1
    )
    return gzip.compress(request.SerializeToString(), 1)


def test_resources_of_traces_that_are_not_kept_leave_nothing_in_memory(tmp_path: Path) -> None:
    with MonitorProcess(tmp_path, {"sampling": {"traces": "0%"}}) as monitor:
        assert monitor.post(export(0, 900_000), gzipped=True) == 200
        before = monitor.resident()
        for number in range(1, 200):
            assert monitor.post(export(number, 900_000), gzipped=True) == 200
        for number in range(200, 400):
            assert monitor.post(export(number, 3_000_000), gzipped=True) == 400
        assert monitor.resident() - before < 100 * MIB  # of 780 MB that came
        # A scrape may be a second old.
        wait_until(lambda: monitor.total("ragmonitor_spans_total", outcome="too_large") == 200, 30, "the count")
        assert_balanced(monitor.samples())


def test_resources_of_open_traces_are_counted_and_bounded(tmp_path: Path) -> None:
    options = {"grace_period": "300ms", "idle_timeout": "10m", "max_open_bytes": "16MiB"}
    with MonitorProcess(tmp_path, {"assembly": options}) as monitor:
        for number in range(8):
            assert monitor.post(export(number, 1_000_000), gzipped=True) == 200
        wait_until(lambda: 8_000_000 < monitor.total("ragmonitor_open_traces_bytes") < 9_000_000, 30, "their bytes")
        for number in range(8, 120):
            assert monitor.post(export(number, 1_000_000), gzipped=True) == 200
        assert monitor.total("ragmonitor_open_traces_bytes") <= 16 * MIB
        wait_until(lambda: monitor.total("ragmonitor_traces_closed_total", reason="evicted") >= 100, 30, "evictions")
        assert_balanced(monitor.samples())


def test_service_names_have_as_many_series_after_a_restart_as_before_and_the_busiest_keep_theirs(
    tmp_path: Path,
) -> None:
    odd, shown = "docs\n# HELP x", "docs # HELP x"
    names = [*(f"svc-{number}" for number in range(3000)), *["shop", odd, ""] * 20]
    rows = [{"id": str(number), "question": "Why?", "answer": "So.", "app": name} for number, name in enumerate(names)]
    config = {
        "evaluators": [{"type": "refusal_pattern"}],
        "alerts": [{"evaluator": "refusal_pattern", "warning": "5%"}],
    }
    with MonitorProcess(tmp_path, config) as monitor:
        for start in range(0, len(rows), 500):
            assert monitor.post(json.dumps(rows[start : start + 500]).encode(), "/v1/cases", "application/json") == 200
        monitor.wait_for_total(len(rows), "ragmonitor_evaluations_total")
        assert monitor.terminate(60) == 0
        monitor.start()
        name = "ragmonitor_alert_threshold_ratio"
        wait_until(lambda: bool(monitor.samples().get(name)), 30, "the first look at the alerts")
        thresholds = [labels["app"] for labels, _ in monitor.samples()[name]]
        assert len(thresholds) == len(set(thresholds)) == 201
        assert {"shop", shown, "unknown", "__other__"} < set(thresholds)
        for app, number in {"shop": 20, shown: 20, "unknown": 20, "__other__": 3000 - 197}.items():
            found = json.loads(monitor.get(f"/api/v1/overview?window=1h&app={quote(app)}"))
            assert [one["rates"][0]["evaluated"] for one in found["apps"]] == [number]


@pytest.mark.parametrize("beside", ["nothing", "a span that is kept"])
def test_millions_of_attributes_of_a_resource_are_refused_before_they_are_decoded(tmp_path: Path, beside: str) -> None:
    resource = length_delimited(1, b"\x0a\x00" * 9_500_000)  # 19 kB on the wire
    span = length_delimited(1, bytes(15) + b"\x01") + length_delimited(2, bytes(7) + b"\x01")
    spans = length_delimited(2, length_delimited(2, span))
    body, status = length_delimited(1, resource + spans), 400
    if beside != "nothing":
        body, status = body + length_delimited(1, spans), 200
    with MonitorProcess(tmp_path) as monitor:
        before = monitor.resident("VmHWM")
        assert monitor.post(gzip.compress(body, 1), gzipped=True) == status
        assert monitor.resident("VmHWM") - before < 10 * len(body)  # decoded they take thirty times as much
        assert monitor.post(export(1, 1_000), gzipped=True) == 200


def test_a_judge_that_redirects_or_inflates_gets_nowhere_and_an_empty_answer_is_not_shown_to_it(tmp_path: Path) -> None:
    with LLMServer() as llm:
        elsewhere = f"{llm.url}/elsewhere"
        llm.always(lambda asked: verdict(score=5) if "elsewhere" in asked.path else redirect(elsewhere))
        judge = {"model": "anthropic/scripted", "api_key": "none", "api_base": llm.url, "max_attempts": 1}
        with MonitorProcess(tmp_path, {"judge": judge, "evaluators": [{"type": "relevance"}], "alerts": []}) as monitor:
            service = RagService.over_http(monitor.http)

            def unscored_after_asking(number: int) -> None:
                service.ask(f"Can I get my money back after {number} days?")
                service.flush()
                wait_until(lambda: monitor.total("ragmonitor_unscored_total") == number, 60, "the outcome")

            unscored_after_asking(1)  # its libraries are loaded now
            assert [one.path for one in llm.requests if "elsewhere" in one.path] == []
            before = monitor.resident("VmHWM")
            llm.always(bomb(300 * MIB))
            unscored_after_asking(2)
            assert monitor.total("ragmonitor_unscored_total", reason="provider_error") == 2
            assert monitor.resident("VmHWM") - before < 64 * MIB
            calls = len(llm.requests)
            for empty in ("<think></think>", "N/A", "So\u00adlution"):
                service.ask("Can I get my money back?", empty)
            service.flush()
            wait_until(lambda: monitor.total("ragmonitor_evaluations_total", defect="true") == 3, 60, "three scores")
            assert len(llm.requests) == calls
            service.close()
