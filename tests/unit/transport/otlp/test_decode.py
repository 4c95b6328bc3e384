"""Encoded parts become one trace, the same for every order and repetition."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from monitor.errors import InvalidData
from monitor.model.span import Part, SpanLink
from monitor.model.trace import Closed, Trace
from monitor.transport.otlp import wire
from monitor.transport.otlp.decode import MAX_DEPTH, MAX_LINKS, MAX_NUMBERS, SizedCache, decode, service_name
from tests.support.traces import captured_parts

TRACE = bytes(range(16))
RESOURCE = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value="shop"))]).SerializeToString()
SCOPE = InstrumentationScope(name="lib", version="1.2").SerializeToString()


def read(*parts: Part) -> Trace:
    return decode(TRACE, parts, closed=Closed.IDLE, app="a", source="s", probability=0.5, received_at=7.0)


def span_part(span_id: int = 1, start: int = 1, **fields: object) -> Part:
    span = Span(
        trace_id=TRACE,
        span_id=span_id.to_bytes(8, "big"),
        start_time_unix_nano=start,
        end_time_unix_nano=start + 5,
        **fields,  # type: ignore[arg-type]
    )
    return wire.span_part(span.SerializeToString(), RESOURCE, SCOPE)


def record_part(time: int, text: str, observed: int = 0) -> Part:
    record = LogRecord(
        trace_id=TRACE,
        time_unix_nano=time,
        observed_time_unix_nano=observed,
        body=AnyValue(string_value=text),
        event_name="gen_ai.choice",
    )
    return wire.record_part(record.SerializeToString(), RESOURCE, SCOPE)[1]


def attribute(value: AnyValue) -> object:
    return read(span_part(attributes=[KeyValue(key="k", value=value)])).spans[0].attributes["k"]


def test_a_span_keeps_its_first_links_and_of_each_the_ids_that_are_valid() -> None:
    links = [Span.Link(trace_id=TRACE, span_id=b"\1" * 8), Span.Link(trace_id=bytes(16), span_id=b"\1")]
    assert read(span_part(links=links)).spans[0].links == (SpanLink(TRACE.hex(), "01" * 8), SpanLink("", ""))
    assert len(read(span_part(links=links * 100)).spans[0].links) == MAX_LINKS
    assert read(span_part()).spans[0].links == ()


def test_a_span_keeps_what_the_protocol_says_of_it() -> None:
    part = span_part(
        2,
        start=10,
        parent_span_id=b"\0\0\0\0\0\0\0\1",
        name="ask",
        kind=2,
        flags=0x300,
        dropped_attributes_count=3,
        status={"code": 2, "message": "no"},
        events=[Span.Event(name="exception", time_unix_nano=11)],
    )
    span = read(part).spans[0]
    assert (span.span_id, span.parent_id) == ("0000000000000002", "0000000000000001")
    assert (span.name, span.kind, span.start_ns, span.end_ns) == ("ask", 2, 10, 15)
    assert (span.status, span.status_message, span.dropped_attributes, span.is_root) == ("error", "no", 3, True)
    assert [(event.name, event.time_ns) for event in span.events] == [("exception", 11)]
    assert (span.origin.service_name, span.origin.scope_name, span.origin.scope_version) == ("shop", "lib", "1.2")


def test_a_parent_in_this_process_makes_no_root() -> None:
    part = span_part(2, parent_span_id=b"\0\0\0\0\0\0\0\1", flags=0x100)
    assert not read(part).spans[0].is_root


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (AnyValue(string_value=""), ""),
        (AnyValue(string_value="ä"), "ä"),
        (AnyValue(bool_value=False), False),
        (AnyValue(int_value=-3), -3),
        (AnyValue(double_value=0.5), 0.5),
        (AnyValue(bytes_value=b"\xff"), b"\xff"),
        (AnyValue(), None),
        (AnyValue(array_value={"values": []}), []),
        (AnyValue(kvlist_value={"values": [{"key": "x", "value": {"int_value": 1}}]}), {"x": 1}),
    ],
)
def test_every_kind_of_value_becomes_a_python_value(value: AnyValue, wanted: object) -> None:
    assert attribute(value) == wanted


def test_an_embedding_vector_is_shortened_and_a_list_of_texts_is_not() -> None:
    numbers = AnyValue(array_value={"values": [AnyValue(double_value=0.1)] * 1536})
    texts = AnyValue(array_value={"values": [AnyValue(string_value="x")] * 100})
    assert attribute(numbers) == [0.1] * MAX_NUMBERS
    assert attribute(texts) == ["x"] * 100


def test_nesting_beyond_the_limit_reads_as_none() -> None:
    value = AnyValue(int_value=1)
    for _ in range(MAX_DEPTH + 5):
        value = AnyValue(array_value={"values": [value]})
    found, depth = attribute(value), 0
    while isinstance(found, list):
        found, depth = found[0], depth + 1
    assert found is None
    assert depth == MAX_DEPTH


def test_of_two_spans_with_one_id_the_ended_then_the_longer_stands() -> None:
    short, long = span_part(name="x"), span_part(name="x", attributes=[KeyValue(key="k")])
    unended = Span(trace_id=TRACE, span_id=b"\0\0\0\0\0\0\0\1", name="x" * 500).SerializeToString()
    open_part = wire.span_part(unended, RESOURCE, SCOPE)
    for order in ((short, long, open_part), (open_part, long, short)):
        trace = read(*order)
        assert len(trace.spans) == 1
        assert trace.spans[0].attributes == {"k": None}


def test_identical_records_count_once_and_are_sorted_by_time_then_content() -> None:
    parts = [record_part(2, "b"), record_part(2, "a"), record_part(0, "first", observed=1), record_part(2, "b")]
    for order in (parts, parts[::-1]):
        assert [record.body for record in read(*order).records] == ["first", "a", "b"]


def test_the_frame_of_the_trace_is_handed_on() -> None:
    trace = read(span_part())
    assert (trace.trace_id, trace.closed, trace.app, trace.source) == (TRACE.hex(), Closed.IDLE, "a", "s")
    assert (trace.probability, trace.received_at) == (0.5, 7.0)


def test_a_part_that_is_no_protobuf_is_invalid_data() -> None:
    with pytest.raises(InvalidData, match=TRACE.hex()):
        read(span_part()._replace(encoded=b"\xff\xff"))
    with pytest.raises(InvalidData):
        read(span_part()._replace(resource=b"\xff\xff"))


def test_the_service_name_comes_from_the_resource_and_is_empty_where_there_is_none() -> None:
    number = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(int_value=3))]).SerializeToString()
    assert [service_name(raw) for raw in (RESOURCE, b"", b"\xff", number)] == ["shop", "", "", ""]


PARTS = list(next(iter(captured_parts("captures/openai__otel_v2__legacy").values())))


@given(st.randoms(use_true_random=False), st.lists(st.integers(0, len(PARTS) - 1), max_size=8))
def test_order_and_repetition_make_no_difference(shuffler: random.Random, again: list[int]) -> None:
    mixed = PARTS + [PARTS[at] for at in again]
    shuffler.shuffle(mixed)
    assert read(*mixed) == read(*PARTS)


def test_the_spans_of_one_resource_share_its_attributes_however_large_and_however_many_scopes() -> None:
    pairs = [KeyValue(key=str(number), value=AnyValue(string_value="v")) for number in range(20_000)]
    large = Resource(attributes=pairs).SerializeToString()
    parts = []
    for number in range(1, 6):
        scope = InstrumentationScope(name=f"lib {number}").SerializeToString()
        parts.append(span_part(number)._replace(resource=large, scope=scope))
    origins = [one.origin for one in read(*parts).spans]
    assert {one.scope_name for one in origins} == {f"lib {number}" for number in range(1, 6)}
    assert len({id(one.resource) for one in origins}) == 1


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40))))
def test_a_cache_never_holds_more_than_its_bytes(puts: list[tuple[int, int]]) -> None:
    cache: SizedCache[int, int] = SizedCache(1_000)
    held: dict[int, int] = {}
    for key, size in puts:
        assert cache.put(key, size, size) == size
        if size <= 1_000 // 64:
            held[key] = size
        assert cache.bytes <= 1_000
        if size <= 1_000 // 64:
            assert cache.get(key) == size
    assert cache.bytes == sum(size for key, size in held.items() if cache.get(key) is not None)
