"""A real monitor in a separate process, and its answers over HTTP."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.tools import PATIENCE, free_port, not_in_quick, wait_until

_FASTER = """
import sys
import anyio
from monitor.clock import SystemClock

speed = float(sys.argv.pop(1))

def faster(read):
    began = read(None)
    return lambda self: began + (read(self) - began) * speed

async def sleep(seconds, true_sleep=anyio.sleep):
    await true_sleep(seconds / speed if seconds >= 10 else seconds)

SystemClock.now, SystemClock.monotonic = faster(SystemClock.now), faster(SystemClock.monotonic)
anyio.sleep = sleep
from monitor.__main__ import main
main()
"""


def faster(speed: float) -> Callable[[list[str]], list[str]]:
    """Return the `MonitorProcess.around` for a monitor whose clocks run `speed` times as fast from its start.

    So do its sleeps of ten seconds or more, which are its schedules. Shorter waits, time limits and the clocks of its
    workers stay unchanged: they depend on the machine and the network, which get no faster.
    """
    return lambda command: [command[0], "-c", _FASTER, f"{speed:g}", *command[3:]]


class MonitorProcess:
    """`rag-monitor run` with a configuration in `folder`; ports are free ones unless the configuration names them.

    `context_rates` are off unless the configuration says otherwise: most tests count the results of their evaluators.
    """

    def __init__(self, folder: Path, config: dict[str, Any] | None = None) -> None:
        self.folder = folder
        self.http, self.grpc, self.metrics_port = free_port(), free_port(), free_port()
        self.config: dict[str, Any] = {
            "sources": [{"type": "otlp_http", "port": self.http}, {"type": "otlp_grpc", "port": self.grpc}],
            "sinks": [{"type": "prometheus", "port": self.metrics_port}],
            "assembly": {"grace_period": "300ms", "idle_timeout": "2s"},
            "storage": {"path": str(folder / "state")},
            "context_rates": False,
            **(config or {}),
        }
        self.log = folder / "monitor.log"
        self.environment: dict[str, str] | None = None
        """Its environment variables; None means those of the tests."""
        self.around: Callable[[list[str]], list[str]] = list
        """Wraps its command, for example in one that limits its memory."""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        self.spawn()
        wait_until(self.ready, 20, "readiness of the monitor")
        return self

    def spawn(self) -> None:
        """Start it without waiting."""
        not_in_quick("tests that start a whole monitor")
        path = self.write()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.around([sys.executable, "-m", "monitor", "run", "-c", str(path)]),
                stdout=log,
                stderr=log,
                env=self.environment,
            )

    def write(self, **changes: Any) -> Path:
        """Write its configuration file atomically, with these sections in place of the previous ones."""
        self.config.update(changes)
        path = self.folder / "config.yaml"
        beside = path.with_suffix(".new")
        beside.write_text(yaml.safe_dump(self.config))
        beside.replace(path)
        return path

    def reload(self, **changes: Any) -> str:
        """Write its configuration file and reload it over HTTP; return the answer, `200 ...` or `500 ...`."""
        self.write(**changes)
        return self.ask_to_reload()

    def ask_to_reload(self) -> str:
        """Return the answer to `POST /-/reload`."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.metrics_port}/-/reload", b"", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=60 * PATIENCE) as answer:
                return f"{answer.status} {answer.read().decode()}"
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode()}"

    def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the monitor ended at start: {self.log.read_text()}"
        try:
            return self.get("/-/ready") == "ready\n"
        except OSError:
            return False

    def get(self, path: str, **headers: str) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{self.metrics_port}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    def samples(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        """Return one scrape: all samples by name."""
        found = defaultdict(list)
        for family in text_string_to_metric_families(self.get("/metrics")):
            for sample in family.samples:
                found[sample.name].append((sample.labels, sample.value))
        return found

    def total(self, name: str, **labels: str) -> float:
        lines = (line for line in self.get("/metrics").split("\n") if line.startswith((f"{name}{{", f"{name} ")))
        families = text_string_to_metric_families("\n".join(lines) + "\n")
        return sum(one.value for family in families for one in family.samples if labels.items() <= one.labels.items())

    def wait_for_total(self, number: float, name: str, **labels: str) -> None:
        """Wait until the samples `name` with these labels add up to `number`; a scrape may be a second old."""
        wait_until(lambda: self.total(name, **labels) == number, 30, f"{number:g} of {name} {labels or ''}")

    def post(
        self, body: bytes, path: str = "/v1/traces", kind: str = "application/x-protobuf", *, gzipped: bool = False
    ) -> int:
        headers = {"Content-Type": kind, **({"Content-Encoding": "gzip"} if gzipped else {})}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def children(self) -> list[int]:
        """Return its running child processes: its workers, without processes that make a report."""
        assert self.process is not None
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():  # each thread lists its own children
            with suppress(OSError):  # one that has ended
                found += map(int, (task / "children").read_text().split())
        return [one for one in found if b"own_process" not in _command_of(one)]

    def resident(self, key: str = "VmRSS") -> int:
        """Return its resident memory in bytes; with `VmHWM` the highest so far."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition(f"{key}:")[2].split()[0]) * 1024

    def terminate(self, seconds: float = 10.0) -> int:
        """Send SIGTERM and return its exit status. Fails if it takes longer than `seconds` times `PATIENCE`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds * PATIENCE)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


def assert_balanced(samples: dict[str, list[tuple[dict[str, str], float]]]) -> float:
    """Check that the ledger of one scrape balances, for every app, source and evaluator. Return the traces received."""

    def by(name: str, *keys: str) -> dict[tuple[str, ...], float]:
        sums: dict[tuple[str, ...], float] = defaultdict(float)
        for labels, value in samples.get(name, ()):
            sums[tuple(labels[key] for key in keys)] += value
        return sums

    received = by("ragmonitor_traces_received_total", "app", "source")
    ended, pending = by("ragmonitor_traces_total", "app", "source"), by("ragmonitor_traces_pending", "app", "source")
    for key, number in received.items():
        assert number == ended[key] + pending[key], (
            f"traces of {key}: {number} received, {ended[key]} ended, {pending[key]} pending"
        )
        assert pending[key] >= 0
    found, waiting = (
        by("ragmonitor_requests_found_total", "app", "source"),
        by("ragmonitor_requests_pending", "app", "source"),
    )
    done = by("ragmonitor_requests_total", "app", "source")
    for key, number in found.items():
        assert number == done[key] + waiting[key], (
            f"requests of {key}: {number} found, {done[key]} ended, {waiting[key]} pending"
        )
        assert waiting[key] >= 0
    parts = [
        by(name, "app", "evaluator")
        for name in (
            "ragmonitor_evaluations_total",
            "ragmonitor_ranking_evaluations_total",
            "ragmonitor_late_evaluations_total",
            "ragmonitor_user_disliked_evaluations_total",
            "ragmonitor_non_production_evaluations_total",
            "ragmonitor_unscored_total",
            "ragmonitor_skipped_total",
            "ragmonitor_evaluations_pending",
        )
    ]
    for key, number in by("ragmonitor_evaluations_selected_total", "app", "evaluator").items():
        assert number == sum(part[key] for part in parts), (
            f"evaluations of {key}: {number} selected, {[part[key] for part in parts]}"
        )
    return sum(received.values())


def _command_of(process: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
