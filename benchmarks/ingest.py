"""What receiving costs: CPU microseconds a span, and memory, of the running monitor under load from another process.

    python -m benchmarks.ingest [--quick] [--spans 20000] [--processes 0,1,2]

Each row starts `rag-monitor run` afresh as a process of its own, sends RAG traces of six spans (about 2.3 kB a span,
0.35 kB gzipped) over loopback on 16 connections, and reads the processor time of that process and its workers from the
operating system. "to the ack" is the CPU until the last request was answered; with everything kept that includes the
durable write. "all done" adds assembling, reading and judging every kept trace with the default local evaluator. Only
Linux (it reads /proc).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rich.console import Console
from rich.table import Table

_EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_SPANS_IN_TRACE = 6
_CONNECTIONS = 16


@dataclass(frozen=True)
class Row:
    """One measurement's circumstances."""

    transport: str
    compressed: bool
    batch: int
    rate: str
    processes: int


@dataclass(frozen=True)
class Figures:
    """What was measured: CPU microseconds a span and resident megabytes, of the monitor and its workers together."""

    to_the_ack: float
    all_done: float
    idle_mb: float
    peak_mb: float
    spans_per_second: float
    done_per_second: float


def _words(rng: random.Random, size: int, vocabulary: list[str]) -> str:
    return " ".join(rng.choice(vocabulary) for _ in range(size // 7))[:size]


def _bodies(batch: int, spans: int, *, compressed: bool, seed: int = 7) -> list[bytes]:
    """Export requests of `batch` spans each, all with trace ids of their own."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choice("etaoinshrdlu") for _ in range(rng.randint(3, 9))) for _ in range(900)]
    shapes = [_words(rng, 600, vocabulary) for _ in range(40)]
    bodies = []
    trace_id, place = b"", _SPANS_IN_TRACE
    span_ids: list[bytes] = []
    texts: list[str] = []
    for _ in range(max(1, spans // batch)):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = "bench"
        scoped = resource.scope_spans.add()
        scoped.scope.name = "openinference.instrumentation.langchain"
        for _ in range(batch):
            if place == _SPANS_IN_TRACE:
                trace_id, place = rng.randbytes(16), 0
                span_ids = [rng.randbytes(8) for _ in range(_SPANS_IN_TRACE)]
                texts = [rng.choice(shapes) for _ in range(3)]  # its spans repeat the same documents, as real ones do
            _add_span(scoped.spans, trace_id, span_ids, place, [*texts[:2], rng.choice(shapes)])
            place += 1
        encoded = request.SerializeToString()
        bodies.append(gzip.compress(encoded, 1) if compressed else encoded)
    return bodies


def _add_span(spans: object, trace_id: bytes, span_ids: list[bytes], place: int, texts: list[str]) -> None:
    kinds = ("CHAIN", "RETRIEVER", "EMBEDDING", "LLM", "CHAIN", "CHAIN")
    now = time.time_ns()
    span = spans.add(  # type: ignore[attr-defined]
        trace_id=trace_id,
        span_id=span_ids[place],
        parent_span_id=b"" if place == 0 else span_ids[0],
        name=f"step {place}",
        kind=1,
        start_time_unix_nano=now + place,
        end_time_unix_nano=now + 1000 + place,
    )

    def put(key: str, value: str) -> None:
        span.attributes.add(key=key).value.string_value = value

    put("openinference.span.kind", kinds[place])
    put("input.value", f"what about {texts[0][:100]}?")
    put("output.value", texts[0])
    if kinds[place] == "RETRIEVER":
        for index, text in enumerate(texts):
            put(f"retrieval.documents.{index}.document.content", text)
    elif kinds[place] == "LLM":
        put("llm.model_name", "bench-model")
        put("llm.input_messages.0.message.role", "user")
        put("llm.input_messages.0.message.content", texts[1] + texts[2])
        put("llm.output_messages.0.message.role", "assistant")
        put("llm.output_messages.0.message.content", texts[0])
    else:
        put("metadata", texts[1] + texts[2])


async def _post_all(port: int, bodies: list[bytes], *, compressed: bool) -> None:
    queue = list(reversed(bodies))
    encoding = "Content-Encoding: gzip\r\n" if compressed else ""

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while queue:
            body = queue.pop()
            head = (
                f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
                f"{encoding}Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            if b" 503 " in answer[:20]:
                queue.append(body)
                await asyncio.sleep(0.2)
            elif b" 200 " not in answer[:20]:
                raise RuntimeError(answer.decode())
            length = re.search(rb"(?i)content-length: (\d+)", answer)
            if length and int(length[1]):
                await reader.readexactly(int(length[1]))
        writer.close()

    await asyncio.gather(*(connection() for _ in range(_CONNECTIONS)))


async def _call_all(port: int, bodies: list[bytes], *, compressed: bool) -> None:
    queue = list(reversed(bodies))
    compression = grpc.Compression.Gzip if compressed else grpc.Compression.NoCompression
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        export = channel.unary_unary(_EXPORT)

        async def caller() -> None:
            while queue:
                body = queue.pop()
                try:
                    await export(body, compression=compression)
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                    queue.append(body)
                    await asyncio.sleep(0.2)

        await asyncio.gather(*(caller() for _ in range(_CONNECTIONS)))


def _family(pid: int) -> list[int]:
    """Return a process and those that it has started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for thread in threads for child in thread.read_text().split())]


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used. Only Linux."""
    stats = (Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split() for one in _family(pid))
    return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")


def _megabytes(pid: int, name: str) -> float:
    found = [re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{one}/status").read_text()) for one in _family(pid)]
    return sum(int(one[1]) for one in found if one) / 1024


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(port: int, path: str) -> str:
    """Return what the monitor's own port says. Raises `OSError`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until a condition holds. Raises `SystemExit` after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{what} did not come about within {seconds:g} s")


