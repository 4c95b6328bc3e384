"""Spans and log records: durable before the sender hears so, sampled by trace, each trace counted in one place."""

from __future__ import annotations

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.clock import ManualClock
from monitor.errors import Overloaded
from monitor.extraction.feedback import telemetry
from monitor.model.ack import Ack
from monitor.model.span import RefusedGroup, SpanBatch
from monitor.model.trace import Closed
from monitor.pipeline.assembly import AssemblySettings
from monitor.pipeline.assembly.traces import Assembly
from monitor.transport.otlp import wire
from tests.support.ingest import ingest, records, spans, trace_id
from tests.support.runtime import total

pytestmark = pytest.mark.anyio


async def test_what_is_kept_is_pending_and_reaches_assembly_with_its_probability(tmp_path):
    async with ingest(tmp_path, rate=0.5) as at:
        accepted = await at.intake.accept(spans(trace_id(1)))
        assert (accepted.rejected, accepted.message) == (0, "")
        assert at.ledger.pending == 1
        (closed,) = at.closed()
        assert (closed.app, closed.source, closed.probability, len(closed.parts)) == ("shop", "otlp_http", 0.5, 2)


async def test_a_trace_of_a_service_without_a_name_is_of_the_unknown_app(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(spans(trace_id(1), service=""))
        (closed,) = at.closed()
        assert closed.app == "unknown"


async def test_a_trace_is_counted_and_assembled_under_the_one_name_that_its_service_has(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(spans(trace_id(1), service=" a\u3000b "))
        (closed,) = at.closed()
        assert closed.app == "a b"
        assert total(at.metrics, "ragmonitor_traces_received_total", app="a b") == 1


async def test_every_outcome_of_spans_and_records_begins_at_0_so_that_the_first_is_an_increase(tmp_path):
    async with ingest(tmp_path) as at:
        both = {"kept", "sampled_out", "duplicate", "late", "invalid", "own_telemetry", "too_large"}
        for name, outcomes in (("spans", both), ("log_records", both | {"unrelated", "external_score"})):
            found = {
                sample.labels["outcome"]: sample.value
                for family in at.metrics.registry.collect()
                for sample in family.samples
                if sample.name == f"ragmonitor_{name}_total"
            }
            assert found == dict.fromkeys(outcomes, 0)


async def test_spans_of_unsampled_traces_are_counted_and_gone(tmp_path):
    async with ingest(tmp_path, rate=0.1) as at:
        await at.intake.accept(spans(trace_id(1, randomness=0), trace_id(2, randomness=1)))
        assert total(at.metrics, "ragmonitor_spans_total", outcome="sampled_out") == 4
        assert at.outcome("sampled_out") == 2
        assert at.balanced() == 2
        assert at.closed() == []
        assert total(at.metrics, "ragmonitor_spool_records") == 0


async def test_a_trace_split_over_requests_is_one_trace_in_the_ledger(tmp_path):
    async with ingest(tmp_path, rate=0.5) as at:
        for _ in range(3):
            await at.intake.accept(spans(trace_id(1, randomness=0), trace_id(2)))
        assert at.outcome("sampled_out") == 1
        assert at.balanced() == 2
        assert total(at.metrics, "ragmonitor_spans_total", outcome="duplicate") == 4


async def test_an_upstream_sampler_s_probability_is_honoured_and_multiplied_in(tmp_path):
    async with ingest(tmp_path, rate=0.5) as at:
        await at.intake.accept(spans(trace_id(1), state="ot=th:c"))  # kept upstream with probability 1/4
        (closed,) = at.closed()
        assert closed.probability == pytest.approx(0.125)


async def test_spans_without_a_trace_id_are_rejected_and_counted_and_the_rest_is_kept(tmp_path):
    async with ingest(tmp_path) as at:
        accepted = await at.intake.accept(spans(trace_id(1), b"short", children=0))
        assert accepted.rejected == 1
        assert "16 bytes" in accepted.message
        assert at.outcome("invalid") == 1
        assert at.balanced() == 2


async def test_our_own_spans_are_never_taken_in(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(spans(trace_id(1), service="rag-monitor"))
        assert at.outcome("own_telemetry") == 1
        assert at.balanced() == 1
        assert at.closed() == []


async def test_a_log_record_follows_its_trace_and_ordinary_logs_and_verdicts_are_left_out(tmp_path):
    async with ingest(tmp_path, rate=0.5) as at:
        await at.intake.accept(records(trace_id(1), trace_id(2, randomness=0)))
        await at.intake.accept(records(trace_id(1), text="user logged in"))
        await at.intake.accept(records(trace_id(1), text="gen_ai.evaluation.result"))
        counted = {
            outcome: total(at.metrics, "ragmonitor_log_records_total", outcome=outcome)
            for outcome in ("kept", "sampled_out", "unrelated", "external_score")
        }
        assert counted == {"kept": 1, "sampled_out": 1, "unrelated": 1, "external_score": 1}


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
    async with ingest(tmp_path, rate=0.5) as at:
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
        assert total(at.metrics, "ragmonitor_spans_total", outcome="late") == 3
        assert (at.balanced(), at.assembly.open_traces) == (1, 0)


async def test_no_span_of_an_open_trace_is_looked_at_for_verdicts(tmp_path, monkeypatch):
    monkeypatch.setattr(telemetry, "of_late", lambda *_: pytest.fail("a span was looked at"))
    async with ingest(tmp_path) as at:
        await at.intake.accept(one_span(trace_id(1), 7, "tone"))
        await at.intake.accept(one_span(trace_id(1), 7, "tone"))  # a duplicate
        at.closed()
        await at.intake.accept(one_span(trace_id(1), 7, "tone"))
        assert total(at.metrics, "ragmonitor_spans_total", outcome="duplicate") == 2


async def test_a_backlog_is_refused_before_anything_is_taken_or_counted(tmp_path):
    async with ingest(tmp_path) as at:
        at.in_flight.backlog = "evaluation is behind"
        with pytest.raises(Overloaded, match="behind"):
            await at.intake.accept(spans(trace_id(1)))
        assert at.balanced() == 0


async def test_what_a_crash_left_in_the_spool_is_taken_up_with_its_probability_whatever_the_rate_is_now(tmp_path):
    async with ingest(tmp_path, rate=0.5) as at:
        await at.intake.accept(spans(trace_id(1)))
    async with ingest(tmp_path, rate=0.01) as at:
        assert await at.intake.recover() == 1
        (closed,) = at.closed()
        assert closed.probability == 0.5
        assert at.balanced() == 1


async def test_what_is_done_is_not_taken_up_again(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(spans(trace_id(1), trace_id(2)))
        for closed in at.closed():
            for ack in closed.acks:
                ack.settle()
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 0


async def test_what_waited_for_too_long_is_shed_and_counted(tmp_path):
    clock = ManualClock()
    async with ingest(tmp_path, clock=clock) as at:
        await at.intake.accept(spans(trace_id(1)))
    clock.advance(7200)
    async with ingest(tmp_path, clock=clock) as at:
        await at.intake.recover()
        assert at.outcome("expired") == 1
        assert at.balanced() == 1


@pytest.mark.parametrize("part", ["resource", "scope"])
@pytest.mark.parametrize("signal", ["traces", "logs"])
async def test_what_can_never_be_decoded_is_refused_at_the_door_and_the_rest_is_kept(tmp_path, part, signal):
    """Once we have said OK it must be readable: a resource or scope with broken text spoils only its own group."""
    async with ingest(tmp_path) as made:
        batch = spans(trace_id(1), children=0) if signal == "traces" else records(trace_id(1))
        broken = [group._replace(**{part: b"\x0a\x03\x0a\x01\xff\xff"}) for group in batch.groups]
        whole = (spans(trace_id(2), children=0) if signal == "traces" else records(trace_id(2))).groups
        accepted = await made.intake.accept(SpanBatch("otlp_http", signal, [*broken, *whole]))
        assert accepted.rejected == 1
        assert part in accepted.message
        lost, kept = sorted(made.closed(), key=lambda one: one.trace_id)
        assert (lost.parts, lost.refused) == ((), ((signal, "that cannot be read", 1),))
        assert (len(kept.parts), kept.refused) == (1, ())
        assert made.balanced() == 2


LARGE = "larger than max_span_bytes"


def without(batch: SpanBatch, *numbers: int, taken: bool = True) -> SpanBatch:
    """`batch` with its spans of these numbers refused for their size, and the others taken or not there at all."""
    (group,) = batch.groups
    refused = [group.items[number] for number in numbers]
    items = [item for item in group.items if item not in refused] if taken else []
    return replace(
        batch,
        groups=[group._replace(items=items)],
        refused=[RefusedGroup(group.resource, group.scope, refused, LARGE)],
    )


async def test_a_trace_lacks_what_its_source_has_refused_in_whichever_delivery(tmp_path):
    async with ingest(tmp_path) as at:
        whole = [spans(trace_id(number), end=1) for number in range(1, 5)]
        await at.intake.accept(without(whole[0], 1))  # in the same
        await at.intake.accept(without(whole[1], 1, taken=False))  # before
        await at.intake.accept(whole[1])
        await at.intake.accept(whole[2])  # after
        await at.intake.accept(without(whole[2], 0, 1, taken=False))
        await at.intake.accept(whole[3])
        found = sorted(at.closed(), key=lambda one: one.trace_id)
        assert [one.refused for one in found] == [
            (("traces", LARGE, 1),), (("traces", LARGE, 1),), (("traces", LARGE, 2),), (),
        ]  # fmt: skip
        assert [one.app for one in found] == ["shop"] * 4
        assert at.balanced() == 4


async def test_a_trace_of_which_all_is_refused_waits_for_the_rest_and_ends_once(tmp_path):
    async with ingest(tmp_path, rate=0.5) as at:
        batch = spans(trace_id(1), trace_id(2, randomness=0), children=0)
        await at.intake.accept(without(batch, 0, 1, taken=False))
        (closed,) = at.closed()
        assert (closed.parts, closed.closed, closed.probability) == ((), Closed.IDLE, 0.5)
        assert at.balanced() == 1
        await at.intake.accept(without(batch, 0, taken=False))
        assert at.closed() == [], "it is late"
        assert at.balanced() == 1


async def test_what_was_refused_is_known_after_a_crash(tmp_path):
    async with ingest(tmp_path) as at:
        await at.intake.accept(without(spans(trace_id(1), end=1), 1))
        await at.intake.accept(without(spans(trace_id(2)), 1, taken=False))
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 2
        found = sorted(at.closed(), key=lambda one: one.trace_id)
        assert [(len(one.parts), one.refused) for one in found] == [
            (1, (("traces", LARGE, 1),)), (0, (("traces", LARGE, 1),)),
        ]  # fmt: skip
        assert at.balanced() == 2
        for ack in (ack for one in found for ack in one.acks):
            ack.settle()
    async with ingest(tmp_path) as at:
        assert await at.intake.recover() == 0


async def test_a_delivery_of_which_all_was_refused_is_held_until_its_trace_has_ended(tmp_path):
    settled = []
    async with ingest(tmp_path) as at:
        ack = Ack(lambda: settled.append(1))
        await at.intake.accept(replace(without(spans(trace_id(1)), 0, 1, taken=False), ack=ack))
        (closed,) = at.closed()
        assert settled == []
        for one in closed.acks:
            one.settle()
        assert settled == [1]


async def test_while_open_traces_have_little_room_none_is_opened_for_what_was_refused_alone(tmp_path):
    async with ingest(tmp_path) as at:
        at.assembly = at.intake._spans._assembly = Assembly(AssemblySettings(max_open_bytes=4_000))
        await at.intake.accept(spans(trace_id(1)))
        assert at.assembly.crowded
        for _ in range(2):
            await at.intake.accept(without(spans(trace_id(2)), 0, 1, taken=False))
        assert (at.assembly.open_traces, at.outcome("invalid")) == (1, 1)
        await at.intake.accept(without(spans(trace_id(1)), 1, taken=False))
        (closed,) = at.closed(after=1e6)
        assert closed.refused == (("traces", LARGE, 1),)
        assert at.balanced() == 2


async def test_what_was_refused_of_traces_that_waited_too_long_is_shed_with_them(tmp_path):
    clock = ManualClock()
    async with ingest(tmp_path, clock=clock) as at:
        await at.intake.accept(without(spans(trace_id(1), trace_id(2), children=0), 1))
    clock.advance(7200)
    async with ingest(tmp_path, clock=clock) as at:
        await at.intake.recover()
        assert at.outcome("expired") == at.balanced() == 2


async def test_what_is_refused_of_very_many_traces_is_noted_of_each(tmp_path):
    async with ingest(tmp_path) as at:
        batch = spans(*map(trace_id, range(1, 701)), children=0)
        await at.intake.accept(without(batch, *range(0, 700, 2)))
        assert sum(bool(one.refused) for one in at.closed()) == 350
        assert at.balanced() == 700


async def test_complete_traces_in_hand_count_until_their_acks_are_settled(tmp_path):
    async with ingest(tmp_path, in_hand_limit=1_000) as at:
        await at.intake.accept(spans(trace_id(1)))
        assert at.intake.refusing() == ""
        (closed,) = at.closed()
        assert "bytes of complete requests wait" in at.intake.refusing()
        with pytest.raises(Overloaded, match="evaluation is behind"):
            await at.intake.accept(spans(trace_id(2)))
        for ack in closed.acks:
            ack.settle()
        assert at.assembly.in_hand_bytes == 0
        await at.intake.accept(spans(trace_id(2)))


async def test_short_memory_refuses_spans(tmp_path):
    async with ingest(tmp_path) as at:
        at.health.short_of_memory = "memory: 9 bytes of 10 are in use"
        with pytest.raises(Overloaded, match="memory"):
            await at.intake.accept(spans(trace_id(1)))
        at.health.short_of_memory = ""
        await at.intake.accept(spans(trace_id(1)))


async def test_memory_is_looked_at_when_spans_come(tmp_path):
    async with ingest(tmp_path) as at:
        came: list[int] = []
        at.health.arrives = lambda: came.append(1)
        await at.intake.accept(spans(trace_id(1)))
        assert came


async def test_open_traces_that_nearly_fill_their_memory_refuse_new_spans(tmp_path):
    async with ingest(tmp_path) as at:
        at.assembly = at.intake._spans._assembly = Assembly(AssemblySettings(max_open_bytes=1_000_000))
        taken = 0
        while not at.intake.refusing():
            taken += 1
            await at.intake.accept(spans(trace_id(taken)))
        assert taken > 200
        assert at.assembly.open_traces == taken, "small traces are not closed early"
        with pytest.raises(Overloaded, match="open traces use nearly all"):
            await at.intake.accept(spans(trace_id(taken + 1)))


async def test_others_have_their_turn_between_the_traces_of_a_large_delivery_and_the_ledger_balances_at_each(tmp_path):
    async with ingest(tmp_path) as at:
        seen = set()

        async def look() -> None:
            while True:
                seen.add(at.balanced())
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as beside:
            beside.start_soon(look)
            await at.intake.accept(spans(*map(trace_id, range(1, 1001)), children=0))
            beside.cancel_scope.cancel()
        assert at.balanced() == 1000
        assert len(seen - {0, 1000}) >= 3
        assert len(at.closed()) == 1000


async def test_a_large_delivery_that_is_in_the_spool_is_taken_whole_even_if_its_sender_has_gone(tmp_path):
    async with ingest(tmp_path) as at:
        with anyio.CancelScope() as sender:

            async def go_in_the_middle() -> None:
                while not 0 < at.ledger.pending < 1000:
                    await anyio.lowlevel.checkpoint()
                sender.cancel()

            async with anyio.create_task_group() as beside:
                beside.start_soon(go_in_the_middle)
                await at.intake.accept(spans(*map(trace_id, range(1, 1001)), children=0))
        assert sender.cancel_called
        assert at.balanced() == 1000
