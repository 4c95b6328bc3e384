"""The cost of the same OTLP bytes for this product, Phoenix, MLflow and a Collector: processor, memory and disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

import monitor
from benchmarks.peers import environments
from benchmarks.running import HERE, all_ended, free_port, get, wait_for, workers
from benchmarks.traffic import Service, compress

_BATCH: Final = 64
_CONNECTIONS: Final = 4
_QUIET: Final = 0.1  # seconds of processor time in `_LOOK` seconds: below that, all work is done
_LOOK: Final = 3.0
_CLOCK: Final = 2

DOES: Final = {
    "ours": "reads each request, scores it (overlap_groundedness), counts it; keeps results, no traces",
    "phoenix": "stores every span with its texts, for search and evaluation by hand; scores nothing",
    "mlflow": "stores every span with its texts, for search and evaluation by hand; scores nothing",
    "collector": "writes every span to a file as JSON; stores nothing to search, scores nothing",
}


class Ingestion(NamedTuple):
    """Resources that a product used. Memory in MB over all of its processes; `disk_kb` per trace."""

    product: str
    version: str
    cpu_ms: list[float]
    idle_mb: float
    peak_mb: float
    disk_kb: float


class _Server(NamedTuple):
    pid: int
    port: int
    version: str
    data: Path
    headers: Mapping[str, str]
    metrics: int = 0


def measure(products: Sequence[str], folder: Path, *, traces: int, runs: int) -> Iterator[Ingestion]:
    """Send the same traces to each product in turn, `runs` times, each time to a new server."""
    found: dict[str, list[Ingestion]] = {name: [] for name in products}
    for _ in range(runs):
        for name in products:
            found[name].append(_one(name, folder, traces))
    for many in found.values():
        last = many[-1]
        yield last._replace(cpu_ms=[one.cpu_ms[0] for one in many])


def _one(name: str, folder: Path, traces: int) -> Ingestion:
    warm = max(traces // 10, 20)
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as data:
        with _SERVERS[name](folder, Path(data)) as server:
            empty = _size(server.data)
            _send(server, _bodies(warm, seed=1))
            _settle(server, warm)
            idle = _memory(server.pid, "VmRSS")
            bodies = _bodies(traces, seed=2)
            before = _cpu(server.pid)
            _send(server, bodies)
            _settle(server, warm + traces)
            used = _cpu(server.pid) - before
            peak = _memory(server.pid, "VmHWM")
        grown = _size(server.data) - empty  # after an orderly end, when databases have merged their logs
    return Ingestion(name, server.version, [used / traces * 1e3], idle, peak, grown / (traces + warm) / 1e3)


def _bodies(traces: int, seed: int) -> list[bytes]:
    return [compress(one.SerializeToString()) for one in Service(seed).requests(traces, _BATCH)]


def _send(server: _Server, bodies: Sequence[bytes]) -> None:
    asyncio.run(_post(server.port, bodies, server.headers))


async def _post(port: int, bodies: Sequence[bytes], headers: Mapping[str, str]) -> None:
    queue = list(reversed(bodies))
    given = "".join(f"{name}: {value}\r\n" for name, value in headers.items())

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while queue:
            body = queue.pop()
            head = (
                "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n"
                f"Content-Encoding: gzip\r\n{given}Content-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", answer)
            rest = await reader.readexactly(int(length[1])) if length else b""
            if re.match(rb"HTTP/1.1 (429|503) ", answer):
                queue.append(body)
                await asyncio.sleep(0.2)
            elif not re.match(rb"HTTP/1.1 20\d ", answer):
                raise SystemExit(f"refused: {(answer + rest)[:400].decode(errors='replace')}")
        writer.close()

    await asyncio.gather(*(connection() for _ in range(_CONNECTIONS)))


def _settle(server: _Server, received: int) -> None:
    """Wait until all work is done: according to the monitor itself, or until another product is idle."""
    if server.metrics:
        wait_for(lambda: all_ended(server.metrics, received), 600, "the end of all traces", every=0.5)
        time.sleep(2)  # the history is written a moment later
        return
    seen, last = _cpu(server.pid), time.monotonic()
    while time.monotonic() - last < _LOOK:
        time.sleep(0.2)
        now = _cpu(server.pid)
        if now - seen > _QUIET:
            seen, last = now, time.monotonic()


def _family(pid: int) -> Iterator[int]:
    yield pid
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in thread.read_text().split():
                yield from _family(int(child))


def _cpu(pid: int) -> float:
    total = 0.0
    for one in _family(pid):
        with contextlib.suppress(OSError):
            total += time.clock_gettime(~one << 3 | _CLOCK)
    return total


def _memory(pid: int, name: str) -> float:
    total = 0
    for one in _family(pid):
        with contextlib.suppress(OSError):
            found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{one}/status").read_text())
            total += int(found[1]) if found else 0
    return total / 1024


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".log")


@contextmanager
def _process(
    command: Sequence[str], data: Path, port: int, variables: Mapping[str, str], *, cwd: Path
) -> Iterator[int]:
    """Run a server until the context ends; yield its process id once it accepts connections."""
    with (data / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=cwd, env=dict(variables), start_new_session=True
        )  # fmt: skip
    try:
        wait_for(lambda: process.poll() is not None or _listens(port), 180, command[0])
        if process.poll() is not None:
            raise SystemExit(f"{command[0]} ended: {(data / 'server.log').read_text()[-1500:]}")
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _configured(data: Path, config: Mapping[str, Any]) -> Path:
    file = data / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    return file


@contextmanager
def _ours(_folder: Path, data: Path) -> Iterator[_Server]:
    port, metrics = free_port(), free_port()
    kept = data / "state"
    config: dict[str, Any] = {
        "sources": [{"type": "otlp_http", "port": port}],
        "sinks": [{"type": "prometheus", "port": metrics}],
        "evaluators": [{"type": "overlap_groundedness"}],
        "alerts": [],
        "storage": {"path": str(kept)},
        "log": {"level": "ERROR"},
    }
    command = [sys.executable, "-m", "monitor", "run", "-c", str(_configured(data, config))]
    variables = {**os.environ, "PYTHONPATH": str(HERE)}
    with _process(command, data, port, variables, cwd=HERE) as pid:
        wait_for(lambda: get(metrics, "/-/ready") == "ready\n" and workers(metrics) == 1, 60, "the worker")
        yield _Server(pid, port, monitor.__version__, kept, {}, metrics)


@contextmanager
def _phoenix(folder: Path, data: Path) -> Iterator[_Server]:
    port = free_port()
    variables = {
        **environments.environment(),
        "PHOENIX_WORKING_DIR": str(data),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
    }
    command = [str(environments.python("phoenix", folder)), "-m", "phoenix.server.main", "serve"]
    with _process(command, data, port, variables, cwd=data) as pid:
        yield _Server(pid, port, _version("phoenix"), data, {})


@contextmanager
def _mlflow(folder: Path, data: Path) -> Iterator[_Server]:
    port = free_port()
    command = [str(environments.python("mlflow", folder)), "-m", "mlflow", "server", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--backend-store-uri", f"sqlite:///{data}/mlflow.db", "--workers", "1"]
    variables = {**environments.environment(), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with _process(command, data, port, variables, cwd=data) as pid:
        yield _Server(pid, port, _version("mlflow"), data, {"x-mlflow-experiment-id": "0"})


@contextmanager
def _collector(folder: Path, data: Path) -> Iterator[_Server]:
    port = free_port()
    written = data / "written"
    written.mkdir()
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": {"file": {"path": str(written / "traces.json")}},
        "service": {
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
    }
    command = [str(environments.collector(folder)), f"--config={_configured(data, config)}"]
    with _process(command, data, port, environments.environment(), cwd=data) as pid:
        yield _Server(pid, port, environments.COLLECTOR.removeprefix("v"), written, {})


def _version(name: str) -> str:
    return environments.PINNED[name][0].partition("==")[2]


_SERVERS: Final = {"ours": _ours, "phoenix": _phoenix, "mlflow": _mlflow, "collector": _collector}
