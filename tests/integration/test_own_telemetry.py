"""The monitor's own traces and logs on their way: what they say, that none is judged, that they stop nothing."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceProto
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from monitor.clock import SystemClock
from monitor.errors import MonitorError, Overloaded
from monitor.jobs.self_telemetry.spans import RecordingTracer
from monitor.sources.otlp_grpc import OtlpGrpc
from monitor.sources.otlp_http import OtlpHttp
from monitor.stages import Accepted
from monitor.transport.http import client
from monitor.transport.otlp.exporter import OtlpSender, Target
from tests.support.llm import LLMServer, status, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.otlp import ScriptedIntake, Serving, serving
from tests.support.service import BAD, CONTEXT, RagService
from tests.support.tools import free_port, leading_to, wait_until

QUESTION = "May I have my money back, please?"
LOCAL = {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []}


def plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def received(at: Serving, signal: str) -> list[Any]:
    kind = Span if signal == "traces" else LogRecord
    batches = [batch for batch in at.intake.batches if batch.signal == signal]
    return [kind.FromString(item) for batch in batches for group in batch.groups for item in group.items]


def resources(at: Serving) -> list[dict[str, Any]]:
    groups = [group for batch in at.intake.batches for group in batch.groups]
    return [plain(ResourceProto.FromString(group.resource).attributes) for group in groups]


def ask(monitor: MonitorProcess, times: int = 1) -> str:
    service = RagService.over_http(monitor.http)
    trace = [service.ask(QUESTION, BAD) for _ in range(times)][-1]
    service.close()
    wait_until(lambda: monitor.total("ragmonitor_traces_total", app="shop") == times, 20, "the end of the traces")
    return trace


def judged(llm: LLMServer) -> dict[str, Any]:
    judge = {"model": "openai/scripted", "api_key": "none", "api_base": llm.url, "max_attempts": 1}
    return {"judge": judge, "evaluators": [{"type": "overlap_groundedness"}, {"type": "groundedness"}], "alerts": []}


def telemetry(at: Serving | str, **options: Any) -> dict[str, Any]:
    endpoint = at if isinstance(at, str) else f"http://{at.address}"
    return {"telemetry": {"endpoint": endpoint, "traces": "100%", **options}}


def test_a_judged_case_is_one_trace_with_the_call_of_the_judge_below_its_evaluation(tmp_path: Path) -> None:
    """And a delivery one of its own. Nothing in them is text of the traffic or of the judge."""
    with LLMServer() as llm, serving(OtlpGrpc(port=0)) as receiver:
        llm.always(verdict(reason="made up from thin air", score=1))
        monitor = MonitorProcess(tmp_path, {**judged(llm), **telemetry(receiver)})
        with monitor:
            trace_id = ask(monitor)
            wait_until(lambda: any(one.name == "case" for one in received(receiver, "traces")), 20, "the spans")
            assert monitor.terminate() == 0
        spans: dict[str, Span] = {one.name: one for one in received(receiver, "traces")}
        sent = b"".join(receiver.intake.items)
    parents = {
        name: next((other.name for other in spans.values() if other.span_id == one.parent_span_id), "")
        for name, one in spans.items()
    }
    assert parents == {
        "receive": "",
        "case": "",
        "read": "case",
        "local evaluators": "case",
        "wait for the judge": "case",
        "evaluate groundedness": "case",
        "chat scripted": "evaluate groundedness",
        **{f"deliver to {sink}": "case" for sink in ("storage", "prometheus")},
    }
    (link,) = spans["case"].links
    assert link.trace_id.hex() == trace_id
    assert plain(spans["case"].attributes)["rag_monitor.outcome"] == "evaluated"
    call = plain(spans["chat scripted"].attributes)
    assert call["gen_ai.provider.name"] == "openai"
    assert call["gen_ai.request.model"] == "scripted"
    assert call["gen_ai.usage.input_tokens"] > 0
    assert spans["chat scripted"].kind == Span.SPAN_KIND_CLIENT
    assert spans["evaluate groundedness"].end_time_unix_nano >= spans["chat scripted"].end_time_unix_nano
    assert plain(spans["receive"].attributes)["rag_monitor.source"] == "otlp_http"
    for text in (QUESTION, CONTEXT, BAD, "made up from thin air"):
        assert text.encode() not in sent


def test_a_call_that_fails_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with LLMServer() as llm, serving(OtlpGrpc(port=0)) as receiver:
        llm.always(status(500))
        with MonitorProcess(tmp_path, {**judged(llm), **telemetry(receiver)}) as monitor:
            ask(monitor)
            wait_until(lambda: any(one.name == "case" for one in received(receiver, "traces")), 20, "the spans")
        failed = {one.name: one for one in received(receiver, "traces") if one.status.code == Status.STATUS_CODE_ERROR}
    assert set(failed) == {"chat scripted", "evaluate groundedness"}
    assert {plain(one.attributes)["error.type"] for one in failed.values()} == {"provider_error"}


def test_events_are_log_records_with_the_name_version_and_instance_of_the_monitor(tmp_path: Path) -> None:
    """Also those that its log leaves out; over HTTP with headers, the endpoint without the path of a signal."""
    with serving(OtlpHttp(port=0, auth={"token": "s3cret"})) as receiver:
        options = {"protocol": "http", "headers": {"authorization": "Bearer s3cret"}}
        config = {**LOCAL, **telemetry(receiver, **options), "log": {"level": "ERROR"}}
        with MonitorProcess(tmp_path, config) as monitor:
            wait_until(lambda: received(receiver, "logs"), 20, "the records")
            assert monitor.terminate() == 0
        events = {one.event_name: one for one in received(receiver, "logs")}
        told = resources(receiver)
    assert {"rag_monitor.listening", "rag_monitor.started", "rag_monitor.stopping"} <= set(events)
    assert events["rag_monitor.listening"].body.string_value
    assert plain(events["rag_monitor.listening"].attributes).keys() >= {"rag_monitor.address"}
    assert {one["service.name"] for one in told} == {"rag-monitor"}
    assert len({one["service.instance.id"] for one in told}) == 1
    assert told[0]["service.version"]
    assert monitor.log.read_text() == ""


def test_logs_can_stay_at_home(tmp_path: Path) -> None:
    with serving(OtlpGrpc(port=0)) as receiver:
        with MonitorProcess(tmp_path, {**LOCAL, **telemetry(receiver, logs=False)}) as monitor:
            ask(monitor)
            wait_until(lambda: received(receiver, "traces"), 20, "the spans")
        assert received(receiver, "logs") == []


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_monitor_that_sends_to_itself_judges_none_of_it_and_does_not_feed_itself(
    tmp_path: Path, protocol: str
) -> None:
    monitor = MonitorProcess(tmp_path, LOCAL)
    port = monitor.grpc if protocol == "grpc" else monitor.http
    monitor.config |= telemetry(f"http://127.0.0.1:{port}", protocol=protocol)
    with monitor:
        ask(monitor, 5)

        def own() -> tuple[float, ...]:
            names = ("ragmonitor_spans_total", "ragmonitor_log_records_total")
            return tuple(monitor.total(name, outcome="own_telemetry") for name in names)

        # A case is at least five spans: case, read, local evaluators and two deliveries.
        wait_until(lambda: own()[0] >= 5 * 5 and own()[1] >= 3, 20, "its own telemetry")

        def at_rest() -> bool:
            """Whether all that was sent has come, and no more does within two rounds of sending."""
            before = own()
            time.sleep(2.5)
            return own() == before and monitor.total("ragmonitor_telemetry_items_total", outcome="sent") == sum(before)

        wait_until(at_rest, 30, "the end of its own telemetry")
        assert monitor.total("ragmonitor_evaluations_total") == 5
        assert monitor.total("ragmonitor_traces_total", app="rag-monitor", outcome="own_telemetry") >= 5
        assert monitor.total("ragmonitor_traces_total", app="rag-monitor") == monitor.total(
            "ragmonitor_traces_total", app="rag-monitor", outcome="own_telemetry"
        )
        assert_balanced(monitor.samples())
        assert monitor.terminate() == 0


def test_an_endpoint_where_nobody_listens_is_said_once_and_stops_nothing(tmp_path: Path) -> None:
    port = free_port()
    config = {**LOCAL, **telemetry(f"http://127.0.0.1:{port}", timeout="300ms")}
    with MonitorProcess(tmp_path, config) as monitor:
        ask(monitor)
        wait_until(lambda: monitor.total("ragmonitor_events_total", event="telemetry_failed"), 20, "the message")
        ask_again = RagService.over_http(monitor.http)
        ask_again.ask(QUESTION, BAD)
        ask_again.close()
        monitor.wait_for_total(2, "ragmonitor_evaluations_total")
        with socket.create_server(("127.0.0.1", port)) as server:
            server.settimeout(120)
            for _ in range(3):  # it goes on trying; each connection ends at once
                server.accept()[0].close()
        assert monitor.total("ragmonitor_events_total", event="telemetry_failed") == 1
        assert monitor.terminate(5) == 0
    lines = [json.loads(line) for line in monitor.log.read_text().splitlines()]  # and nothing of the SDK's own
    said = [line for line in lines if line["level"] not in ("info", "debug")]
    assert [line["event"] for line in said] == ["telemetry_failed"]
    assert "127.0.0.1" in said[0]["receiver"]


def test_an_endpoint_that_never_answers_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with MonitorProcess(tmp_path, {**LOCAL, **telemetry(address, protocol="http", timeout="60s")}) as monitor:
            ask(monitor, 3)
            assert monitor.terminate(5) == 0


def test_a_receiver_that_comes_back_gets_what_waited(tmp_path: Path) -> None:
    port = free_port()
    with MonitorProcess(tmp_path, {**LOCAL, **telemetry(f"http://127.0.0.1:{port}", timeout="300ms")}) as monitor:
        ask(monitor)
        wait_until(lambda: monitor.total("ragmonitor_events_total", event="telemetry_failed"), 20, "the message")
        with serving(OtlpGrpc(port=port)) as receiver:
            wait_until(lambda: any(one.name == "case" for one in received(receiver, "traces")), 30, "the spans")
            wait_until(lambda: monitor.total("ragmonitor_events_total", event="telemetry_back"), 20, "the good news")
        assert monitor.total("ragmonitor_telemetry_items_total", outcome="dropped") == 0


@pytest.mark.anyio
@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_spans_that_a_receiver_rejects_are_not_taken_for_sent(protocol: Literal["grpc", "http"]) -> None:
    """The SDK's exporter takes them for sent: the request was a success."""
    ended: list[ReadableSpan] = []
    with RecordingTracer(ended.append, Resource.get_empty(), rate=1.0, clock=SystemClock(), rng=Random(1)).whole("x"):
        pass
    source = OtlpHttp(port=0) if protocol == "http" else OtlpGrpc(port=0)
    with serving(source, ScriptedIntake(Accepted(1, "not this one"))) as receiver:
        sender = OtlpSender(Target(f"http://{receiver.address}", protocol, {}, 2.0, gzip=True), "traces")
        with pytest.raises(MonitorError, match="1 of the batch rejected: not this one"):
            await sender.send(ended)
        await sender.send(ended)  # and the next is taken
        sender.close()


