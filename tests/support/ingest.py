"""The entry of a pipeline with a real spool and a real assembly, and batches to send there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.clock import Clock, ManualClock
from monitor.model.span import SpanBatch
from monitor.pipeline.assembly import AssemblySettings
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.ingest import Ingest
from monitor.pipeline.ingest.rows import RowIngest
from monitor.pipeline.ingest.spans import SpanIngest
from monitor.pipeline.ledger import Ledger
from monitor.stages import Runtime
from monitor.storage.spool import Spool, open_spool
from monitor.transport.otlp import wire
from tests.support.runtime import runtime, total


def trace_id(number: int, randomness: int = 2**56 - 1) -> bytes:
    return number.to_bytes(9, "big") + randomness.to_bytes(7, "big")


def spans(*ids: bytes, service: str = "shop", state: str = "", children: int = 1, end: int = 0) -> SpanBatch:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    scope = group.scope_spans.add()
    for one in ids:
        for child in range(1 + children):
            parent = b"" if child == 0 else b"\1" * 8
            span = scope.spans.add(trace_id=one, span_id=bytes([child + 1]) * 8, parent_span_id=parent)
            span.trace_state, span.end_time_unix_nano = state, end
    return SpanBatch("otlp_http", "traces", wire.split(request.SerializeToString()))


def records(*ids: bytes, text: str = "gen_ai.user.message") -> SpanBatch:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for one in ids:
        scope.log_records.add(trace_id=one, span_id=b"\1" * 8, event_name=text, time_unix_nano=1)
    return SpanBatch("otlp_http", "logs", wire.split(request.SerializeToString()))


class ScriptedInFlight:
    """Records the rows that it is given; refuses more while `backlog` gives a reason."""

    def __init__(self) -> None:
        self.backlog = ""
        self.rows: list[Any] = []

    def add(self, row: Any) -> None:
        self.rows.append(row)

    def parts_came(self) -> None:
        pass

    def repeated(self, request_id: str, ack: Any) -> None:
        pass


class ScriptedDesk:
    """Records the feedback that it is given."""

    def __init__(self) -> None:
        self.backlog = ""
        self.told: list[Any] = []

    def take(self, verdicts: Any, ack: Any) -> None:
        self.told.extend(verdicts)


class Entrance:
    """An `Ingest` with a real spool and a real assembly."""

    def __init__(self, spool: Spool, lent: Runtime, rate: float, in_hand_limit: int) -> None:
        self.metrics, self.clock, self.spool = lent.metrics, lent.clock, spool
        self.health = lent.health
        self.assembly = Assembly(AssemblySettings(grace_period=1.0, idle_timeout=5.0))
        self.ledger = Ledger(lent.metrics)
        self.in_flight, processor = ScriptedInFlight(), ScriptedDesk()
        self.rows, self.told = self.in_flight.rows, processor.told
        shared: Any = {
            "rate": rate,
            "spool": spool,
            "in_flight": self.in_flight,
            "ledger": self.ledger,
            "runtime": lent,
            "seen_at_most": 2**22,
        }
        spans = SpanIngest(
            sources=["otlp_http"], record_marks=[b"gen_ai"], assembly=self.assembly, processor=processor, **shared
        )
        self.intake = Ingest(
            spans, RowIngest(**shared), processor=processor, in_flight=self.in_flight, spool=spool,
            in_hand_limit=in_hand_limit, runtime=lent,
        )  # fmt: skip

    def balanced(self) -> float:
        received = total(self.metrics, "ragmonitor_traces_received_total")
        ended = total(self.metrics, "ragmonitor_traces_total")
        assert received == ended + total(self.metrics, "ragmonitor_traces_pending")
        assert total(self.metrics, "ragmonitor_requests_found_total") == 0, "nothing is read here"
        return received

    def outcome(self, name: str) -> float:
        return total(self.metrics, "ragmonitor_traces_total", outcome=name)

    def closed(self, after: float = 10.0) -> list[Any]:
        self.clock.advance(after)
        return self.assembly.due(self.clock.monotonic())


@asynccontextmanager
async def ingest(
    tmp_path: Path,
    rate: float = 1.0,
    keep: float = 3600.0,
    clock: Clock | None = None,
    in_hand_limit: int = 2**27,
) -> AsyncIterator[Entrance]:
    lent = runtime(clock or ManualClock())
    async with open_spool(
        tmp_path / "spool.db", at_most=2**20, keep=keep, clock=lent.clock, metrics=lent.metrics, events=lent.events
    ) as spool:
        yield Entrance(spool, lent, rate, in_hand_limit)
