"""The cost of receiving and judging: processor time of a running monitor under load from another process.

    python -m benchmarks.ingest [--quick] [--against CHECKOUT] [--transports http,http-gzip,grpc-gzip,json-gzip]
        [--batches 1,64,512] [--kept 10%,100%] [--evaluators overlap,local] [--processes 0,1,2] [--ack-only] [--profile]

Each run starts `rag-monitor run` as a separate process, sends it RAG traces of six spans (`benchmarks.traffic`,
about 15 kB with five documents of 800 characters) over loopback on 16 connections, and reads the processor time of that
process and its workers. Figures are medians of all runs, with the lowest and the highest.

*To the ack* is until the last request was answered; kept spans are then checked in full and on disk. *A kept trace* is
all that follows for one of them: assembled, read, judged, counted and in the history. The *floor* is a bare server that
takes the same bytes, inflates and cuts them, and throws them away (`benchmarks.floor`). With `--against`, another
checkout is measured in the same run, alternating. `--profile` samples a separate run for each row and prints how much
time each step used. Only Linux (it reads /proc and the processor clocks of processes).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
from rich.console import Console
from rich.table import Table

from benchmarks.running import (
    HERE,
    NOT_PROFILED,
    Profile,
    Stacks,
    all_ended,
    cpu_of_each,
    cpu_seconds,
    floor,
    megabytes,
    running,
    wait_for,
)
from benchmarks.steps import shares
from benchmarks.traffic import SPANS_IN_TRACE, Service, as_json, compress

_EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_CONNECTIONS: Final = 16
_LOCAL: Final = (
    "overlap_groundedness", "retrieval_overlap", "refusal_pattern", "injection_pattern", "pii_leak", "response_length"
)  # fmt: skip
_EVALUATORS: Final[dict[str, dict[str, Any]]] = {
    "overlap": {"evaluators": [{"type": "overlap_groundedness"}]},
    "local": {"evaluators": [{"type": name} for name in _LOCAL], "redaction": {"enabled": True}},
}
_LOOK_EVERY: Final = 2.0  # seconds: a look at /metrics costs the monitor milliseconds


class Row(NamedTuple):
    """The circumstances of a measurement."""

    transport: str
    batch: int
    kept: str
    evaluators: str
    processes: int

    @property
    def server(self) -> str:
        """Return the name of the bare server that is the floor for this measurement."""
        return self.transport.removesuffix("-gzip")

    @property
    def port(self) -> str:
        """Return the source that receives this transport."""
        return "otlp_grpc" if self.server == "grpc" else "otlp_http"


class Figures(NamedTuple):
    """Microseconds per span, milliseconds per kept trace, and finished kept traces per second; memory in MB.

    `busiest` is the part of `kept_ms` in the process that used most.
    """

    to_the_ack: float
    kept_ms: float
    busiest_ms: float
    kept_per_second: float
    idle_mb: float
    peak_mb: float


async def _post(port: int, bodies: Sequence[bytes], *, content_type: str, compressed: bool) -> None:
    queue = list(reversed(bodies))
    encoding = "Content-Encoding: gzip\r\n" if compressed else ""

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while queue:
            body = queue.pop()
            head = (
                f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\n"
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


async def _call(port: int, bodies: Sequence[bytes], *, compressed: bool) -> None:
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


def send(row: Row, port: int, bodies: Sequence[bytes]) -> None:
    """Send all bodies on 16 connections; refused ones are sent again."""
    compressed = row.transport.endswith("-gzip")
    if row.server == "grpc":
        asyncio.run(_call(port, bodies, compressed=compressed))
    else:
        content_type = "application/json" if row.server == "json" else "application/x-protobuf"
        asyncio.run(_post(port, bodies, content_type=content_type, compressed=compressed))


def bodies_of(row: Row, traces: int, seed: int) -> list[bytes]:
    """Return the bodies of export requests with this many traces."""
    requests = Service(seed).requests(traces, row.batch)
    encoded = (as_json(one) if row.server == "json" else one.SerializeToString() for one in requests)
    return [compress(one) if row.transport.endswith("-gzip") and row.server != "grpc" else one for one in encoded]


def measure_floor(row: Row, bodies: Sequence[bytes], spans: int) -> float:
    """Return the microseconds per span of the bare server."""
    with floor(row.server) as (pid, port):
        send(row, port, bodies[: max(1, len(bodies) // 10)])
        before = cpu_seconds(pid)
        send(row, port, bodies)
        return (cpu_seconds(pid) - before) / spans * 1e6


def measure(
    row: Row, checkout: Path, bodies: Sequence[bytes], traces: int, *, profiled: bool = False, ack_only: bool = False
) -> tuple[Figures, tuple[Stacks, Stacks]]:
    """Start a monitor, load it, and measure the cost; with `profiled`, also samples until the last answer and after it.

    With `ack_only` traces stay open, and the work after the acknowledgement is not measured.
    """
    config = {"sampling": {"traces": row.kept}, **_EVALUATORS[row.evaluators]}
    if ack_only:
        config["assembly"] = {"grace_period": "5m", "idle_timeout": "5m"}
    share = float(row.kept.rstrip("%")) / 100
    warm = traces // 10
    with running(config, checkout=checkout, processes=row.processes) as monitor:
        send(row, monitor.ports[row.port], bodies_of(row, warm, seed=1))
        metrics = monitor.ports["metrics"]
        if not ack_only:
            wait_for(lambda: all_ended(metrics, warm), 300, "the end of the first traces", every=_LOOK_EVERY)
        time.sleep(1)
        idle = megabytes(monitor.pid, "VmRSS")
        first, second = (Profile(monitor.pid) if profiled else nullcontext(NOT_PROFILED) for _ in range(2))
        with first as receiving:
            before, began = cpu_of_each(monitor.pid), time.monotonic()
            send(row, monitor.ports[row.port], bodies)
            acked = cpu_of_each(monitor.pid)
        with second as judging:
            if not ack_only:
                wait_for(lambda: all_ended(metrics, warm + traces), 600, "the end of all traces", every=_LOOK_EVERY)
            seconds = time.monotonic() - began
            time.sleep(1)  # the history is written a moment later
            done = cpu_of_each(monitor.pid)
        peak = megabytes(monitor.pid, "VmHWM")
    after = [done[one] - acked.get(one, 0.0) for one in done]
    kept = traces * share
    return Figures(
        (sum(acked.values()) - sum(before.values())) / traces / SPANS_IN_TRACE * 1e6,
        sum(after) / kept * 1e3,
        max(after) / kept * 1e3,
        kept / seconds,
        idle,
        peak,
    ), (receiving.stacks, judging.stacks)


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Return the median of the figures with the lowest and the highest."""
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def _of_kept(figures: Sequence[Figures], kept: Sequence[float]) -> tuple[str, str, str]:
    return (
        spread(kept, 2),
        f"{statistics.median(one.busiest_ms for one in figures):.2f}",
        f"{statistics.median(one.kept_per_second for one in figures):,.0f}",
    )


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    lists = (options.transports, options.batches, options.kept, options.evaluators, options.processes)
    for transport, batch, kept, evaluators, processes in itertools.product(*(one.split(",") for one in lists)):
        yield Row(transport, int(batch), kept, evaluators, int(processes))


