"""Which log records pass the door: those that a dialect has marked, in themselves or in their scope."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from monitor import registry
from monitor.errors import InvalidData
from monitor.model.span import RefusedGroup, Signal, SpanBatch
from monitor.pipeline.ingest.head import _SENDERS_BYTES, HeadSampling, RefusedOf, Sorted, from_meta, to_meta
from monitor.statistics import consistent_sampling
from monitor.transport.otlp import json_mapping, wire
from tests.support.otlp import as_otlp_json, span_request
from tests.support.traces import RECORDED

MARKS = (b"gen_ai", b"org.example.ai.Prompts")
ID = bytes(range(16))
CHOSEN = b"a" * 9 + b"\xff" * 7  # at every rate


def sort(request: ExportLogsServiceRequest, marks: tuple[bytes, ...] = MARKS, rate: float = 1.0) -> Sorted:
    batch = SpanBatch("otlp_http", "logs", wire.split(request.SerializeToString()))
    return HeadSampling(lambda _: False, lambda one: one, marks).sort(batch, rate)


def logs(scope: str, *bodies: str, trace_id: bytes = ID) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add().scope_logs.add()
    group.scope.name = scope
    for body in bodies:
        group.log_records.add(trace_id=trace_id, span_id=b"\1" * 8, time_unix_nano=1).body.string_value = body
    return request


def test_all_records_of_a_marked_scope_pass() -> None:
    found = sort(logs("org.example.ai.Prompts", "Prompt:\n[]", "Completion:\n[]"))
    assert (len(found.kept[ID].parts), found.counts) == (2, {})


def test_of_another_scope_only_marked_records_pass() -> None:
    found = sort(logs("org.example.shop.Checkout", "paid", "gen_ai.choice", "shipped"))
    assert (len(found.kept[ID].parts), found.counts) == (1, {"unrelated": 2})


def test_a_verdict_ends_at_the_door_in_a_marked_scope_too() -> None:
    assert sort(logs("org.example.ai.Prompts", "gen_ai.evaluation.result")).counts == {"unrelated": 1}


def test_a_marked_record_without_a_trace_is_of_no_use() -> None:
    assert sort(logs("org.example.ai.Prompts", "Prompt:\n[]", trace_id=b"")).counts == {"unrelated": 1}


def test_marked_records_are_sampled_with_their_trace() -> None:
    assert sort(logs("org.example.ai.Prompts", "Prompt:\n[]"), rate=1e-9).counts == {"sampled_out": 1}


def test_without_dialects_that_read_records_none_passes() -> None:
    assert sort(logs("gen_ai", "gen_ai.choice"), marks=()).counts == {"unrelated": 1}


def test_a_spring_service_gets_its_prompts_through_and_none_of_its_own_lines() -> None:
    marks = tuple(mark for convention in registry.conventions() for mark in convention.record_marks)
    kept = unrelated = told = 0
    for path in sorted((RECORDED / "spring_ai2").glob("*.logs.pb")):
        request = ExportLogsServiceRequest.FromString(path.read_bytes())
        found = sort(request, marks)
        kept += sum(len(entry.parts) for entry in found.kept.values())
        unrelated += found.counts.get("unrelated", 0)
        scopes = (scope for group in request.resource_logs for scope in group.scope_logs)
        told += sum(len(scope.log_records) for scope in scopes if "ObservationHandler" in scope.scope.name)
    assert kept == told > 0
    assert unrelated > 0


def test_senders_that_change_with_every_request_are_not_kept_by_the_thousand() -> None:
    head = HeadSampling(lambda _: False, lambda one: one, MARKS)
    for number in range(200):
        request = logs("org.example.shop", "paid")
        request.resource_logs[0].resource.attributes.add(key="pid").value.string_value = f"{number}" * 20_000
        head.sort(SpanBatch("otlp_http", "logs", wire.split(request.SerializeToString())), 0.0)
    assert head._senders.bytes <= _SENDERS_BYTES


def test_a_delivery_in_json_is_sampled_as_the_same_in_protobuf() -> None:
    request = span_request(300)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.trace_id = hashlib.blake2b(span.trace_id, digest_size=16).digest()
    thinned = json_mapping.to_protobuf(
        "traces",
        json.dumps(as_otlp_json(request)).encode(),
        drops=lambda trace_id: not consistent_sampling.keep(trace_id, "", 0.25)[0],
    )
    one, other = (
        HeadSampling(lambda _: False, lambda one: one, MARKS).sort(SpanBatch("x", "traces", wire.split(body)), 0.25)
        for body in (request.SerializeToString(), thinned)
    )
    assert (one.kept, one.counts, one.dropped) == (other.kept, other.counts, other.dropped)
    assert 30 < len(one.kept) < 130


def test_spans_of_a_dropped_trace_are_told_apart_from_those_of_others_in_any_order() -> None:
    request = span_request(2)
    spans = request.resource_spans[0].scope_spans[0].spans
    spans[0].trace_id, spans[1].trace_id = bytes(9) + bytes(7).replace(b"\0", b"\1"), b"\xff" * 16
    for index in (0, 0, 1, 0, 1):
        spans.add().CopyFrom(spans[index])
    batch = SpanBatch("x", "traces", wire.split(request.SerializeToString()))
    found = HeadSampling(lambda _: False, lambda one: one, MARKS).sort(batch, 0.5)
    assert found.counts == {"sampled_out": 4}
    assert [len(one.parts) for one in found.kept.values()] == [3]


def refuse(signal: Signal, *items: bytes, service: str = "shop", scope: bytes = b"", rate: float = 1.0) -> Sorted:
    resource = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value=service))])
    group = RefusedGroup(resource.SerializeToString(), scope, items, "larger than max_span_bytes")
    batch = SpanBatch("otlp_http", signal, (), refused=[group])
    return HeadSampling(lambda _: False, lambda one: one, MARKS).sort(batch, rate)


def record(text: str, trace_id: bytes = ID) -> bytes:
    return logs("", text, trace_id=trace_id).resource_logs[0].scope_logs[0].log_records[0].SerializeToString()


def span(trace_id: bytes = ID, state: str = "") -> bytes:
    return Span(trace_id=trace_id, span_id=b"\1" * 8, trace_state=state).SerializeToString()


def test_what_was_refused_is_noted_of_traces_that_are_kept() -> None:
    found = refuse("traces", span(CHOSEN), span(CHOSEN), span(b"a" * 9 + bytes(7)), b"junk", rate=0.5)
    assert found.refused == {CHOSEN: RefusedOf("shop", 0.5, {("traces", "larger than max_span_bytes"): 2})}


def test_a_refused_span_is_sampled_with_its_tracestate() -> None:
    (noted,) = refuse("traces", span(CHOSEN, "ot=th:c")).refused.values()
    assert noted.probability == 0.25


def test_our_own_spans_are_missed_by_nobody() -> None:
    assert refuse("traces", span(), service="rag-monitor").refused == {}


def test_a_refused_log_record_is_missed_where_it_is_a_dialects_and_not_where_it_is_the_applications_own() -> None:
    assert list(refuse("logs", record("gen_ai.user.message")).refused) == [ID]
    assert refuse("logs", record("a line of the application")).refused == {}
    assert refuse("logs", record("gen_ai.evaluation.result")).refused == {}
    assert refuse("logs", record("gen_ai.user.message", b"")).refused == {}
    scope = InstrumentationScope(name="org.example.ai.Prompts").SerializeToString()
    assert list(refuse("logs", record("Prompt"), scope=scope).refused) == [ID]


def test_a_log_record_that_cannot_be_read_is_missing_of_its_trace() -> None:
    body = logs("", "gen_ai BROKEN").SerializeToString().replace(b"BROKEN", b"\xff" * 6)
    batch = SpanBatch("otlp_http", "logs", wire.split(body))
    found = HeadSampling(lambda _: False, lambda one: one, MARKS).sort(batch, 1.0)
    assert {key: one.parts for key, one in found.refused.items()} == {ID: {("logs", "that cannot be read"): 1}}
    assert found.counts == {"invalid": 1}


@given(
    st.floats(0, 1),
    st.dictionaries(
        st.binary(min_size=16, max_size=16),
        st.builds(
            RefusedOf,
            st.text(),
            st.floats(0, 1),
            st.dictionaries(st.tuples(st.sampled_from(["traces", "logs"]), st.text()), st.integers(1)),
        ),
        max_size=4,
    ),
)
def test_what_was_refused_comes_back_out_of_the_spool(rate: float, refused: dict[bytes, RefusedOf]) -> None:
    assert from_meta(to_meta(rate, refused)) == (rate, refused)


@pytest.mark.parametrize(
    "meta", [b"", b"[]", b"{}", b'{"rate": 1, "refused": [["xy", "", 1, []]]}', b'{"rate": 1, "refused": [1]}']
)
def test_what_does_not_say_how_it_was_sampled_is_no_record_of_ours(meta: bytes) -> None:
    with pytest.raises(InvalidData):
        from_meta(meta)


def test_what_is_refused_for_its_resource_is_of_the_unknown_app() -> None:
    batch = SpanBatch("otlp_http", "traces", (), refused=[RefusedGroup(b"", b"", [span()], "of a resource")])
    found = HeadSampling(lambda _: False, lambda one: one, MARKS).sort(batch, 1.0)
    assert found.refused[ID].app == "unknown"
