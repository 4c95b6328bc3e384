from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.assembly import Assembly, AssemblySettings
from monitor.clock import ManualClock
from monitor.errors import Overloaded
from monitor.model.span import SpanBatch
from monitor.otlp import wire
from monitor.pipeline.door import Door as PipelineDoor
from monitor.pipeline.foreign import late
from monitor.pipeline.intake import TraceIntake
from monitor.pipeline.ledger import Ledger
from monitor.pipeline.row_intake import RowIntake
from monitor.storage.spool import open_spool
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio


def trace_id(number: int, randomness: int = 2**56 - 1) -> bytes:
    return number.to_bytes(9, "big") + randomness.to_bytes(7, "big")


def spans(*ids: bytes, service: str = "shop", state: str = "", children: int = 1) -> SpanBatch:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    scope = group.scope_spans.add()
    for one in ids:
        for child in range(1 + children):
            parent = b"" if child == 0 else b"\1" * 8
            scope.spans.add(trace_id=one, span_id=bytes([child + 1]) * 8, parent_span_id=parent, trace_state=state)
    return SpanBatch("otlp_http", "traces", wire.split(request.SerializeToString()))


def records(*ids: bytes, text: str = "gen_ai.user.message") -> SpanBatch:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for one in ids:
        scope.log_records.add(trace_id=one, span_id=b"\1" * 8, event_name=text, time_unix_nano=1)
    return SpanBatch("otlp_http", "logs", wire.split(request.SerializeToString()))


class Door:
    """An intake with a real spool and a real assembly."""

    def __init__(self, spool, lent, rate):
        self.metrics = lent.metrics
        self.clock = lent.clock
        self.spool = spool
        self.assembly = Assembly(AssemblySettings(grace_period=1.0, idle_timeout=5.0))
        self.full = ""
        self.ledger = Ledger(lent.metrics)
        self.rows, self.told = [], []
        traces = TraceIntake(
            sources=["otlp_http"], rate=rate, record_marks=[b"gen_ai"],
            spool=spool, assembly=self.assembly, ledger=self.ledger, runtime=lent,
            backlog=lambda: self.full, added=lambda: None, repeated=lambda *_: None,
            verdicts=lambda said, _receipt: self.told.extend(said),
        )  # fmt: skip
        rows = RowIntake(
            rate=rate, spool=spool, ledger=self.ledger, runtime=lent,
            backlog=lambda: self.full, complete=self.rows.append, repeated=lambda *_: None,
        )  # fmt: skip
        self.intake = PipelineDoor(traces, rows, spool, lent, lambda: None)

    def balanced(self):
        received = total(self.metrics, "ragmonitor_traces_received_total")
        assert received == total(self.metrics, "ragmonitor_traces_total") + total(
            self.metrics, "ragmonitor_traces_pending"
        )
        return received

    def fate(self, name):
        return total(self.metrics, "ragmonitor_traces_total", fate=name)

    def closed(self, after=10.0):
        self.clock.advance(after)
        return self.assembly.due(self.clock.monotonic())


@asynccontextmanager
async def door(tmp_path, rate=1.0, keep=3600.0, clock=None):
    lent = runtime(clock or ManualClock())
    async with open_spool(
        tmp_path / "spool.db", at_most=2**20, keep=keep, clock=lent.clock, metrics=lent.metrics, events=lent.events
    ) as spool:
        yield Door(spool, lent, rate)


async def test_what_is_kept_is_pending_and_reaches_assembly_with_its_probability(tmp_path):
    async with door(tmp_path, rate=0.5) as at:
        accepted = await at.intake.accept(spans(trace_id(1)))
        assert (accepted.rejected, accepted.message) == (0, "")
        assert at.ledger.pending == 1
        (closed,) = at.closed()
        assert (closed.app, closed.source, closed.probability, len(closed.parts)) == ("shop", "otlp_http", 0.5, 2)


async def test_spans_of_unsampled_traces_are_counted_and_gone(tmp_path):
    async with door(tmp_path, rate=0.1) as at:
        await at.intake.accept(spans(trace_id(1, randomness=0), trace_id(2, randomness=1)))
        assert total(at.metrics, "ragmonitor_spans_total", fate="sampled_out") == 4
        assert at.fate("sampled_out") == 2
        assert at.balanced() == 2
        assert at.closed() == []
        assert total(at.metrics, "ragmonitor_spool_records") == 0


async def test_a_trace_split_over_requests_is_one_trace_in_the_ledger(tmp_path):
    async with door(tmp_path, rate=0.5) as at:
        for _ in range(3):
            await at.intake.accept(spans(trace_id(1, randomness=0), trace_id(2)))
        assert at.fate("sampled_out") == 1
        assert at.balanced() == 2
        assert total(at.metrics, "ragmonitor_spans_total", fate="duplicate") == 4


async def test_an_upstream_sampler_s_probability_is_honoured_and_multiplied_in(tmp_path):
    async with door(tmp_path, rate=0.5) as at:
        await at.intake.accept(spans(trace_id(1), state="ot=th:c"))  # kept upstream with probability 1/4
        (closed,) = at.closed()
        assert closed.probability == pytest.approx(0.125)


async def test_spans_without_a_trace_id_are_rejected_and_counted_and_the_rest_is_kept(tmp_path):
    async with door(tmp_path) as at:
        accepted = await at.intake.accept(spans(trace_id(1), b"short", children=0))
        assert accepted.rejected == 1
        assert "16 bytes" in accepted.message
        assert at.fate("invalid") == 1
        assert at.balanced() == 2


