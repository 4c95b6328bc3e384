"""A receiver under test: a scripted intake, requests to send, a receiver in a thread or a process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, Self

import anyio
from anyio.from_thread import start_blocking_portal
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.clock import SystemClock
from monitor.model.span import SpanBatch
from monitor.stages import Accepted, Runtime, Source
from monitor.transport.otlp import wire
from tests.support.runtime import runtime as make_runtime


class ScriptedIntake:
    """Records accepted batches. First, each call does the next step of the script: an answer, or an exception.

    `always` is a step for every call after the script; a function among the steps is called for the answer.
    """

    def __init__(self, *script: Any, always: Any = Accepted()) -> None:  # noqa: B008 - a frozen value
        self.batches: list[SpanBatch] = []
        self.calls = 0
        self._script = list(script)
        self._always = always

    def drops(self, trace_id: bytes) -> bool:
        return False

    async def accept(self, batch: SpanBatch) -> Accepted:
        self.calls += 1
        step = self._script.pop(0) if self._script else self._always
        if callable(step):
            step = step(batch)
            if asyncio.iscoroutine(step):
                step = await step
        if isinstance(step, Exception):
            raise step
        self.batches.append(batch)
        return step

    @property
    def items(self) -> list[bytes]:
        """Return all accepted spans or log records, encoded."""
        return [item for batch in self.batches for group in batch.groups for item in group.items]

    @property
    def spans(self) -> list[wire.SpanProto]:
        return [wire.SpanProto.FromString(item) for item in self.items]


class Serving:
    """A running receiver: its address, its intake and its runtime."""

    def __init__(self, address: str, intake: ScriptedIntake, runtime: Runtime) -> None:
        self.address = address
        self.intake = intake
        self.runtime = runtime
        self.port = int(address.rpartition(":")[2])

    def url(self, path: str = "/v1/traces") -> str:
        return f"http://{self.address}{path}"


@contextlib.contextmanager
def serving(
    source: Source, intake: ScriptedIntake | None = None, runtime: Runtime | None = None, *, uvloop: bool = False
) -> Iterator[Serving]:
    """Run `source` in a separate thread, until the block ends. Raises what `run` raises."""
    taking = intake if intake is not None else ScriptedIntake()
    lent = runtime if runtime is not None else make_runtime(SystemClock())

    async def run(*, task_status: anyio.abc.TaskStatus[str]) -> None:
        await source.run(taking, lent, task_status.started)

    with start_blocking_portal("asyncio", {"use_uvloop": uvloop}) as portal:
        running, address = portal.start_task(run)
        try:
            yield Serving(address, taking, lent)
        finally:
            running.cancel()
            with contextlib.suppress(CancelledError):
                running.result(10)


def span_request(count: int = 1, **fields: Any) -> ExportTraceServiceRequest:
    """Return a request with `count` valid spans of one trace each; `fields` are set on every span."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for index in range(count):
        span = spans.add(trace_id=(index + 1).to_bytes(16, "big"), span_id=(index + 1).to_bytes(8, "big"), name="a")
        for name, value in fields.items():
            setattr(span, name, value)
    return request


def log_request(count: int = 1) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for index in range(count):
        records.add(trace_id=(index + 1).to_bytes(16, "big"), span_id=(index + 1).to_bytes(8, "big"))
    return request


def length_delimited(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message that contains bytes, a text or a message."""
    length, size = b"", len(content)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def as_otlp_json(request: Any) -> Any:
    """Return the request in OTLP's JSON encoding, by protobuf's own mapping but with ids in hex."""
    data = MessageToDict(request, use_integers_for_enums=True)

    def hex_ids(value: Any) -> None:
        if isinstance(value, list):
            for item in value:
                hex_ids(item)
        elif isinstance(value, dict):
            for key, inner in value.items():
                if key in ("traceId", "spanId", "parentSpanId"):
                    value[key] = base64.b64decode(inner).hex()
                else:
                    hex_ids(inner)

    hex_ids(data)
    return data


class ReceiverProcess:
    """A receiver whose intake accepts everything, in a separate process: to measure memory and processor time."""

    def __init__(self, type_name: str, **options: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.otlp", type_name, json.dumps({"port": 0, **options})],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert self.address, "the receiver did not start"

    def url(self, path: str = "/v1/traces") -> str:
        return f"http://{self.address}{path}"

    @contextlib.contextmanager
    def growth(self) -> Iterator[Callable[[], tuple[int, int]]]:
        """Measure the block: the largest growth of memory in bytes, and the growth that remains afterwards."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")  # resets the peak
        before = self._resident("VmRSS")
        yield lambda: (self._resident("VmHWM") - before, self._resident("VmRSS") - before)

    def _resident(self, key: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition(f"{key}:")[2].split()[0]) * 1024

    def cpu_seconds(self) -> float:
        user, system = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / 100

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class _Everything:
    def drops(self, trace_id: bytes) -> bool:
        return False

    async def accept(self, batch: SpanBatch) -> Accepted:
        return Accepted()


def _main(type_name: str, options: str) -> None:
    module = importlib.import_module(f"monitor.sources.{type_name}")
    made: Source = getattr(module, {"otlp_http": "OtlpHttp", "otlp_grpc": "OtlpGrpc"}[type_name])(**json.loads(options))
    say: Callable[[str], None] = lambda address: print(address, flush=True)  # noqa: E731
    loop_factory = None
    with contextlib.suppress(ImportError):
        loop_factory = importlib.import_module("uvloop").new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(made.run(_Everything(), make_runtime(SystemClock()), say))


if __name__ == "__main__":
    _main(*sys.argv[1:])
