"""The effect of overload on the monitor: ten times the load it can take under a memory limit, and bombs among senders.

    python -m benchmarks.overload [--quick] [--memory 512MiB] [--only overload|bombs|workers] [--markdown]

The monitor runs with its defaults (with `--quick`, it waits 1 s instead of 10 s for more spans of a trace) and
`limits.memory`, in a memory control group of that size if this machine allows one (else its resident memory is only
watched). *Capacity* is how many traces a second are finished while a few senders keep it saturated, in three periods;
then ten times that load is offered without retries, as thousands of exporters would. Goodput is how many traces a
second are finished then. A refusal is correct if it is 503 with `Retry-After` of one or two seconds and a
`google.rpc.Status`. In the second table four senders export one trace ten times a second each, and health is requested
ten times a second, while four other senders send bombs back to back; the base is everything measured between the
bombs. Only Linux (it reads /proc). Senders and monitor share the machine's cores, so figures are those of this machine:
compare them with others only if other work took next to nothing of it. `--markdown` prints the tables of
docs/reliability.md. `--only workers` prints instead the capacity without a worker process, with one and with two, each
several times, alternating.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from google.rpc.status_pb2 import Status
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from benchmarks.running import free_port, get, wait_for
from benchmarks.traffic import SPANS_IN_TRACE, Service
from monitor.quantities import parse_size
from tests.support.control_group import ControlGroup
from tests.support.monitor import assert_balanced
from tests.support.otlp import length_delimited

_MIB = 1024**2
_TRACES = 10
"""Traces of a request."""

_GOOD_SENDERS = 4
_HOSTILE_SENDERS = 4
_SENDERS = 48
_RESPONSE = re.compile(rb"HTTP/1\.1 (\d+)")


@dataclass
class Answers:
    """The answers: seconds by status, and how many refusals were incorrect."""

    seconds: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    wrong: Counter[str] = field(default_factory=Counter)

    @property
    def number(self) -> int:
        """Return the number of answers."""
        return sum(map(len, self.seconds.values()))

    def p99(self, *statuses: int) -> float:
        """Return the 99th percentile in seconds over these statuses, by default over all; nan if there are none."""
        chosen = statuses or tuple(self.seconds)
        found = sorted(one for status in chosen for one in self.seconds.get(status, ()))
        return found[min(len(found) - 1, int(len(found) * 0.99))] if found else float("nan")


class Exports:
    """Endless export requests, each with this many traces that have distinct ids."""

    def __init__(self, traces: int = _TRACES) -> None:
        self._body = next(Service().requests(traces, traces * SPANS_IN_TRACE)).SerializeToString()
        self._ids = sorted(set(re.findall(rb"\x0a\x10(.{16})\x12\x08", self._body, re.DOTALL)))
        if len(self._ids) != traces:
            raise RuntimeError("the request is not as it was thought to be")

    def next(self) -> bytes:
        """Return another request."""
        body = self._body
        for one in self._ids:
            body = body.replace(one, os.urandom(16))
        return body


class Connection:
    """One connection of a sender, reopened whenever it is closed."""

    def __init__(self, port: int, answers: Answers) -> None:
        self._port = port
        self._answers = answers
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, body: bytes, kind: str = "application/x-protobuf", *, gzipped: bool = False) -> int:
        """Send a request and note the answer; return its status, or 0 if the connection broke."""
        began = time.monotonic()
        encoding = "Content-Encoding: gzip\r\n" if gzipped else ""
        head = (
            f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{encoding}"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            status, headers, content = await self._exchange(head.encode() + body)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            self._answers.wrong["connection broken"] += 1
            return 0
        self._answers.seconds[status].append(time.monotonic() - began)
        if status == 503:
            self._check(headers, content, kind)
        if b"connection: close" in headers:
            self.close()
        return status

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None

    async def get(self, path: str) -> None:
        """Ask for a page and note the answer."""
        began = time.monotonic()
        status, _, _ = await self._exchange(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self._answers.seconds[status].append(time.monotonic() - began)

    async def _exchange(self, request: bytes) -> tuple[int, bytes, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        headers = (await reader.readuntil(b"\r\n\r\n")).lower()
        found = _RESPONSE.match(headers.upper())
        length = re.search(rb"content-length: (\d+)", headers)
        content = await reader.readexactly(int(length[1])) if length else b""
        return int(found[1]) if found else 0, headers, content

    def _check(self, headers: bytes, content: bytes, kind: str) -> None:
        wait = re.search(rb"retry-after: (\d+)", headers)
        if wait is None or int(wait[1]) not in (1, 2):
            self._answers.wrong["no Retry-After of 1 or 2 s"] += 1
        if kind == "application/x-protobuf":
            try:
                Status.FromString(content)
            except Exception:  # noqa: BLE001 - no error is what it should be
                self._answers.wrong["no google.rpc.Status"] += 1


class Running:
    """A monitor under the limit; its resident memory is measured ten times a second."""

    def __init__(self, memory: str, grace: str, folder: Path, processes: int = 1) -> None:
        self.port, self.metrics = free_port(), free_port()
        self.peak = 0
        self._group = ControlGroup(parse_size(memory))
        self.limited = self._group.made
        config = folder / "overload.yaml"
        config.write_text(
            f"limits: {{memory: {memory}}}\nsources:\n- {{type: otlp_http, port: {self.port}}}\n"
            f"- {{type: otlp_grpc, port: {free_port()}}}\n"
            f"sinks: [{{type: prometheus, port: {self.metrics}}}]\nstorage: {{path: {folder}/state}}\n"
            f"assembly: {{grace_period: {grace}}}\nalerts: []\nlog: {{level: ERROR}}\n"
            f"scoring: {{processes: {processes}}}\n"
        )
        command = [sys.executable, "-m", "monitor", "run", "-c", str(config)]
        self.process = subprocess.Popen(self._group.around(command))
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        wait_for(lambda: get(self.metrics, "/-/ready") == "ready\n", 60, "readiness")

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.peak = max(self.peak, sum(_resident(one) for one in _family(self.process.pid)))

    @property
    def alive(self) -> bool:
        """Whether it is still running."""
        return self.process.poll() is None

    def samples(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Return one scrape: all samples by name."""
        found = defaultdict(list)
        for family in text_string_to_metric_families(get(self.metrics, "/metrics")):
            for sample in family.samples:
                found[sample.name].append((sample.labels, sample.value))
        return found

    def ended(self) -> float:
        """Return how many traces were read."""
        return sum(value for labels, value in self.samples()["ragmonitor_traces_total"] if labels["outcome"] == "read")

    def end(self) -> None:
        """Stop it."""
        self._over.set()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._group.remove()


