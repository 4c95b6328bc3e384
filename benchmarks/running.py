"""Runs a monitor, of this checkout or of another, as a separate process, and measures its cost. Only Linux."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import yaml

HERE: Final = Path(__file__).parents[1]
_PROCESSOR_CLOCK: Final = 2
_ENDED: Final = re.compile(r"^ragmonitor_traces(?:_(pending)|_received_total)\{.*\} (\S+)$", re.MULTILINE)


def _family(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for thread in threads for child in thread.read_text().split())]


def cpu_of_each(pid: int) -> dict[int, float]:
    """Return the processor seconds used by a process and its children, by process id."""
    return {one: time.clock_gettime(~one << 3 | _PROCESSOR_CLOCK) for one in _family(pid)}


def cpu_seconds(pid: int) -> float:
    """Return the processor seconds used by a process and its children together."""
    return sum(cpu_of_each(pid).values())


def megabytes(pid: int, name: str) -> float:
    """Return a memory figure of `/proc/PID/status`, summed over a process and its children."""
    found = [re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{one}/status").read_text()) for one in _family(pid)]
    return sum(int(one[1]) for one in found if one) / 1024


_MAPPING: Final = re.compile(r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+ *(.*)$")


def megabytes_once(pid: int) -> float:
    """Return the resident memory of a process and its children, with the file pages that they share counted once.

    These are pages of libraries. Pages that a process has changed are counted as its own.
    """
    own, shared = 0, dict[str, int]()
    for one in _family(pid):
        theirs, file = defaultdict[str, int](int), ""
        for line in Path(f"/proc/{one}/smaps").read_text().splitlines():
            if found := _MAPPING.match(line):
                file = found[1] if found[1].startswith("/") else ""
            elif line.startswith("Rss:"):
                theirs[file] += int(line.split()[1])
            elif line.startswith("Private_Dirty:"):
                own += int(line.split()[1])
                theirs[file] -= int(line.split()[1])
        own += theirs.pop("", 0)
        shared = {file: max(shared.get(file, 0), theirs.get(file, 0)) for file in shared | theirs}
    return (own + sum(shared.values())) / 1024


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(port: int, path: str) -> str:
    """Return the answer of the monitor's own port. Raises `OSError`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def wait_for(condition: Callable[[], bool], seconds: float, what: str, *, every: float = 0.1) -> None:
    """Wait until a condition is true. Raises `SystemExit` after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(every)
    raise SystemExit(f"{what} did not come about within {seconds:g} s")


def pending(port: int) -> int:
    """Return how many traces a monitor has received but not finished."""
    return _traces(port)["pending"]


def all_ended(port: int, received: int) -> bool:
    """Return whether a monitor has received at least this many traces, and finished them all."""
    traces = _traces(port)
    return traces["received"] >= received and traces["pending"] == 0


def _traces(port: int) -> Counter[str]:
    traces: Counter[str] = Counter()
    for found in _ENDED.finditer(get(port, "/metrics")):
        traces[found[1] or "received"] += int(float(found[2]))
    return traces


def workers(port: int) -> int | None:
    """Return how many workers of a monitor are ready, or None for an older version without workers."""
    found = get(port, "/metrics").partition("\nragmonitor_workers ")[2].partition("\n")[0]
    return int(float(found)) if found else None


class Monitor:
    """A running `rag-monitor`: its process, and its ports by source type and `metrics`."""

    def __init__(self, process: subprocess.Popen[bytes], ports: Mapping[str, int]) -> None:
        self.pid = process.pid
        self.ports = ports


@contextmanager
def running(config: Mapping[str, Any], *, checkout: Path = HERE, processes: int = 1) -> Iterator[Monitor]:
    """Run the monitor of `checkout` with both OTLP sources and `config`, from ready until the context ends."""
    ports = {name: free_port() for name in ("otlp_http", "otlp_grpc", "metrics")}
    with tempfile.TemporaryDirectory(prefix="rag-monitor-benchmark-") as folder:
        whole = {
            "sources": [{"type": name, "port": ports[name]} for name in ("otlp_http", "otlp_grpc")],
            "sinks": [{"type": "prometheus", "port": ports["metrics"]}],
            "storage": {"path": f"{folder}/state"},
            "log": {"level": "ERROR"},
            **({"scoring": {"processes": processes}} if processes != 1 else {}),  # an unknown key in older checkouts
            **config,
        }
        file = Path(folder, "benchmark.yaml")
        file.write_text(yaml.safe_dump(whole))
        process = subprocess.Popen(
            [sys.executable, "-m", "monitor", "run", "-c", str(file)],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
        )
        try:
            wait_for(lambda: get(ports["metrics"], "/-/ready") == "ready\n", 60, "readiness")
            wait_for(lambda: workers(ports["metrics"]) in (processes, None), 60, "the workers")
            yield Monitor(process, ports)
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def floor(kind: str) -> Iterator[tuple[int, int]]:
    """Run the bare server of `kind` (see `benchmarks.floor`); yield its process id and its port."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.floor", kind, str(port)], cwd=HERE)
    try:
        wait_for(lambda: _listens(port), 30, "the bare server")
        yield process.pid, port
    finally:
        process.terminate()
        process.wait(60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


Stacks: TypeAlias = Counter[tuple[str, ...]]
"""The number of samples by stack: the process, then the functions, outermost first."""


class Profile:
    """Sample where a process and its children spend their processor time (py-spy), until the context ends."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self.stacks: Stacks = Counter()

    def __enter__(self) -> Self:
        self._file = tempfile.NamedTemporaryFile(suffix=".txt")
        command = [
            "record",
            "--pid",
            str(self._pid),
            "--subprocesses",
            "--rate",
            "200",
            "--nonblocking",
            "--format",
            "raw",
        ]
        self._recording = subprocess.Popen(
            [
                Path(sys.executable).with_name("py-spy"),
                *command,
                "--output",
                self._file.name,
                "--duration",
                "unlimited",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._recording.send_signal(signal.SIGINT)
        self._recording.wait(60)
        for line in Path(self._file.name).read_text(errors="replace").split("\n"):
            stack, _, count = line.rpartition(" ")
            if count.isdecimal():  # a sample of a running process may contain a torn name
                self.stacks[tuple(stack.split(";"))] += int(count)
        self._file.close()


NOT_PROFILED: Final = Profile(None)
