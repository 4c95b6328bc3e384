"""Events on their way to receivers of OTLP: our own, and a real OpenTelemetry Collector."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import (
    LogsServiceServicer,
    add_LogsServiceServicer_to_server,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from monitor.clock import SystemClock
from monitor.errors import ConfigError, MonitorError, Overloaded
from monitor.model.outcome import EvaluationResult, Score
from monitor.pipeline.ingest.head import HeadSampling
from monitor.sinks.otel_events import OtelEvents, attributes
from monitor.sources.otlp_grpc import OtlpGrpc
from monitor.sources.otlp_http import OtlpHttp
from monitor.stages import Accepted
from monitor.transport.http.auth import Auth
from tests.support.certificates import Authority
from tests.support.collector import Collector
from tests.support.following import followed
from tests.support.http_api import HttpApi, Says
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.otlp import ScriptedIntake, Serving, serving
from tests.support.results import judged
from tests.support.runtime import runtime
from tests.support.service import BAD, RagService
from tests.support.tools import PATIENCE, until, wait_until

pytestmark = pytest.mark.anyio
KINDS = pytest.mark.parametrize("kind", ["grpc", "http"])


def source(kind: str, **options: Any) -> Any:
    return (OtlpHttp if kind == "http" else OtlpGrpc)(port=0, **options)


def sink(kind: str, at: Serving | str, **options: Any) -> OtelEvents:
    endpoint = at if isinstance(at, str) else f"http://{at.address}"
    return OtelEvents.model_validate({"endpoint": endpoint, "protocol": kind, **options})


async def deliver(to: OtelEvents, *results: EvaluationResult) -> None:
    async with to.open(runtime(SystemClock())) as deliver_one:
        for one in results or (judged(1),):
            await deliver_one([one])


def plain(value: AnyValue) -> Any:
    return getattr(value, value.WhichOneof("value"))


@KINDS
@pytest.mark.parametrize("compression", ["none", "gzip"])
async def test_an_event_arrives_on_its_span_at_the_time_of_the_answer(kind: str, compression: str) -> None:
    result = judged(1)
    with serving(source(kind)) as receiver:
        await deliver(sink(kind, receiver, compression=compression), result)
        (batch,) = receiver.intake.batches
    assert batch.signal == "logs"
    (group,) = batch.groups
    resource = {one.key: plain(one.value) for one in Resource.FromString(group.resource).attributes}
    assert resource["service.name"] == "rag-monitor"
    record = LogRecord.FromString(group.items[0])
    assert record.event_name == "gen_ai.evaluation.result"
    assert (record.trace_id.hex(), record.span_id.hex()) == (result.case.request_id, result.case.span_id)
    assert record.observed_time_unix_nano == 1_700_000_001 * 10**9
    assert {one.key: plain(one.value) for one in record.attributes} == attributes(result, explanations=True)


async def test_the_time_is_that_of_the_answer_where_it_is_known() -> None:
    result = replace(judged(1), case=replace(judged(1).case, answered_at=1_600_000_000.25))
    with serving(source("grpc")) as receiver:
        await deliver(sink("grpc", receiver), result, judged(2))
        found = [LogRecord.FromString(item).time_unix_nano for item in receiver.intake.items]
    assert found == [1_600_000_000_250_000_000, 1_700_000_002 * 10**9]


@KINDS
@pytest.mark.parametrize("at", [253_402_300_799.0, (2**64 - 1) / 1e9])
async def test_a_time_beyond_that_of_otlp_holds_up_no_other_event(kind: str, at: float) -> None:
    far = judged(1)
    far = replace(far, case=replace(far.case, answered_at=at))
    with serving(source(kind), ScriptedIntake()) as receiver:
        await deliver(sink(kind, receiver), far, judged(2))
        times = [LogRecord.FromString(one).time_unix_nano for one in receiver.intake.items]
    assert times == [2**64 - 1, 1_700_000_002 * 10**9]


async def test_the_door_of_a_monitor_counts_events_as_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says: another name would make a monitor judge itself, or nothing be sent at all."""
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=shop")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with serving(source("grpc")) as receiver:
        await deliver(sink("grpc", receiver), judged(1), judged(2))
        door = HeadSampling(lambda _: True, lambda encoded: encoded, [b"gen_ai."])
        counts = [door.sort(batch, 1.0).counts for batch in receiver.intake.batches]
    assert counts == [{"own_telemetry": 1}, {"own_telemetry": 1}]


def test_a_monitor_that_sends_its_events_to_itself_judges_none_of_them(tmp_path: Path) -> None:
    monitor = MonitorProcess(tmp_path, {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []})
    monitor.config["sinks"].append({"type": "otel_events", "endpoint": f"http://127.0.0.1:{monitor.grpc}"})
    with monitor:
        service = RagService.over_http(monitor.http)
        for number in range(10):
            service.ask(f"Can I get my money back after {number} days?", BAD)
        service.close()
        wait_until(
            lambda: monitor.total("ragmonitor_log_records_total", outcome="own_telemetry") == 10, 20, "the events"
        )
        assert monitor.total("ragmonitor_evaluations_total") == 10
        assert monitor.total("ragmonitor_sink_failures_total") == 0
        assert_balanced(monitor.samples())