class OtherWork:
    """The share of the machine's processor time that other processes use while this context is open."""

    def __init__(self, monitor: Running) -> None:
        self._monitor = monitor
        self._began = (0.0, 0.0)

    def __enter__(self) -> Self:
        """Start measuring."""
        self._began = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: the share is read before the end."""

    @property
    def words(self) -> str:
        """Return the share so far, in words."""
        began, (total, others) = self._began, self._now()
        return f"other work took {(others - began[1]) / max(total - began[0], 1e-9):.0%} of {os.cpu_count()} cores"

    def _now(self) -> tuple[float, float]:
        """Return the seconds of all cores so far, and those used by other processes."""
        user, nice, system, idle, waiting, *interrupts = map(
            int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
        )
        tick = os.sysconf("SC_CLK_TCK")
        busy = (user + nice + system + sum(interrupts)) / tick
        ours = sum(map(_seconds_of, (os.getpid(), *_family(self._monitor.process.pid))))
        return busy + (idle + waiting) / tick, busy - ours


def _seconds_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _family(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


@contextlib.contextmanager
def running(memory: str, grace: str, processes: int = 1) -> Iterator[Running]:
    """Run a monitor for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        made = Running(memory, grace, Path(folder), processes)
        try:
            yield made
        finally:
            made.end()


