"""OTLP over gRPC, over real sockets. The numbers are those of the conformance statements for OTLP receivers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Traces
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse as Response
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from monitor.errors import ConfigError, InvalidData, Overloaded
from monitor.sources.otlp_grpc import OtlpGrpc
from monitor.stages import Accepted
from monitor.transport.otlp import wire
from tests.support.otlp import ScriptedIntake, Serving, log_request, serving, span_request
from tests.support.runtime import total
from tests.support.tools import PATIENCE, wait_until

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
Code = grpc.StatusCode


@pytest.fixture
def intake() -> ScriptedIntake:
    return ScriptedIntake()


@pytest.fixture
def receiver(intake: ScriptedIntake) -> Iterator[Serving]:
    with serving(OtlpGrpc(port=0), intake) as found:
        yield found


def export(at: Serving, request: Any = None, **call: Any) -> Any:
    with grpc.insecure_channel(at.address, [("grpc.max_send_message_length", -1)]) as channel:
        return TraceServiceStub(channel).Export(request or span_request(2), timeout=60, **call)


def refused(at: Serving, request: Any = None, **call: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        export(at, request, **call)
    return caught.value


def raw(at: Serving, message: bytes, path: str = EXPORT, **call: Any) -> bytes:
    with grpc.insecure_channel(at.address, [("grpc.max_send_message_length", -1)]) as channel:
        answer: bytes = channel.unary_unary(path)(message, timeout=60, **call)
        return answer


def retry_delays(error: grpc.RpcError) -> list[float]:
    """The delay as the specification has it, and as the Python exporter reads it."""
    trailers = dict(error.trailing_metadata() or ())
    found = []
    for detail in status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b"")).details:
        info = error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            found.append(info.retry_delay.ToMilliseconds() / 1000)
    if "google.rpc.retryinfo-bin" in trailers:
        info = error_details_pb2.RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"])
        found.append(info.retry_delay.ToMilliseconds() / 1000)
    return found


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_1_3_4_export_is_answered_with_a_response_without_partial_success(
    receiver: Serving, intake: ScriptedIntake, compression: grpc.Compression
) -> None:
    answer = export(receiver, compression=compression)
    assert isinstance(answer, Response)
    assert not answer.HasField("partial_success")
    (batch,) = intake.batches
    assert (batch.source, batch.signal) == ("otlp_grpc", "traces")
    assert wire.join(batch.groups) == span_request(2).SerializeToString()


def test_17_logs_are_taken(receiver: Serving, intake: ScriptedIntake) -> None:
    with grpc.insecure_channel(receiver.address) as channel:
        assert not LogsServiceStub(channel).Export(log_request(3), timeout=60).HasField("partial_success")
    assert (intake.batches[0].signal, len(intake.items)) == ("logs", 3)


def test_17_metrics_and_anything_else_are_unimplemented(receiver: Serving, intake: ScriptedIntake) -> None:
    with grpc.insecure_channel(receiver.address) as channel, pytest.raises(grpc.RpcError) as caught:
        MetricsServiceStub(channel).Export(ExportMetricsServiceRequest(), timeout=60)
    assert caught.value.code() is Code.UNIMPLEMENTED
    assert intake.calls == 0
    assert total(receiver.runtime.metrics, "ragmonitor_receiver_requests_total", code="UNIMPLEMENTED") == 1


def test_5_empty_requests_and_envelopes_are_a_success(receiver: Serving) -> None:
    empty = Traces()
    empty.resource_spans.add().scope_spans.add()
    empty.resource_spans.add()
    for request in (Traces(), empty):
        assert not raw(receiver, request.SerializeToString())


@pytest.mark.parametrize("accepted", [Accepted(1, "a span id of 3 bytes"), Accepted(0, "a warning")])
def test_6_7_partial_success_says_how_many_and_why(accepted: Accepted) -> None:
    with serving(OtlpGrpc(port=0), ScriptedIntake(accepted)) as receiver:
        partial = export(receiver).partial_success
    assert (partial.rejected_spans, partial.error_message) == (accepted.rejected, accepted.message)


def test_8_undecodable_bytes_are_an_invalid_argument(receiver: Serving) -> None:
    for message in (b"\xff\xff", b"\x0a\x7f"):
        with pytest.raises(grpc.RpcError) as caught:
            raw(receiver, message)
        assert caught.value.code() is Code.INVALID_ARGUMENT
        assert not retry_delays(caught.value)


COMPRESSIONS = [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_message_is_taken_in_each_compression_of_grpc(
    receiver: Serving, intake: ScriptedIntake, compression: grpc.Compression
) -> None:
    request = span_request(20, name="n" * 200)
    export(receiver, request, compression=compression)
    (batch,) = intake.batches
    assert wire.join(batch.groups) == request.SerializeToString()
    received = total(receiver.runtime.metrics, "ragmonitor_receiver_bytes_total")
    if compression is grpc.Compression.NoCompression:
        assert received == request.ByteSize()
    else:
        assert received < request.ByteSize() / 2


@pytest.mark.parametrize("beginning", [b"\x1f\x8b\x08\x00", b"\x78\x9c", b"\x78\xda\x00"])
def test_a_message_that_cannot_be_inflated_is_an_invalid_argument(receiver: Serving, beginning: bytes) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        raw(receiver, beginning + b"no stream")
    assert caught.value.code() is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_9_10_a_message_over_the_limit_is_exhausted_without_retry(compression: grpc.Compression) -> None:
    with serving(OtlpGrpc(port=0, max_body_bytes="100kB", max_spans=50)) as receiver:
        assert export(receiver, span_request(1, name="x" * 90_000), compression=compression) is not None
        for request in (span_request(1, name="x" * 110_000), span_request(51)):
            error = refused(receiver, request, compression=compression)
            assert error.code() is Code.RESOURCE_EXHAUSTED
            assert not retry_delays(error)


def test_while_there_is_no_room_a_call_is_refused_and_the_intake_is_not_asked() -> None:
    with serving(OtlpGrpc(port=0)) as receiver:
        receiver.runtime.health.refusing = lambda: "memory: 9 of 10 bytes are in use"
        error = refused(receiver)
        assert (error.code(), error.details()) == (Code.UNAVAILABLE, "memory: 9 of 10 bytes are in use")
        assert retry_delays(error)[0] == retry_delays(error)[1]
        assert receiver.intake.calls == 0


def test_11_12_overload_is_unavailable_with_a_delay_in_both_forms() -> None:
    with serving(OtlpGrpc(port=0), ScriptedIntake(always=Overloaded("the spool is full"))) as receiver:
        errors = [refused(receiver) for _ in range(10)]
    for error in errors:
        assert (error.code(), error.details()) == (Code.UNAVAILABLE, "the spool is full")
        standard, python = retry_delays(error)
        assert standard == python
        assert 1 <= standard <= 2
    assert len({retry_delays(error)[0] for error in errors}) > 1


def test_13_a_fault_of_ours_is_unavailable_and_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    with serving(OtlpGrpc(port=0), ScriptedIntake(always=RuntimeError("a secret prompt"))) as receiver:
        error = refused(receiver)
    assert (error.code(), len(retry_delays(error))) == (Code.UNAVAILABLE, 2)
    assert "secret" not in error.details() + caplog.text
    assert total(receiver.runtime.metrics, "ragmonitor_events_total", event="receiver_failed") == 1


def test_24_what_nobody_can_read_is_an_invalid_argument() -> None:
    with serving(OtlpGrpc(port=0), ScriptedIntake(always=InvalidData("nothing of it"))) as receiver:
        error = refused(receiver)
    assert (error.code(), error.details()) == (Code.INVALID_ARGUMENT, "nothing of it")


def test_14_without_the_right_token_a_call_is_unauthenticated_and_nothing_is_stored(intake: ScriptedIntake) -> None:
    with serving(OtlpGrpc(port=0, auth={"token": "right"}), intake) as receiver:
        for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", "right"),)):
            error = refused(receiver, span_request(2000), metadata=metadata)
            assert error.code() is Code.UNAUTHENTICATED
            with pytest.raises(grpc.RpcError) as caught:
                raw(receiver, b"", "/opentelemetry.proto.collector.logs.v1.LogsService/Export", metadata=metadata)
            assert caught.value.code() is Code.UNAUTHENTICATED
        assert intake.calls == 0
        export(receiver, metadata=(("authorization", "Bearer right"),))
    assert len(intake.batches) == 1


def test_15_a_hundred_concurrent_calls_on_one_connection_are_served() -> None:
    together = asyncio.Barrier(100)

    async def meet(_batch: object) -> Accepted:
        await asyncio.wait_for(together.wait(), 20)  # passes only when all are in
        return Accepted()

    with (
        serving(OtlpGrpc(port=0), ScriptedIntake(always=meet)) as receiver,
        grpc.insecure_channel(receiver.address) as channel,
    ):
        stub = TraceServiceStub(channel)
        calls: list[Future[Any]] = [stub.Export.future(span_request(1), timeout=120) for _ in range(100)]
        assert all(isinstance(call.result(120), Response) for call in calls)


def test_15_the_number_of_streams_is_configurable() -> None:
    async def slowly(_batch: object) -> Accepted:
        await asyncio.sleep(0.2)
        return Accepted()

    intake = ScriptedIntake(always=slowly)
    with (
        serving(OtlpGrpc(port=0, max_concurrent_streams=1), intake) as receiver,
        grpc.insecure_channel(receiver.address) as channel,
    ):
        stub = TraceServiceStub(channel)
        begun = time.monotonic()
        calls = [stub.Export.future(span_request(1), timeout=120) for _ in range(4)]
        for call in calls:
            call.result(120)
        assert time.monotonic() - begun > 0.5  # one after the other, none refused


def test_16_messages_are_cut_to_a_kibibyte() -> None:
    script = ScriptedIntake(Accepted(1, "x" * 10**6), InvalidData("y" * 10**6))
    with serving(OtlpGrpc(port=0), script) as receiver:
        assert len(export(receiver).partial_success.error_message) <= 1024
        assert len(refused(receiver).details()) <= 1024


def test_36_unknown_protobuf_fields_are_ignored(receiver: Serving, intake: ScriptedIntake) -> None:
    odd = b"\xfa\x3e\x03odd\xf8\x3e\x07"
    assert raw(receiver, odd + span_request(2).SerializeToString() + odd) == b""
    assert len(intake.items) == 2


def test_41_a_repeated_request_is_a_success_and_handed_on_the_same(receiver: Serving, intake: ScriptedIntake) -> None:
    export(receiver)
    export(receiver)
    assert intake.batches[0] == intake.batches[1]


def test_42_ok_is_said_only_after_intake_has_made_the_data_safe() -> None:
    safe = threading.Event()

    async def slowly(_batch: object) -> Accepted:
        await asyncio.to_thread(safe.wait, 60)
        return Accepted()

    with (
        serving(OtlpGrpc(port=0), ScriptedIntake(slowly)) as receiver,
        grpc.insecure_channel(receiver.address) as channel,
    ):
        call = TraceServiceStub(channel).Export.future(span_request(1), timeout=60)
        with pytest.raises(grpc.FutureTimeoutError):
            call.result(0.3)
        safe.set()
        assert isinstance(call.result(60), Response)


def test_calls_beyond_the_limit_in_work_are_asked_to_come_again() -> None:
    release = threading.Event()

    async def slowly(_batch: object) -> Accepted:
        await asyncio.to_thread(release.wait, 60)
        return Accepted()

    with (
        serving(OtlpGrpc(port=0, max_concurrent_requests=1), ScriptedIntake(always=slowly)) as receiver,
        grpc.insecure_channel(receiver.address) as channel,
    ):
        call = TraceServiceStub(channel).Export.future(span_request(1), timeout=60)
        wait_until(lambda: receiver.intake.calls == 1)
        error = refused(receiver)
        assert (error.code(), len(retry_delays(error))) == (Code.UNAVAILABLE, 2)
        release.set()
        assert call.result(60) is not None


def test_a_port_in_use_and_a_foreign_address_are_configuration_errors(receiver: Serving) -> None:
    for source in (OtlpGrpc(port=receiver.port), OtlpGrpc(port=0, host="192.0.2.1", insecure=True)):
        with pytest.raises(ConfigError, match="cannot listen on"), serving(source):
            pass


def test_when_stopped_a_call_in_work_is_finished_and_one_too_slow_is_cut_retryably() -> None:
    for seconds, expected in ((0.3, {Code.OK}), (30.0, {Code.CANCELLED, Code.UNAVAILABLE})):

        async def slowly(_batch: object, seconds: float = seconds) -> Accepted:
            await asyncio.sleep(seconds)
            return Accepted()

        with serving(OtlpGrpc(port=0), ScriptedIntake(slowly)) as receiver:
            channel = grpc.insecure_channel(receiver.address)
            call = TraceServiceStub(channel).Export.future(span_request(1), timeout=60)
            wait_until(lambda at=receiver: at.intake.calls)
            begun = time.monotonic()
        assert time.monotonic() - begun < 4 * PATIENCE  # less than the slow one takes
        assert call.code() in expected
        channel.close()


@pytest.mark.parametrize("said", [b"", b"PRI * HTTP/2.0\r\n"])
def test_30_a_connection_that_never_speaks_is_cut(said: bytes) -> None:
    with (
        serving(OtlpGrpc(port=0, handshake_timeout=0.3)) as receiver,
        socket.create_connection(("127.0.0.1", receiver.port), timeout=60) as sock,
    ):
        sock.sendall(said)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(1000):
                pass


def test_all_codes_are_counted_from_zero(receiver: Serving) -> None:
    metrics = receiver.runtime.metrics
    export(receiver)
    for code, count in {"OK": 1, "UNAVAILABLE": 0}.items():
        assert total(metrics, "ragmonitor_receiver_requests_total", source="otlp_grpc", code=code) == count
    assert total(metrics, "ragmonitor_receiver_bytes_total") == len(span_request(2).SerializeToString())
