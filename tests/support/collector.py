"""A real OpenTelemetry Collector, built by its own builder: it receives OTLP and writes to Kafka."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import pytest
import yaml

from tests.support import cache
from tests.support.tools import free_port, require, wait_until

_MANIFEST = Path(__file__).parents[1] / "collector" / "builder.yaml"

Encoding = Literal["otlp_proto", "otlp_json"]


class Collector:
    """The Collector in `folder`: listens for OTLP on `grpc` and `http`, and writes to the Kafka at `brokers`.

    Spans go to the topic `spans`, keyed by their trace; log records go to `logs`, keyed likewise if `keyed_logs`.
    `options` are further fields of the Kafka exporter.
    """

    def __init__(
        self,
        folder: Path,
        brokers: str,
        *,
        spans: str = "otlp_spans",
        logs: str = "otlp_logs",
        encoding: Encoding = "otlp_proto",
        keyed_logs: bool = True,
        batch: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self.grpc, self.http = free_port(), free_port()
        self.log = folder / "collector.log"
        self.process: subprocess.Popen[bytes] | None = None
        kafka = {
            "brokers": [brokers],
            "protocol_version": "2.1.0",
            "partition_traces_by_id": True,
            "partition_logs_by_trace_id": keyed_logs,
            "traces": {"topic": spans, "encoding": encoding},
            "logs": {"topic": logs, "encoding": encoding},
            # Its client asks for metadata at most every 5 s, and a topic may be newer than that: by default it gives an
            # attempt up after 5 s, and repeats the whole export, even data that had arrived.
            "timeout": "15s",
            "producer": {"allow_auto_topic_creation": False, "required_acks": -1},
            **(options or {}),
        }
        pipeline = {"receivers": ["otlp"], "processors": ["batch"] if batch else [], "exporters": ["kafka"]}
        protocols = {"grpc": self.grpc, "http": self.http}
        self.config: dict[str, Any] = {
            "receivers": {
                "otlp": {"protocols": {name: {"endpoint": f"127.0.0.1:{at}"} for name, at in protocols.items()}}
            },
            "processors": {"batch": {"timeout": "200ms"}} if batch else {},
            "exporters": {"kafka": kafka},
            "service": {
                "pipelines": {"traces": pipeline, "logs": dict(pipeline)},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }

    def start(self) -> Self:
        """Start it, and return when it accepts OTLP; Kafka need not run yet."""
        program = _program()
        self.folder.mkdir(parents=True, exist_ok=True)
        path, variables = self._written()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [program, f"--config={path}"], env=os.environ | variables, stdout=log, stderr=log
            )
        try:
            wait_until(self._listens, 30, "the Collector's readiness")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self, seconds: float = 20.0) -> None:
        """Stop it in order, so that it sends its queued data; by force after `seconds`."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def _written(self) -> tuple[Path, dict[str, str]]:
        """Return its configuration file, and the variables that the file names."""
        path = self.folder / "collector.yaml"
        path.write_text(yaml.safe_dump(self.config))
        return path, {}

    def _listens(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            pytest.fail(f"the Collector ended with {self.process.returncode}:\n{self.log.read_text()[-3000:]}")
        try:
            for port in (self.grpc, self.http):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class DeployedCollector(Collector):
    """The Collector with an unchanged file of `deploy/otel-collector`, and `variables` for those that it names."""

    def __init__(self, folder: Path, file: Path, **variables: str) -> None:
        super().__init__(folder, "")
        self._file, self._variables = file, variables

    def _written(self) -> tuple[Path, dict[str, str]]:
        ports = {"OTLP_GRPC": f"127.0.0.1:{self.grpc}", "OTLP_HTTP": f"127.0.0.1:{self.http}"}
        return self._file, ports | self._variables


def validate(file: Path) -> subprocess.CompletedProcess[str]:
    """Have the Collector validate a configuration; the caller checks the exit status."""
    command = [_program(), "validate", f"--config={file}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def _program() -> Path:
    def make(folder: Path) -> None:
        go = require("go")
        shutil.copy(_MANIFEST, folder)
        (version,) = set(re.findall(r"gomod: \S+ (v\S+)", _MANIFEST.read_text()))
        builder = f"go.opentelemetry.io/collector/cmd/builder@{version}"
        cache.run("the OpenTelemetry Collector", [go, "run", builder, "--config", _MANIFEST.name], cwd=folder)

    return cache.made_once("collector", _MANIFEST, make) / "build" / "collector"