async def saturate(port: int, seconds: float) -> Answers:
    """Send with a few senders that wait when the monitor asks them to."""
    answers, exports = Answers(), Exports()
    until = time.monotonic() + seconds

    async def sender() -> None:
        connection = Connection(port, answers)
        while time.monotonic() < until:
            if await connection.post(exports.next()) != 200:
                await asyncio.sleep(0.1)
        connection.close()

    await asyncio.gather(*(sender() for _ in range(4)))
    return answers


async def flood(port: int, rate: float, seconds: float) -> Answers:
    """Offer `rate` requests a second, whatever the answers are."""
    answers, exports = Answers(), Exports()
    began = time.monotonic()

    async def sender(number: int) -> None:
        connection, due = Connection(port, answers), began + number / rate
        while due < began + seconds and time.monotonic() < began + seconds:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await connection.post(exports.next())
            due += _SENDERS / rate
        connection.close()

    await asyncio.gather(*(sender(number) for number in range(_SENDERS)))
    return answers


async def recovered(port: int) -> float:
    """Return the seconds until ten requests in a row, a tenth of a second apart, are accepted."""
    connection, exports = Connection(port, Answers()), Exports()
    began, in_a_row, first = time.monotonic(), 0, 0.0
    while in_a_row < 10 and time.monotonic() < began + 120:
        at = time.monotonic() - began
        if await connection.post(exports.next()) == 200:
            first = first if in_a_row else at
            in_a_row += 1
        else:
            in_a_row = 0
        await asyncio.sleep(0.1)
    connection.close()
    return first if in_a_row else float("inf")


def overload(memory: str, grace: str, warm: float, seconds: float, console: Console) -> Table:
    """Measure the first table."""
    table = Table("ten times the load", "reached", "aim", title="Ten times the load that it can take")
    with running(memory, grace) as monitor, OtherWork(monitor) as others:
        asyncio.run(_in_loop(saturate(monitor.port, warm)))  # until full: then finished traces show its capacity
        rates = [_rate(monitor, lambda: asyncio.run(_in_loop(saturate(monitor.port, warm / 2)))) for _ in range(3)]
        capacity = statistics.mean(rates)
        console.print(f"capacity: {capacity:.0f} traces/s", style="dim")
        before, began = monitor.ended(), time.monotonic()
        answers = asyncio.run(_answers(flood(monitor.port, 10 * capacity / _TRACES, seconds)))
        took = time.monotonic() - began
        goodput = (monitor.ended() - before) / took if monitor.alive else 0.0
        recovery = asyncio.run(_seconds(recovered(monitor.port))) if monitor.alive else float("inf")
        wait_for(lambda: not monitor.alive or _calm(monitor), 300, "the end of all traces")
        assert_balanced(monitor.samples())
        offered = answers.number * _TRACES / took
        statuses = ", ".join(f"{status}: {len(found):,}" for status, found in sorted(answers.seconds.items()))
        limited = "in a control group" if monitor.limited else "no control group here: watched only"
        for name, reached, aim in (
            ("capacity, traces/s", f"{capacity:.0f} ({min(rates):.0f} to {max(rates):.0f})", ""),
            ("offered, traces/s (of capacity)", f"{offered:.0f} ({offered / capacity:.1f})", "10 times"),
            ("answers", statuses, "200 and 503 only"),
            (f"resident memory at most, MiB ({limited})", f"{monitor.peak / _MIB:.0f}", f"{memory}"),
            ("goodput, share of capacity", f"{goodput / capacity:.2f}", "0.80"),
            ("refusals that are not as they should be", str(dict(answers.wrong) or 0), "0"),
            ("refusals, p99 ms", f"{answers.p99(503) * 1e3:.0f}", "250"),
            ("recovery, s", f"{recovery:.1f}", "10"),
            ("ledger", "balanced", "balanced"),
        ):
            table.add_row(name, reached, aim)
        table.caption = others.words
    return table