@pytest.mark.anyio
@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_s13_nothing_is_sent_where_the_name_leads_to_a_metadata_address(
    protocol: Literal["grpc", "http"], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[ReadableSpan] = []
    with RecordingTracer(ended.append, Resource.get_empty(), rate=1.0, clock=SystemClock(), rng=Random(1)).whole("x"):
        pass
    intake = ScriptedIntake()
    with serving(OtlpHttp(port=0) if protocol == "http" else OtlpGrpc(port=0), intake) as receiver:
        port = receiver.address.rpartition(":")[2]
        sender = OtlpSender(Target(f"http://localhost:{port}", protocol, {}, 2.0, gzip=True), "traces")
        with leading_to(monkeypatch, "127.0.0.1"), monkeypatch.context() as patched:
            patched.setattr(client, "is_metadata_address", lambda address: address == "127.0.0.1")
            with pytest.raises(Overloaded):
                await sender.send(ended)
        assert intake.calls == 0
        await sender.send(ended)  # where it leads to this machine again it is sent
        assert intake.calls == 1
        sender.close()


@pytest.mark.anyio
async def test_s13_grpc_connects_to_the_addresses_that_were_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not resolve the name itself: gRPC's own resolver knows no such name."""
    ended: list[ReadableSpan] = []
    with RecordingTracer(ended.append, Resource.get_empty(), rate=1.0, clock=SystemClock(), rng=Random(1)).whole("x"):
        pass
    intake = ScriptedIntake()
    with serving(OtlpGrpc(port=0), intake) as receiver, leading_to(monkeypatch, "127.0.0.1"):
        port = receiver.address.rpartition(":")[2]
        sender = OtlpSender(Target(f"http://collector.example:{port}", "grpc", {}, 10.0, gzip=True), "traces")
        for calls in (1, 2):
            await sender.send(ended)
            assert intake.calls == calls
        sender.close()


def test_without_an_endpoint_the_sdk_is_not_even_imported(tmp_path: Path) -> None:
    code = (
        "import sys, anyio\n"
        "from monitor import app, config\n"
        "stop = anyio.Event()\n"
        "async def main():\n"
        "    parsed = config.parse({'sources': [], 'sinks': [], 'alerts': [], 'evaluators': [],"
        " 'storage': {'path': sys.argv[1]}})\n"
        "    stop.set()\n"
        "    await app.run(parsed, stop)\n"
        "anyio.run(main)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=False, capture_output=True, text=True, timeout=300
    )
    assert found.stdout.strip() == "[]", found.stderr