@KINDS
async def test_a_receiver_that_is_full_for_a_moment_gets_it_again(kind: str) -> None:
    with serving(source(kind), ScriptedIntake(Overloaded("full"))) as receiver:
        await deliver(sink(kind, receiver))
        assert receiver.intake.calls == 2
        assert len(receiver.intake.items) == 1


@KINDS
async def test_a_receiver_that_stays_full_is_a_failure_within_the_timeout(kind: str) -> None:
    with serving(source(kind), ScriptedIntake(always=Overloaded("the spool is full"))) as receiver:
        began = time.monotonic()
        with pytest.raises(Overloaded, match=r"UNAVAILABLE|answered 503"):
            await deliver(sink(kind, receiver, timeout=0.5))
        assert time.monotonic() - began < 9  # ten seconds, where nothing is configured


@KINDS
async def test_what_a_receiver_rejects_of_a_batch_is_a_failure(kind: str) -> None:
    """The exporters of the SDK take it for a success."""
    with serving(source(kind), ScriptedIntake(always=Accepted(1, "no such tenant"))) as receiver:
        with pytest.raises(MonitorError, match="1 of the batch rejected: no such tenant"):
            await deliver(sink(kind, receiver))
        assert receiver.intake.calls == 1


async def test_what_is_rejected_in_json_is_a_failure_too() -> None:
    said = Says(data={"partialSuccess": {"rejectedLogRecords": "1", "errorMessage": "no"}})
    with HttpApi(said) as api, pytest.raises(MonitorError, match="1 of the batch rejected: no"):
        await deliver(sink("http", api.url))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Says(302, headers={"location": "/login"}), "answered 302"),
        (Says(200, content=b"<html>log in", headers={"content-type": "text/html"}), "answered with a web page"),
        (Says(404), "answered 404"),
    ],
)
async def test_what_is_no_receiver_is_a_failure(said: Says, why: str) -> None:
    """The exporter of the SDK takes the first two for a success."""
    with HttpApi(said) as api:
        with pytest.raises(MonitorError, match=why):
            await deliver(sink("http", api.url))
        assert [asked.path for asked in api.asked] == ["/v1/logs"]


@KINDS
async def test_headers_go_along_and_a_wrong_one_is_a_failure_at_once(kind: str) -> None:
    with serving(source(kind, auth=Auth.model_validate({"token": "right"}))) as receiver:
        await deliver(sink(kind, receiver, headers={"Authorization": "Bearer right"}))
        began = time.monotonic()
        with pytest.raises(MonitorError, match=r"UNAUTHENTICATED|answered 401") as caught:
            await deliver(sink(kind, receiver, headers={"authorization": "Bearer wrong"}))
        assert not isinstance(caught.value, Overloaded)
        assert time.monotonic() - began < 9  # ten seconds, where nothing is configured
        assert len(receiver.intake.items) == 1


@KINDS
async def test_encryption_with_an_authority_of_ones_own_and_a_client_certificate(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = Authority(tmp_path), Authority(tmp_path, "other")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other.ca))
    cert, key = ours.issue("server")
    mine, my_key = ours.issue("client")
    tls = {"cert_file": cert, "key_file": key, "client_ca_file": ours.ca}
    with serving(source(kind, tls=tls)) as receiver:
        at = f"https://{receiver.address}"
        await deliver(sink(kind, at, tls={"ca_file": ours.ca, "cert_file": mine, "key_file": my_key}))
        assert len(receiver.intake.items) == 1
        by_name = f"https://localhost:{receiver.address.rpartition(':')[2]}"
        await deliver(sink(kind, by_name, tls={"ca_file": ours.ca, "cert_file": mine, "key_file": my_key}))
        assert len(receiver.intake.items) == 2
        for refused in ({"ca_file": ours.ca}, {"ca_file": other.ca, "cert_file": mine, "key_file": my_key}):
            with pytest.raises(Overloaded):
                await deliver(sink(kind, at, tls=refused, timeout=1.5))
        assert len(receiver.intake.items) == 2
    with pytest.raises(ConfigError, match=r"^tls: .*none\.pem"):
        await deliver(sink(kind, at, tls={"ca_file": tmp_path / "none.pem"}))


@KINDS
async def test_many_at_a_time_leave_in_few_requests_several_of_them_under_way(kind: str, tmp_path: Path) -> None:
    under_way = most = 0
    several = asyncio.Event()  # of the receiver's loop

    async def slowly(_: object) -> Accepted:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way > 1:
            several.set()
        with anyio.move_on_after(30):  # the first is answered when a second one is under way
            await several.wait()
        under_way -= 1
        return Accepted()

    with serving(source(kind), ScriptedIntake(always=slowly)) as receiver:
        async with followed(tmp_path, sink(kind, receiver)) as at:
            await at.write(*(judged(number) for number in range(1, 501)))
            await at.done(500)
        ids = [LogRecord.FromString(item).trace_id for item in receiver.intake.items]
        assert sorted(ids) == [number.to_bytes(16, "big") for number in range(1, 501)]
        assert receiver.intake.calls <= 8
        assert 2 <= most <= 4


