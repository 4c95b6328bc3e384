"""The test traffic for Kafka is what it says: whole traces that the monitor reads, and poison that nothing reads."""

from __future__ import annotations

import json
import random

import pytest

from monitor.errors import InvalidData
from monitor.extraction import rows
from monitor.transport.otlp import json_mapping, wire
from tests.support import kafka_traces


def read(encoding, message):
    if encoding == "case":
        return rows.take(message)
    return wire.split(message if encoding == "otlp_proto" else json_mapping.to_protobuf("traces", message))


@pytest.mark.parametrize("encoding", ["otlp_proto", "otlp_json"])
def test_a_trace_is_six_spans_that_the_monitor_reads(encoding):
    id_ = kafka_traces.trace_id(1, 7)
    (group,) = read(encoding, kafka_traces.encoded(kafka_traces.rag_trace(id_), encoding))
    assert len(group.items) == 6
    assert {wire.trace_id_of(item).hex() for item in group.items} == {id_}


def test_parts_hold_every_span_once_and_the_root_comes_last():
    whole = kafka_traces.rag_trace(kafka_traces.trace_id(1, 1))
    parts = kafka_traces.in_parts(whole, 3)
    spans = [list(part.resource_spans[0].scope_spans[0].spans) for part in parts]
    assert sorted(span.span_id for part in spans for span in part) == sorted(
        span.span_id for span in whole.resource_spans[0].scope_spans[0].spans
    )
    assert [any(not span.parent_span_id for span in part) for part in spans] == [False, False, True]


def test_a_row_is_read():
    assert len(read("case", json.dumps(kafka_traces.row("a")).encode()).rows) == 1


@pytest.mark.parametrize("kind", kafka_traces.UNREADABLE)
@pytest.mark.parametrize("encoding", ["otlp_proto", "otlp_json"])
def test_poison_cannot_be_read_as_spans(encoding, kind):
    message = kafka_traces.poison(kind, encoding, random.Random(3))
    with pytest.raises(InvalidData):
        read(encoding, message)


@pytest.mark.parametrize("kind", kafka_traces.UNREADABLE)
def test_poison_holds_no_row(kind):
    try:
        taken = read("case", kafka_traces.poison(kind, "case", random.Random(3)))
    except InvalidData:
        return
    assert taken.faults
    assert not taken.rows


def test_the_same_seed_gives_the_same_traffic():
    made = [kafka_traces.poison("random", "otlp_proto", random.Random(5)) for _ in range(2)]
    assert made[0] == made[1]
    assert kafka_traces.trace_id(5, 1) == kafka_traces.trace_id(5, 1) != kafka_traces.trace_id(5, 2)