def workers(memory: str, seconds: float, turns: int, console: Console) -> Table:
    """Measure the capacity by number of worker processes. The senders use part of the same cores."""
    table = Table("worker processes", "capacity, traces/s (lowest to highest)", "times that of 0", title="Workers")
    found: dict[int, list[float]] = {0: [], 1: [], 2: []}
    shares = []
    for _ in range(turns):
        for processes, rates in found.items():
            with running(memory, "1s", processes) as monitor, OtherWork(monitor) as others:
                asyncio.run(_in_loop(saturate(monitor.port, seconds)))
                rates.append(_rate(monitor, lambda: asyncio.run(_in_loop(saturate(monitor.port, seconds)))))
                shares.append(others.words)
            console.print(f"{processes}: {rates[-1]:.0f} traces/s; {shares[-1]}", style="dim")
    base = statistics.median(found[0])
    for processes, rates in found.items():
        middle = statistics.median(rates)
        spread = f"{middle:.0f} ({min(rates):.0f} to {max(rates):.0f})"
        table.add_row(str(processes), spread, f"{middle / base:.2f}")
    table.caption = f"at most: {max(shares)}"
    return table


def _rate(monitor: Running, work: Callable[[], None]) -> float:
    """Return how many traces a second are finished during some work."""
    before, began = monitor.ended(), time.monotonic()
    work()
    return (monitor.ended() - before) / (time.monotonic() - began)


def _calm(monitor: Running) -> bool:
    return sum(value for _, value in monitor.samples()["ragmonitor_traces_pending"]) == 0


_SPAN = length_delimited(1, bytes(15) + b"\x01") + length_delimited(2, bytes(7) + b"\x01")


def _request(*spans: bytes, resource: bytes = b"") -> bytes:
    scoped = length_delimited(2, b"".join(length_delimited(2, span) for span in spans))
    return length_delimited(1, (length_delimited(1, resource) if resource else b"") + scoped)


def _json(body: bytes) -> tuple[bytes, str]:
    return gzip.compress(body), "application/json"


def _protobuf(body: bytes) -> tuple[bytes, str]:
    return gzip.compress(body), "application/x-protobuf"


_JSON_SPAN = (
    b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":"%016x","name":"x","attributes":'
    b'[{"key":"input.value","value":{"stringValue":"%s"}}]}]}]}]}'
)
BOMBS: dict[str, Callable[[], tuple[bytes, str]]] = {
    "compression: 200 MB in 200 kB": lambda: _protobuf(bytes(200 * _MIB)),
    "two million empty spans": lambda: _protobuf(length_delimited(1, length_delimited(2, b"\x12\x00" * 2_000_000))),
    "a million attributes of a span": lambda: _protobuf(_request(_SPAN + b"\x4a\x00" * 1_000_000)),
    "8,000 attributes of each of 1,200 spans": lambda: _protobuf(
        _request(*[_SPAN + b"\x4a\x00" * 8_000 for _ in range(1_200)])
    ),
    "9.5 million attributes of a resource": lambda: _protobuf(_request(_SPAN, resource=b"\x0a\x00" * 9_500_000)),
    "JSON: a string of 19 MB": lambda: _json(_JSON_SPAN % (1, 1, b"x" * 19_000_000)),
    "JSON: escapes in a string without an end": lambda: _json(b"," * 1_000_001 + b'"' + b'\\"' * 9_000_000),
    "JSON: ten million values": lambda: _json(b'{"odd":[' + b"0," * 9_000_000 + b"0]}"),
}


class Beside(NamedTuple):
    """The answers that good senders, a health check and hostile senders got in the same period."""

    good: Answers
    health: Answers
    hostile: Answers