async def test_our_own_spans_are_never_taken_in(tmp_path):
    async with door(tmp_path) as at:
        await at.intake.accept(spans(trace_id(1), service="rag-monitor"))
        assert at.fate("self") == 1
        assert at.balanced() == 1
        assert at.closed() == []


async def test_a_log_record_follows_its_trace_and_ordinary_logs_and_verdicts_are_left_out(tmp_path):
    async with door(tmp_path, rate=0.5) as at:
        await at.intake.accept(records(trace_id(1), trace_id(2, randomness=0)))
        await at.intake.accept(records(trace_id(1), text="user logged in"))
        await at.intake.accept(records(trace_id(1), text="gen_ai.evaluation.result"))
        counted = {
            fate: total(at.metrics, "ragmonitor_log_records_total", fate=fate)
            for fate in ("kept", "sampled_out", "unrelated", "verdict")
        }
        assert counted == {"kept": 1, "sampled_out": 1, "unrelated": 1, "verdict": 1}


def one_span(of: bytes, number: int, *verdicts: str, link: bytes = b"") -> SpanBatch:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=of, span_id=bytes([number]) * 8)
    span.attributes.add(key="openinference.span.kind").value.string_value = "EVALUATOR"
    for place, name in enumerate(verdicts):
        for key, text in (("name", name), ("label", "bad")):
            span.attributes.add(key=f"annotations.{place}.annotation.{key}").value.string_value = text
    if link:
        span.links.add(trace_id=link, span_id=b"\7" * 8)
    return SpanBatch("otlp_http", "traces", wire.split(request.SerializeToString()))


async def test_a_verdict_on_a_late_span_is_told_with_its_probability_and_the_span_stays_late(tmp_path):
    one, other = trace_id(1), trace_id(2)
    async with door(tmp_path, rate=0.5) as at:
        await at.intake.accept(spans(one))
        assert at.told == []
        assert len(at.closed()) == 1
        await at.intake.accept(one_span(one, 7))
        await at.intake.accept(one_span(one, 8, "tone"))
        await at.intake.accept(one_span(one, 9, "pace", link=other))
        assert [(said.evaluator, said.request_id, said.probability) for said in at.told] == [
            ("tone", one.hex(), 0.5),
            ("pace", other.hex(), 0.5),
        ]
        assert total(at.metrics, "ragmonitor_spans_total", fate="late") == 3
        assert (at.balanced(), at.assembly.open_traces) == (1, 0)


async def test_no_span_of_an_open_trace_is_looked_at_for_verdicts(tmp_path, monkeypatch):
    monkeypatch.setattr(late, "read", lambda *_: pytest.fail("a span was looked at"))
    async with door(tmp_path) as at:
        await at.intake.accept(one_span(trace_id(1), 7, "tone"))
        await at.intake.accept(one_span(trace_id(1), 7, "tone"))  # a duplicate
        at.closed()
        await at.intake.accept(one_span(trace_id(1), 7, "tone"))
        assert total(at.metrics, "ragmonitor_spans_total", fate="duplicate") == 2


async def test_a_backlog_is_refused_before_anything_is_taken_or_counted(tmp_path):
    async with door(tmp_path) as at:
        at.full = "evaluation is behind"
        with pytest.raises(Overloaded, match="behind"):
            await at.intake.accept(spans(trace_id(1)))
        assert at.balanced() == 0


async def test_what_a_crash_left_in_the_spool_is_taken_up_with_its_probability_whatever_the_rate_is_now(tmp_path):
    async with door(tmp_path, rate=0.5) as at:
        await at.intake.accept(spans(trace_id(1)))
    async with door(tmp_path, rate=0.01) as at:
        assert await at.intake.recover() == 1
        (closed,) = at.closed()
        assert closed.probability == 0.5
        assert at.balanced() == 1


async def test_what_is_done_is_not_taken_up_again(tmp_path):
    async with door(tmp_path) as at:
        await at.intake.accept(spans(trace_id(1), trace_id(2)))
        for closed in at.closed():
            for receipt in closed.receipts:
                receipt.settle()
    async with door(tmp_path) as at:
        assert await at.intake.recover() == 0


async def test_what_waited_for_too_long_is_shed_and_counted(tmp_path):
    clock = ManualClock()
    async with door(tmp_path, clock=clock) as at:
        await at.intake.accept(spans(trace_id(1)))
    clock.advance(7200)
    async with door(tmp_path, clock=clock) as at:
        await at.intake.recover()
        assert at.fate("shed") == 1
        assert at.balanced() == 1


@pytest.mark.parametrize("part", ["resource", "scope"])
@pytest.mark.parametrize("signal", ["traces", "logs"])
async def test_what_can_never_be_decoded_is_refused_at_the_door_and_the_rest_is_kept(tmp_path, part, signal):
    """Once we have said OK it must be readable: a resource or scope with broken text spoils only its own group."""
    async with door(tmp_path) as made:
        batch = spans(trace_id(1), children=0) if signal == "traces" else records(trace_id(1))
        broken = [group._replace(**{part: b"\x0a\x03\x0a\x01\xff\xff"}) for group in batch.groups]
        whole = (spans(trace_id(2), children=0) if signal == "traces" else records(trace_id(2))).groups
        accepted = await made.intake.accept(SpanBatch("otlp_http", signal, [*broken, *whole]))
        assert accepted.rejected == 1
        assert part in accepted.message
        assert made.assembly.open_traces == 1
        made.balanced()
