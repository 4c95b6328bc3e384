"""The source `kafka` at work on a broker, for tests: run in a task and observed from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.clock import SystemClock
from monitor.sources.kafka import KafkaSource
from monitor.stages import Runtime
from tests.support.intakes import RecordingIntake
from tests.support.kafka import Broker
from tests.support.runtime import runtime as made_runtime
from tests.support.tools import until


def export(trace: int) -> bytes:
    """Return a request with one span of the trace with this number."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.spans.add(trace_id=trace.to_bytes(16), span_id=bytes(7) + b"\1", name="answer")
    return request.SerializeToString()


def key(trace: int) -> bytes:
    """Return the key of a trace as the Collector writes it."""
    return b"%032x" % trace


class Record(NamedTuple):
    """A message as kafka-python delivers it."""

    topic: str
    partition: int
    offset: int
    value: bytes | None
    key: bytes | None = None
    timestamp: int = 1_000
    headers: Sequence[tuple[str, bytes]] = ()

    @property
    def serialized_value_size(self) -> int:
        return -1 if self.value is None else len(self.value)


class Running:
    """A source at work."""

    def __init__(self, intake: RecordingIntake, runtime: Runtime) -> None:
        self.intake, self.runtime = intake, runtime
        self.address = ""
        self.stop = anyio.Event()
        self.stopped = anyio.Event()

    def listening(self, address: str) -> None:
        self.address = address


@asynccontextmanager
async def reading(broker: Broker, intake: RecordingIntake, **options: Any) -> AsyncIterator[Running]:
    """Run the source while the context lasts; it is ready at the start unless `ready=False`."""
    ready = options.pop("ready", True)
    made = made_runtime(SystemClock())
    source = KafkaSource.model_validate({"brokers": broker.address, "session_timeout": "6s", **options})
    running = Running(intake, made)
    async with anyio.create_task_group() as work:

        async def run() -> None:
            async with anyio.create_task_group() as own:
                own.start_soon(source.run, intake, made, running.listening)
                await running.stop.wait()
                own.cancel_scope.cancel()
            running.stopped.set()

        work.start_soon(run)
        if ready:
            await until(lambda: running.address, "readiness of the source", 30)
        yield running
        running.stop.set()


def produce(broker: Broker, topic: str, messages: Iterable[tuple[bytes | None, bytes | None]], **options: Any) -> None:
    """Write messages (key, value) and wait for their acknowledgement; with `partition`, to that one."""
    from kafka import KafkaProducer

    partition = options.pop("partition", None)
    producer = KafkaProducer(bootstrap_servers=broker.address, **options)
    try:
        for one, value in messages:
            producer.send(topic, value, key=one, partition=partition)
        producer.flush(timeout=120)
    finally:
        producer.close(timeout=120)


def produce_traces(broker: Broker, topic: str, traces: Iterable[int], **options: Any) -> None:
    produce(broker, topic, ((key(one), export(one)) for one in traces), **options)