def _options() -> argparse.Namespace:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--quick", action="store_true", help="one row, three runs")
    ask.add_argument("--transports", default="http,http-gzip,grpc,grpc-gzip,json,json-gzip")
    ask.add_argument("--batches", default="1,64,512", help="spans of a request")
    ask.add_argument("--kept", default="10%", help="values of sampling.traces")
    ask.add_argument("--evaluators", default="overlap", help="overlap, local (six of them, with redaction), or both")
    ask.add_argument("--processes", default="1", help="values of scoring.processes")
    ask.add_argument("--traces", type=int, default=4000, help="traces of a run; fewer where all are kept")
    ask.add_argument("--runs", type=int, default=5)
    ask.add_argument("--against", type=Path, action="append", default=[], help="another checkout, measured in turns")
    ask.add_argument("--ack-only", action="store_true", help="do not wait until kept traces are judged")
    ask.add_argument("--profile", action="store_true", help="print the share of each step")
    options = ask.parse_args()
    if options.quick:
        options.transports, options.batches, options.runs = "http-gzip", "64", 3
    return options


def main() -> None:
    """Print the tables."""
    options = _options()
    checkouts = {"this": HERE, **{one.name: one.resolve() for one in options.against}}
    load = os.getloadavg()[0]
    table = Table(
        *("transport", "spans a request", "kept", "evaluators", "workers", "checkout"),
        title=f"processor time, median (lowest to highest) of {options.runs} runs; {os.cpu_count()} cores, load"
        f" {load:.1f} before",
    )
    columns = "floor, us a span", "to the ack, us a span", "x floor", "a kept trace, ms", "of it the busiest process"
    for name in (*columns, "kept traces a second", "MB idle, peak"):
        table.add_column(name, justify="right")
    console, profiles = Console(width=190), []
    for row in _rows(options):
        traces = max(100, round(options.traces * min(1.0, 0.2 / (float(row.kept.rstrip("%")) / 100))))
        traces = traces // 4 if row.batch == 1 else traces
        floors: list[float] = []
        found: dict[str, list[Figures]] = {name: [] for name in checkouts}
        for run in range(options.runs):
            bodies = bodies_of(row, traces, seed=7 + run)
            floors.append(measure_floor(row, bodies, traces * SPANS_IN_TRACE))
            in_turn = list(checkouts.items())
            for name, checkout in in_turn if run % 2 else reversed(in_turn):  # the first in a run is slower
                found[name].append(measure(row, checkout, bodies, traces, ack_only=options.ack_only)[0])
                console.print(f"{row} {name}: {found[name][-1]}", style="dim")
        for name, figures in found.items():
            acks, kept = [one.to_the_ack for one in figures], [one.kept_ms for one in figures]
            table.add_row(
                *(row.transport, str(row.batch), row.kept, row.evaluators, str(row.processes), name),
                *(spread(floors), spread(acks), f"{statistics.median(acks) / statistics.median(floors):.1f}"),
                *("", "", "") if options.ack_only else _of_kept(figures, kept),
                f"{statistics.median(one.idle_mb for one in figures):.0f},"
                f" {statistics.median(one.peak_mb for one in figures):.0f}",
            )
        if options.profile:
            bodies = bodies_of(row, 4 * traces, seed=7)
            for name, checkout in checkouts.items():
                receiving, judging = measure(row, checkout, bodies, 4 * traces, profiled=True)[1]
                profiles.append((f"to the ack, {name}: {' '.join(map(str, row))}", receiving))
                profiles.append((f"a kept trace, {name}: {' '.join(map(str, row))}", judging))
    console.print(table)
    for title, stacks in profiles:
        console.print(_profile_table(title, stacks))


def _profile_table(title: str, stacks: Stacks) -> Table:
    table = Table("step", "monitor", "worker", title=f"share of each step {title}; {stacks.total():,} samples")
    for step, (monitor, worker) in shares(stacks):
        table.add_row(step, f"{monitor:.1%}", f"{worker:.1%}")
    return table


if __name__ == "__main__":
    main()
