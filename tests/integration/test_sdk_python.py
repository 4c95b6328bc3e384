"""The OpenTelemetry SDK for Python as a client of both receivers: its exporters decide what a refusal means."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from monitor.errors import Overloaded
from monitor.sources.otlp_grpc import OtlpGrpc
from monitor.sources.otlp_http import OtlpHttp
from monitor.stages import Accepted
from monitor.transport.otlp import wire
from tests.support.otlp import ScriptedIntake, serving

TRANSPORTS = pytest.mark.parametrize("transport", ["http", "grpc"])
COMPRESSIONS = pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])


def source(transport: str, **options: Any) -> Any:
    return OtlpHttp(port=0, **options) if transport == "http" else OtlpGrpc(port=0, **options)


def span_exporter(transport: str, address: str, *, zipped: bool, **options: Any) -> SpanExporter:
    options.setdefault("timeout", 60)
    if transport == "http":
        kind = Compression.Gzip if zipped else Compression.NoCompression
        return HttpSpanExporter(endpoint=f"http://{address}/v1/traces", compression=kind, **options)
    return GrpcSpanExporter(
        endpoint=f"http://{address}",
        insecure=True,
        compression=grpc.Compression.Gzip if zipped else grpc.Compression.NoCompression,
        **options,
    )


class Observed(SpanExporter):
    """An exporter that remembers what came of each batch."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self.results: list[SpanExportResult] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.results.append(self._inner.export(spans))
        return self.results[-1]

    def shutdown(self) -> None:
        self._inner.shutdown()


def send(exporter: SpanExporter, count: int) -> list[SpanExportResult]:
    observed = Observed(exporter)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(observed))
    tracer = provider.get_tracer("test")
    for index in range(count):
        with tracer.start_as_current_span(f"span {index}", attributes={"input.value": "wörter", "n": [1, 2]}):
            pass
    provider.force_flush(120_000)
    provider.shutdown()
    return observed.results


@COMPRESSIONS
@TRANSPORTS
def test_everything_that_the_sdk_sends_is_taken(transport: str, *, zipped: bool) -> None:
    with serving(source(transport)) as receiver:
        results = send(span_exporter(transport, receiver.address, zipped=zipped), 600)
    assert set(results) == {SpanExportResult.SUCCESS}
    assert {span.name for span in receiver.intake.spans} == {f"span {index}" for index in range(600)}
    assert all(wire.trace_id_of(item) and wire.span_part(item, b"", b"") for item in receiver.intake.items)


@COMPRESSIONS
@TRANSPORTS
def test_log_records_of_the_sdk_are_taken(transport: str, *, zipped: bool) -> None:
    with serving(source(transport)) as receiver:
        exporter: Any
        if transport == "http":
            kind = Compression.Gzip if zipped else Compression.NoCompression
            exporter = HttpLogExporter(endpoint=receiver.url("/v1/logs"), compression=kind)
        else:
            mode = grpc.Compression.Gzip if zipped else grpc.Compression.NoCompression
            exporter = GrpcLogExporter(endpoint=receiver.url(""), insecure=True, compression=mode)
        provider = LoggerProvider()
        provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
        for index in range(3):
            provider.get_logger("test").emit(LogRecord(body={"n": index}, severity_number=SeverityNumber.INFO))
        provider.shutdown()
    assert [batch.signal for batch in receiver.intake.batches] == ["logs"] * 3


@TRANSPORTS
def test_11_26_an_overload_of_some_seconds_loses_nothing(transport: str) -> None:
    begun: list[float] = []

    def overloaded(_batch: object) -> Any:
        begun.append(time.monotonic())
        return Overloaded("the spool is full") if time.monotonic() - begun[0] < 3 else Accepted()

    with serving(source(transport), ScriptedIntake(always=overloaded)) as receiver:
        results = send(span_exporter(transport, receiver.address, zipped=True), 100)
    assert set(results) == {SpanExportResult.SUCCESS}
    assert len({span.name for span in receiver.intake.spans}) == 100
    assert receiver.intake.calls > len(receiver.intake.batches)


@TRANSPORTS
def test_27_a_fault_of_ours_is_retried_by_the_sdk(transport: str) -> None:
    intake = ScriptedIntake(RuntimeError("a fault"))
    with serving(source(transport), intake) as receiver:
        results = send(span_exporter(transport, receiver.address, zipped=False), 1)
    assert (results, len(intake.spans)) == ([SpanExportResult.SUCCESS], 1)


@TRANSPORTS
@pytest.mark.parametrize(("token", "expected"), [("right", SpanExportResult.SUCCESS), ("no", SpanExportResult.FAILURE)])
def test_14_31_the_sdk_shows_its_token(transport: str, token: str, expected: SpanExportResult) -> None:
    headers = {"authorization": f"Bearer {token}"}
    with serving(source(transport, auth={"token": "right"})) as receiver:
        results = send(span_exporter(transport, receiver.address, zipped=False, headers=headers), 1)
    assert results == [expected]


@TRANSPORTS
def test_f1_a_receiver_that_comes_back_within_three_seconds_loses_nothing(transport: str) -> None:
    make: Callable[[int], Any] = lambda port: (OtlpHttp if transport == "http" else OtlpGrpc)(port=port)  # noqa: E731
    with serving(make(0)) as first:
        exporter = Observed(span_exporter(transport, first.address, zipped=False))
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=10))
    provider.get_tracer("test").start_span("while down").end()
    time.sleep(1.5)
    with serving(make(first.port)) as second:
        provider.shutdown()
    assert [span.name for span in second.intake.spans] == ["while down"]