async def beside(
    monitor: Running, exports: Exports, bomb: tuple[bytes, str] | None, seconds: float, into: Beside
) -> None:
    """Have good senders export, together with hostile ones if there is a bomb; note the answers in `into`."""
    until = time.monotonic() + seconds

    async def sender(number: int) -> None:
        connection = Connection(monitor.port, into.good)
        await asyncio.sleep(number / 10 / _GOOD_SENDERS)
        while time.monotonic() < until:
            await connection.post(exports.next())
            await asyncio.sleep(0.1)
        connection.close()

    async def asks() -> None:
        connection = Connection(monitor.metrics, into.health)
        while time.monotonic() < until:
            await connection.get("/-/healthy")
            await asyncio.sleep(0.1)
        connection.close()

    async def bomber(body: bytes, kind: str) -> None:
        connection = Connection(monitor.port, into.hostile)
        while time.monotonic() < until:
            await connection.post(body, kind, gzipped=True)
        connection.close()

    bombers = [bomber(*bomb) for _ in range(_HOSTILE_SENDERS)] if bomb is not None else []
    await asyncio.gather(asks(), *map(sender, range(_GOOD_SENDERS)), *bombers)


def bombs(memory: str, seconds: float, console: Console) -> Table:
    """Measure the second table."""
    columns = "beside", "p99, ms", "more than base", "health, p99 ms", "accepted", "bombs answered"
    table = Table(*columns, title="Good senders beside hostile ones (aim: at most 50 ms more)")
    with running(memory, "1s") as monitor, OtherWork(monitor) as others:
        exports = Exports(1)
        asyncio.run(beside(monitor, exports, None, 2.0, _nothing()))  # warm
        base, found = _nothing(), {name: _nothing() for name in BOMBS}
        for name, make in BOMBS.items():
            bomb = make()
            asyncio.run(beside(monitor, exports, None, seconds / 2, base))
            asyncio.run(beside(monitor, exports, bomb, seconds, found[name]))
            console.print(f"{name}: p99 {found[name].good.p99() * 1e3:.0f} ms", style="dim")
        for name, one in {"nothing": base, **found}.items():
            answered = ", ".join(f"{status}: {len(times):,}" for status, times in sorted(one.hostile.seconds.items()))
            p99, health = one.good.p99() * 1e3, one.health.p99() * 1e3
            more = "" if one is base else f"{p99 - base.good.p99() * 1e3:.0f}"
            table.add_row(name, f"{p99:.0f}", more, f"{health:.0f}", _accepted(one.good), answered)
        table.caption = f"resident memory at most {monitor.peak / _MIB:.0f} MiB of {memory}; {others.words}"
        assert_balanced(monitor.samples())
    return table


def _nothing() -> Beside:
    return Beside(Answers(), Answers(), Answers())


def _accepted(good: Answers) -> str:
    return f"{len(good.seconds.get(200, ()))} of {good.number}"


async def _in_loop(work: Awaitable[object]) -> None:
    await work


async def _answers(work: Awaitable[Answers]) -> Answers:
    return await work


async def _seconds(work: Awaitable[float]) -> float:
    return await work


def main() -> None:
    """Print the tables."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--quick", action="store_true", help="ten seconds of overload instead of two minutes")
    ask.add_argument("--memory", default="512MiB", help="the memory limit")
    ask.add_argument("--only", choices=("overload", "bombs", "workers"), help="one of the tables")
    ask.add_argument("--markdown", action="store_true", help="print the tables as docs/reliability.md has them")
    options = ask.parse_args()
    console = Console(width=140)
    found = []
    if options.only == "workers":
        found.append(workers(options.memory, 10.0 if options.quick else 25.0, 2 if options.quick else 3, console))
    if options.only in (None, "overload"):
        grace, warm, seconds = ("1s", 6.0, 10.0) if options.quick else ("10s", 40.0, 120.0)
        found.append(overload(options.memory, grace, warm, seconds, console))
    if options.only in (None, "bombs"):
        found.append(bombs(options.memory, 4.0 if options.quick else 15.0, console))
    for table in found:
        console.print(_markdown(table) if options.markdown else table, soft_wrap=options.markdown, highlight=False)


def _markdown(table: Table) -> str:
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    rows = [f"| {' | '.join(row)} |" for row in zip(*columns, strict=True)]
    return "\n".join([rows[0], "|" + " --- |" * len(columns), *rows[1:], "", str(table.caption), ""])


if __name__ == "__main__":
    main()
