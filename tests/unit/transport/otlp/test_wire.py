from __future__ import annotations

import contextlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from monitor.errors import InvalidData
from monitor.model.span import EncodedGroup, Signal
from monitor.transport.otlp import wire

TRACE_ID = bytes(range(1, 17))
SPAN_ID = bytes(range(1, 9))

spans = st.builds(
    Span,
    trace_id=st.binary(min_size=16, max_size=16).filter(any),
    span_id=st.binary(min_size=8, max_size=8).filter(any),
    parent_span_id=st.one_of(st.just(b""), st.binary(min_size=8, max_size=8)),
    trace_state=st.text(max_size=40),
    name=st.text(max_size=20),
    end_time_unix_nano=st.integers(0, 2**63),
    flags=st.sampled_from([0, 1, 0x100, 0x300, 0x301]),
)


def request_of(found: list[Span]) -> bytes:
    request = ExportTraceServiceRequest()
    for index, span in enumerate(found):
        group = request.resource_spans.add()
        group.resource.attributes.add(key="n").value.int_value = index
        group.scope_spans.add().spans.append(span)
    return request.SerializeToString()


@given(st.lists(spans, max_size=5))
def test_cutting_a_request_and_joining_it_again_loses_nothing(found):
    body = request_of(found)
    cut = wire.split(body)
    assert [item for group in cut for item in group.items] == [span.SerializeToString() for span in found]
    assert ExportTraceServiceRequest.FromString(wire.join(cut)) == ExportTraceServiceRequest.FromString(body)


@given(spans)
def test_ids_and_tracestate_are_read_off_the_raw_bytes_as_a_parser_reads_them(span):
    raw = span.SerializeToString()
    assert wire.trace_id_of(raw) == span.trace_id
    assert wire.trace_state_of(raw) == span.trace_state
    part = wire.span_part(raw, b"r", b"s")
    assert (part.span_id, part.parent_id, part.ended_ns) == (span.span_id, span.parent_span_id, span.end_time_unix_nano)
    assert part.is_root == (not any(span.parent_span_id) or span.flags & 0x300 == 0x300)


@given(spans)
def test_an_exporter_that_writes_its_fields_in_another_order_is_read_the_same(span):
    shuffled = Span(name="first").SerializeToString() + span.SerializeToString()
    assert wire.trace_id_of(shuffled) == span.trace_id
    assert wire.trace_state_of(shuffled) == span.trace_state


@given(spans)
def test_the_quick_look_reads_a_trace_id_only_where_there_is_no_tracestate(span):
    raw = span.SerializeToString()
    assert wire.plain_trace_id_of(raw) == (b"" if span.trace_state else span.trace_id)
    assert wire.plain_trace_id_of(raw) in (b"", raw[2:18])
    assert wire.plain_trace_id_of(Span(name="first").SerializeToString() + raw) == b""


@given(st.binary(max_size=30))
def test_the_quick_look_at_hostile_bytes_agrees_with_the_full_one(noise):
    for raw in (noise, wire.beginning(TRACE_ID) + noise, wire.beginning(bytes(16)) + noise, b"\x0a\x10" + noise):
        quick = wire.plain_trace_id_of(raw)
        assert not quick or (quick, "") == (wire.trace_id_of(raw), wire.trace_state_of(raw))


@given(st.binary(max_size=300))
def test_random_bytes_are_invalid_data_or_readable_and_never_a_crash(noise):
    wire.plain_trace_id_of(noise)
    wire.trace_id_of(noise)
    wire.trace_state_of(noise)
    for read in (wire.split, lambda b: wire.span_part(b, b"", b""), lambda b: wire.record_part(b, b"", b"")):
        with contextlib.suppress(InvalidData):
            read(noise)


@pytest.mark.parametrize("trace_id", [b"", b"\0" * 16, b"short", b"x" * 17])
def test_a_trace_id_of_wrong_length_or_all_zero_is_no_trace_id(trace_id):
    assert wire.trace_id_of(Span(trace_id=trace_id, span_id=SPAN_ID).SerializeToString()) == b""