def workers(port: int) -> int:
    """Return how many workers of a monitor are ready."""
    return int(float(get(port, "/metrics").partition("\nragmonitor_workers ")[2].partition("\n")[0]))


def pending(port: int) -> float:
    """Return how many traces a monitor has received and not ended."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in get(port, "/metrics").splitlines()
        if line.startswith("ragmonitor_traces_pending{")
    )


def measure(row: Row, spans: int) -> Figures:
    """Start a monitor, load it, and read what it cost."""
    ports = {"http": free_port(), "grpc": free_port(), "metrics": free_port()}
    bodies = _bodies(row.batch, spans, compressed=row.compressed and row.transport == "HTTP")
    sent = len(bodies) * row.batch
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "bench.yaml")
        config.write_text(
            f"sources:\n- {{type: otlp_http, port: {ports['http']}}}\n- {{type: otlp_grpc, port: {ports['grpc']}}}\n"
            f"sinks: [{{type: prometheus, port: {ports['metrics']}}}]\nsampling: {{traces: {row.rate}}}\n"
            f"storage: {{path: {folder}/state}}\nlog: {{level: ERROR}}\nscoring: {{processes: {row.processes}}}\n"
        )
        monitor = subprocess.Popen([sys.executable, "-m", "monitor", "run", "-c", str(config)])
        try:
            wait_for(lambda: get(ports["metrics"], "/-/ready") == "ready\n", 30, "readiness")
            wait_for(lambda: workers(ports["metrics"]) == row.processes, 60, "the workers")
            time.sleep(0.5)
            idle, before = _megabytes(monitor.pid, "VmRSS"), cpu_seconds(monitor.pid)
            started = time.monotonic()
            send: Callable[..., Awaitable[None]] = _post_all if row.transport == "HTTP" else _call_all
            port = ports["http" if row.transport == "HTTP" else "grpc"]
            asyncio.run(_in_loop(send(port, bodies, compressed=row.compressed)))
            seconds, acked = time.monotonic() - started, cpu_seconds(monitor.pid) - before
            wait_for(lambda: pending(ports["metrics"]) == 0, 300, "the end of all pending traces")
            done, whole = cpu_seconds(monitor.pid) - before, time.monotonic() - started
            peak = _megabytes(monitor.pid, "VmHWM")
        finally:
            monitor.terminate()
            monitor.wait(15)
    return Figures(acked / sent * 1e6, done / sent * 1e6, idle, peak, sent / seconds, sent / whole)


async def _in_loop(work: Awaitable[None]) -> None:
    await work


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--quick", action="store_true", help="only batches of 64")
    ask.add_argument("--spans", type=int, default=40_000, help="spans sent for a row (batches of 1: a fifth of it)")
    ask.add_argument("--processes", default="1", help="values of scoring.processes to compare, such as 0,1,2")
    options = ask.parse_args()
    table = Table(
        *("transport", "encoding", "spans a request", "kept", "workers"),
        title="CPU microseconds a span, by the monitor and its workers",
    )
    for name in ("to the ack", "all done", "idle MB", "peak MB", "spans/s offered", "spans/s done"):
        table.add_column(name, justify="right")
    console = Console(width=140)
    batches = (64,) if options.quick else (1, 64, 512)
    each = itertools.product(("10%", "100%"), ("HTTP", "gRPC"), (True, False), batches, options.processes.split(","))
    for rate, transport, compressed, batch, processes in each:
        row = Row(transport, compressed, batch, rate, int(processes))
        got = measure(row, options.spans // 5 if batch == 1 else options.spans)
        table.add_row(
            transport, "gzip" if compressed else "plain", str(batch), rate, processes,
            f"{got.to_the_ack:.1f}", f"{got.all_done:.1f}", f"{got.idle_mb:.0f}", f"{got.peak_mb:.0f}",
            f"{got.spans_per_second:,.0f}", f"{got.done_per_second:,.0f}",
        )  # fmt: skip
        console.print(f"{row}: {got}", style="dim")
    console.print(table)


if __name__ == "__main__":
    main()