@KINDS
async def test_what_is_too_large_together_is_sent_in_parts(kind: str, tmp_path: Path) -> None:
    results = [judged(number, outcome=Score(4.0, f"{number}" * 2000)) for number in range(1, 31)]
    with serving(source(kind, max_body_bytes="30kB")) as receiver:
        async with followed(tmp_path, sink(kind, receiver)) as at:
            await at.write(*results)
            await at.done(30)
            assert at.count("sent") == 30
        assert len(receiver.intake.items) == 30


async def test_a_quota_that_is_spent_is_not_asked_again_for_every_part(tmp_path: Path) -> None:
    calls: list[int] = []

    class Spent(LogsServiceServicer):
        def Export(self, request: Any, context: grpc.ServicerContext) -> None:  # noqa: N802 - the name of the call
            calls.append(sum(len(group.scope_logs[0].log_records) for group in request.resource_logs))
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the quota of the tenant is spent")

    server = grpc.server(ThreadPoolExecutor(4))
    add_LogsServiceServicer_to_server(Spent(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        async with followed(tmp_path, sink("grpc", f"http://127.0.0.1:{port}")) as at:
            await at.write(*(judged(number) for number in range(100)))
            await until(lambda: len(calls) >= 2, "two attempts")
            assert set(calls) == {100}
            assert at.count("sent") == 0
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("form", ["google.rpc.retryinfo-bin", "grpc-status-details-bin"])
async def test_the_pause_that_a_receiver_over_grpc_asks_for_is_passed_on(form: str) -> None:
    class Throttled(LogsServiceServicer):
        def Export(self, request: Any, context: grpc.ServicerContext) -> None:  # noqa: N802 - the name of the call
            info = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=40, nanos=500_000_000))
            details = status_pb2.Status(code=code_pb2.UNAVAILABLE)
            details.details.add().Pack(info)
            given = info if "retryinfo" in form else details
            context.set_trailing_metadata(((form, given.SerializeToString()),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "later")

    server = grpc.server(ThreadPoolExecutor(4))
    add_LogsServiceServicer_to_server(Throttled(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(Overloaded, match="UNAVAILABLE: later") as caught:
            await deliver(sink("grpc", f"http://127.0.0.1:{port}", timeout=0.5))
        assert caught.value.retry_after == 40.5
    finally:
        server.stop(None).wait()


async def test_the_pause_that_a_receiver_over_http_asks_for_is_passed_on() -> None:
    with HttpApi(Says(429, headers={"retry-after": "40"})) as api:
        with pytest.raises(Overloaded, match="answered 429") as caught:
            await deliver(sink("http", api.url, timeout=0.5))
        assert caught.value.retry_after == 40.0


@contextmanager
def dripping() -> Iterator[int]:
    """Takes connections, and sends one byte of an answer every now and then, for ever."""
    over = threading.Event()
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def serve() -> None:
            rest = iter(b"HTTP/1.1 200 OK\r\nx-a: " + b"a" * 100_000)
            while not over.wait(0.02):
                with suppress(TimeoutError):
                    taken.append(server.accept()[0])
                byte = bytes([next(rest)])
                for one in taken:
                    with suppress(OSError):
                        one.send(byte)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            thread.join()
            for one in taken:
                one.close()


@KINDS
async def test_a_receiver_that_never_finishes_its_answer_costs_no_more_than_the_timeout(kind: str) -> None:
    """A limit for each read, which is all that the exporter over HTTP has, is none for the whole."""
    with dripping() as port:
        began = time.monotonic()
        with pytest.raises(Overloaded):
            await deliver(sink(kind, f"http://127.0.0.1:{port}", timeout=0.3))
        assert time.monotonic() - began < 4 * PATIENCE  # the whole answer would take half an hour


async def test_a_real_collector_takes_events_and_hands_them_on_unchanged(tmp_path: Path) -> None:
    results = [judged(number) for number in range(1, 41)]
    with serving(source("grpc")) as receiver:
        collector = Collector(tmp_path, "nobody:9092")
        collector.config["exporters"] = {"otlp": {"endpoint": receiver.address, "tls": {"insecure": True}}}
        for pipeline in collector.config["service"]["pipelines"].values():
            pipeline["exporters"] = ["otlp"]
        with collector:
            await deliver(sink("grpc", f"http://127.0.0.1:{collector.grpc}"), *results[:20])
            await deliver(sink("http", f"http://127.0.0.1:{collector.http}"), *results[20:])
            wait_until(lambda: len(receiver.intake.items) >= 40, 20, "what the Collector hands on")
        records = [LogRecord.FromString(item) for item in receiver.intake.items]
    assert {one.event_name for one in records} == {"gen_ai.evaluation.result"}
    found = {one.trace_id.hex(): {each.key: plain(each.value) for each in one.attributes} for one in records}
    assert found == {one.case.request_id: attributes(one, explanations=True) for one in results}