@pytest.mark.parametrize("span_id", [b"", b"\0" * 8, b"short", b"x" * 9])
def test_a_span_id_of_wrong_length_or_all_zero_is_invalid(span_id):
    with pytest.raises(InvalidData, match="8 bytes"):
        wire.span_part(Span(trace_id=TRACE_ID, span_id=span_id).SerializeToString(), b"", b"")


def test_a_log_record_without_a_trace_belongs_to_none():
    trace_id, _ = wire.record_part(LogRecord(event_name="x").SerializeToString(), b"", b"")
    assert trace_id == b""


def test_a_log_record_is_timed_by_when_it_was_observed_where_it_has_no_time_of_its_own():
    record = LogRecord(trace_id=TRACE_ID, observed_time_unix_nano=7)
    assert wire.record_part(record.SerializeToString(), b"", b"")[1].ended_ns == 7


def test_the_scopes_of_a_resource_share_one_copy_of_it_cut_and_joined() -> None:
    """Else a megabyte of resource with ten thousand scopes would be ten gigabytes."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="k").value.string_value = "x" * 100_000
    for number in range(50):
        group.scope_spans.add().spans.add(trace_id=TRACE_ID, span_id=SPAN_ID, name=str(number))
    body = request.SerializeToString()
    groups = wire.split(body)
    assert len({id(one.resource) for one in groups}) == 1
    joined = wire.join(groups)
    assert len(joined) < len(body) + 1_000
    assert wire.split(joined) == groups


def broken(span: Span) -> bytes:
    """A span of which no text is UTF-8."""
    return span.SerializeToString().replace(b"BROKEN", b"\xed\xa0\xbdKEN")


def test_the_trace_of_what_cannot_be_decoded_is_known() -> None:
    span = Span(trace_id=TRACE_ID, span_id=SPAN_ID, trace_state="ot=th:8", name="BROKEN")
    plain = Span(trace_id=TRACE_ID, span_id=SPAN_ID, name="BROKEN")
    record = LogRecord(trace_id=TRACE_ID, span_id=SPAN_ID, event_name="BROKEN")
    assert wire.ids_of_refused("traces", broken(span)) == (TRACE_ID, "ot=th:8")
    assert wire.ids_of_refused("traces", broken(plain)) == (TRACE_ID, "")
    assert wire.ids_of_refused("logs", broken(record)) == (TRACE_ID, "")
    turned = broken(Span(name="BROKEN")) + Span(trace_id=TRACE_ID).SerializeToString()
    assert wire.trace_id_of(turned) == TRACE_ID
    assert wire.ids_of_refused("traces", broken(plain) + b"\x0a") == (TRACE_ID, ""), "its beginning is enough"


@pytest.mark.parametrize("trace_id", [b"", b"short", bytes(16), b"x" * 17])
def test_what_has_no_trace_id_is_of_no_trace(trace_id: bytes) -> None:
    for signal, item in (("traces", Span(trace_id=trace_id)), ("logs", LogRecord(trace_id=trace_id))):
        assert wire.ids_of_refused(signal, item.SerializeToString()) == (b"", "")


@given(st.binary(max_size=60), st.sampled_from(["traces", "logs"]))
def test_of_any_bytes_the_trace_is_told_or_none(noise: bytes, signal: Signal) -> None:
    trace_id, _ = wire.ids_of_refused(signal, noise)
    assert len(trace_id) in (0, 16)


def test_spans_left_out_of_a_file_are_counted_by_trace() -> None:
    whole = Span(trace_id=TRACE_ID, span_id=SPAN_ID)
    group = EncodedGroup(
        b"", b"", [whole.SerializeToString(), broken(Span(trace_id=TRACE_ID, span_id=SPAN_ID, name="BROKEN"))]
    )
    refused = Counter[bytes]()
    assert len(wire.offline_parts("traces", [group], refused)) == 1
    assert refused == {TRACE_ID: 1}
