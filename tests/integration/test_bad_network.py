"""A network that resets, cuts and slows connections between the SDK and the receivers costs no span and no socket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from monitor.sources.otlp_grpc import OtlpGrpc
from monitor.sources.otlp_http import OtlpHttp
from tests.support.network import Proxy, Trouble
from tests.support.otlp import serving
from tests.support.tools import wait_until

SPANS = 600
TROUBLES: dict[str, Callable[[int], Trouble | None]] = {
    "every second connection is reset in the body": lambda n: Trouble(after=1500) if n % 2 == 0 else None,
    "every second connection is cut in the body": lambda n: Trouble(after=1500, reset=False) if n % 2 == 0 else None,
    "every second connection is reset at once": lambda n: Trouble(after=0) if n % 2 == 0 else None,
    "all are slow": lambda _: Trouble(rate=100_000),
}


def exporter(transport: str, address: str) -> SpanExporter:
    if transport == "http":
        return HttpSpanExporter(endpoint=f"http://{address}/v1/traces", timeout=60)
    return GrpcSpanExporter(endpoint=f"http://{address}", insecure=True, timeout=60)


def sockets() -> int:
    """Count the sockets that this process has open."""
    found = 0
    for one in Path("/proc/self/fd").iterdir():
        try:
            found += str(one.readlink()).startswith("socket:")
        except OSError:
            continue  # closed meanwhile
    return found


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_f16_a_bad_network_costs_no_span_and_leaves_no_socket(transport: str, trouble: str) -> None:
    made: Any = OtlpHttp(port=0) if transport == "http" else OtlpGrpc(port=0)
    with serving(made) as receiver:
        before = sockets()
        with Proxy(int(receiver.address.rpartition(":")[2]), TROUBLES[trouble]) as proxy:
            provider = TracerProvider()
            provider.add_span_processor(BatchSpanProcessor(exporter(transport, proxy.address)))
            for number in range(SPANS):
                with provider.get_tracer("test").start_as_current_span(f"span {number}"):
                    pass
            provider.force_flush(120_000)
            provider.shutdown()
            assert proxy.connections > 0
            assert proxy.ended_early > 0 or trouble == "all are slow"
        wait_until(lambda: sockets() <= before + 5, 20, "the sockets to be closed")
    assert {span.name for span in receiver.intake.spans} == {f"span {number}" for number in range(SPANS)}
