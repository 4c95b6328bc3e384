"""OTLP/JSON. The numbers are those of the conformance statements for OTLP receivers."""

from __future__ import annotations

import contextlib
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from monitor.errors import InvalidData, TooLarge
from monitor.transport.otlp import json_mapping, wire
from monitor.transport.otlp.json_mapping import to_protobuf
from tests.support.otlp import as_otlp_json
from tests.support.work import assert_linear

TRACE_ID, SPAN_ID = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"


def body(*spans: dict[str, Any]) -> bytes:
    whole = [{"traceId": TRACE_ID, "spanId": SPAN_ID, **span} for span in spans]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": whole}]}]}).encode()


def read(*spans: dict[str, Any]) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(to_protobuf("traces", body(*spans)))
    return list(request.resource_spans[0].scope_spans[0].spans)


def value(given: dict[str, Any]) -> AnyValue:
    return read({"attributes": [{"key": "k", "value": given}]})[0].attributes[0].value


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
any_values = st.recursive(
    st.builds(AnyValue)
    | st.builds(lambda v: AnyValue(string_value=v), texts)
    | st.builds(lambda v: AnyValue(bool_value=v), st.booleans())
    | st.builds(lambda v: AnyValue(int_value=v), st.integers(-(2**63), 2**63 - 1))
    | st.builds(lambda v: AnyValue(double_value=v), st.floats(allow_nan=False))
    | st.builds(lambda v: AnyValue(bytes_value=v), st.binary(max_size=8)),
    lambda inner: (
        st.builds(lambda vs: AnyValue(array_value={"values": vs}), st.lists(inner, max_size=3))
        | st.builds(
            lambda vs: AnyValue(kvlist_value={"values": vs}),
            st.lists(st.builds(lambda k, v: KeyValue(key=k, value=v), texts, inner), max_size=3),
        )
    ),
    max_leaves=6,
)
attributes = st.lists(st.builds(lambda k, v: KeyValue(key=k, value=v), texts, any_values), max_size=3)
spans = st.builds(
    Span,
    trace_id=st.binary(min_size=16, max_size=16),
    span_id=st.binary(min_size=8, max_size=8),
    parent_span_id=st.just(b"") | st.binary(min_size=8, max_size=8),
    trace_state=texts,
    flags=st.integers(0, 2**32 - 1),
    name=texts,
    kind=st.integers(-(2**31), 2**31 - 1),
    start_time_unix_nano=st.integers(0, 2**64 - 1),
    end_time_unix_nano=st.integers(0, 2**64 - 1),
    attributes=attributes,
    dropped_attributes_count=st.integers(0, 2**32 - 1),
    events=st.lists(st.builds(Span.Event, name=texts, attributes=attributes), max_size=2),
    links=st.lists(st.builds(Span.Link, trace_id=st.binary(min_size=16, max_size=16)), max_size=2),
)


@given(st.lists(spans, max_size=3))
def test_the_json_of_any_request_becomes_the_request(made: list[Span]) -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(made)
    encoded = json.dumps(as_otlp_json(request)).encode()
    assert ExportTraceServiceRequest.FromString(to_protobuf("traces", encoded)) == request


names = st.sampled_from(["resourceSpans", "scopeSpans", "spans", "attributes", "value", "kvlistValue", "values", "x"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(names, inner),
)


@given(json_values)
def test_any_other_json_is_a_request_or_invalid(data: Any) -> None:
    with contextlib.suppress(InvalidData):
        to_protobuf("traces", json.dumps(data).encode())


@given(st.binary(max_size=64))
def test_any_bytes_are_a_request_or_invalid(data: bytes) -> None:
    with contextlib.suppress(InvalidData):
        to_protobuf("logs", data)


@pytest.mark.parametrize("change", [str.lower, str.upper])
def test_33_ids_are_hex_in_any_case(change: Any) -> None:
    link = {"traceId": change(TRACE_ID), "spanId": change(SPAN_ID)}
    (span,) = read({**link, "parentSpanId": change(SPAN_ID), "links": [link]})
    for found in (span, span.links[0]):
        assert (found.trace_id.hex(), found.span_id.hex()) == (TRACE_ID, SPAN_ID)
    assert span.parent_span_id.hex() == SPAN_ID


@pytest.mark.parametrize(
    "bad",
    [
        {"traceId": TRACE_ID[:-2]},
        {"traceId": TRACE_ID + "00"},
        {"traceId": "W47/95gDgQPSabYzgT/GDA=="},  # what protobuf's own JSON mapping would have
        {"traceId": TRACE_ID[:-1] + "g"},
        {"traceId": "5b 8efff798038103d269b633813fc60"},  # right length, but Python's fromhex skips the space
        {"traceId": 7},
        {"traceId": "0" * 32},
        {"spanId": "zz"},
        {"spanId": "0" * 16},
        {"spanId": []},
        {"parentSpanId": "abc"},
    ],
    ids=str,
)
def test_34_a_malformed_id_voids_its_span_and_no_other(bad: dict[str, Any]) -> None:
    (group,) = wire.split(to_protobuf("traces", body({"name": "before"}, bad, {"name": "after"})))

    def valid(span: bytes) -> bool:
        try:
            wire.span_part(span, b"", b"")
        except InvalidData:
            return False
        return bool(wire.trace_id_of(span))

    assert [valid(span) for span in group.items] == [True, False, True]
    assert bool(wire.trace_id_of(group.items[1])) is ("traceId" not in bad), "the trace that lacks it"


def test_34_a_malformed_link_leaves_its_span_whole() -> None:
    (span,) = read({"links": [{"traceId": "no"}]})
    assert span.span_id.hex() == SPAN_ID


def test_a_parent_of_zeros_or_nothing_is_no_parent() -> None:
    first, second = read({"parentSpanId": ""}, {"parentSpanId": None})
    assert first.parent_span_id == second.parent_span_id == b""


def test_35_enums_are_integers_and_unknown_ones_are_kept() -> None:
    assert [span.kind for span in read({"kind": 2}, {"kind": 99})] == [2, 99]
    assert read({"status": {"code": 2}})[0].status.code == 2


def test_35_the_name_of_an_enum_value_is_read_as_its_number() -> None:
    assert read({"kind": "SPAN_KIND_CLIENT"})[0].kind == 3
    with pytest.raises(InvalidData, match=r"spans\[0\]\.kind"):
        read({"kind": "SPAN_KIND_NONSENSE"})


def test_36_unknown_fields_are_ignored_at_every_depth() -> None:
    odd = {"odd": {"deep": [1, {"x": None}]}}
    attribute = {"key": "k", "value": {"stringValue": "v", **odd}, **odd}
    data = {
        **odd,
        "resourceSpans": [
            {
                **odd,
                "resource": {**odd, "attributes": [attribute]},
                "scopeSpans": [{**odd, "scope": odd, "spans": [{"name": "n", "attributes": [attribute], **odd}]}],
            }
        ],
    }
    (group,) = ExportTraceServiceRequest.FromString(to_protobuf("traces", json.dumps(data).encode())).resource_spans
    assert group.resource.attributes[0].value.string_value == "v"
    assert group.scope_spans[0].spans[0].attributes[0].value.string_value == "v"


def test_37_snake_case_names_are_read_too_but_not_both() -> None:
    data = {"resource_spans": [{"scope_spans": [{"spans": [{"trace_id": TRACE_ID, "start_time_unix_nano": "7"}]}]}]}
    request = ExportTraceServiceRequest.FromString(to_protobuf("traces", json.dumps(data).encode()))
    assert request.resource_spans[0].scope_spans[0].spans[0].start_time_unix_nano == 7
    with pytest.raises(InvalidData, match="both traceId and trace_id"):
        read({"trace_id": TRACE_ID})


def test_38_integers_of_64_bits_are_texts_or_numbers() -> None:
    assert [s.start_time_unix_nano for s in read({"startTimeUnixNano": "18446744073709551615"})] == [2**64 - 1]
    assert read({"startTimeUnixNano": 1544712660000000000})[0].start_time_unix_nano == 1544712660000000000
    assert value({"intValue": "-9223372036854775808"}).int_value == -(2**63)
    assert value({"intValue": 3.0}).int_value == 3


@pytest.mark.parametrize(
    "bad",
    [
        "18446744073709551616",
        2**64,
        -1,
        "-1",
        "1.5",
        1.5,
        "",
        " 1",
        "1_0",
        True,
        [],
        "9" * 5000,
        "\N{ARABIC-INDIC DIGIT ONE}",
    ],
    ids=repr,
)
def test_38_an_integer_out_of_range_or_not_one_is_invalid(bad: object) -> None:
    with pytest.raises(InvalidData, match=r"spans\[0\]\.startTimeUnixNano"):
        read({"startTimeUnixNano": bad})


def test_39_a_span_without_kind_and_status_is_kept() -> None:
    (span,) = read({})
    assert (span.kind, span.status.code, span.span_id.hex()) == (0, 0, SPAN_ID)


def in_value(text: str) -> bytes:
    return body({"attributes": [{"key": "k", "value": "HERE"}]}).replace(b'"HERE"', text.encode())


@pytest.mark.parametrize(
    "bad",
    [
        b'{"resourceSpans": [], "resourceSpans": []}',
        b'{"odd": {"a": 1, "a": 2}}',
        b'{"odd": {"a": 1, "a": ":"}}',
        b'{"odd": {"a": 1, "a": "\\u003a"}}',
        b'{"odd": {"a": 1, "a": "\\u003A"}}',
        in_value('{"doubleValue": NaN}'),
        in_value('{"doubleValue": Infinity}'),
        in_value('{"stringValue": "\\ud800", "stringValue": "b"}'),
        in_value('{"stringValue": "\\ud80"}'),
        in_value('{"stringValue": "a", "intValue": 1}'),
        in_value('{"stringValue": "a", "stringValue": "b"}'),
        in_value('{"stringValue": "a", "string_value": "b"}'),
        in_value('{"arrayValue":{"values":[' * 48 + "{}" + "]}}" * 48),
        in_value('{"arrayValue":{"values":[' * 400 + "{}" + "]}}" * 400),
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"odd":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b"\xff\xfe",
        b"",
        b"[]",
        b"null",
        b"{} {}",
    ],
    ids=lambda bad: repr(bad[:40]),
)
def test_40_what_is_ambiguous_or_not_json_is_invalid_at_once(bad: bytes) -> None:
    to_protobuf("traces", b"{}")
    with pytest.raises(InvalidData):
        to_protobuf("traces", bad)

    def read(part: bytes) -> None:
        with suppress(InvalidData):
            to_protobuf("traces", part)

    assert_linear(read, bad)


def test_what_is_nested_as_deep_as_is_taken_can_be_decoded() -> None:
    taken = [n for n in range(60) if _taken(in_value('{"arrayValue":{"values":[' * n + "{}" + "]}}" * n))]
    assert taken == list(range(43))


def _taken(data: bytes) -> bool:
    try:
        (group,) = wire.split(to_protobuf("traces", data))
    except InvalidData:
        return False
    assert wire.span_part(group.items[0], b"", b"")
    return True


def test_half_a_character_costs_that_character_and_neither_its_span_nor_others() -> None:
    cut = {"name": "CUT", "attributes": [{"key": "k", "value": {"stringValue": "a: \U0001f642 \\ CUT"}}]}
    data = body({"name": "before"}, cut, {"name": "after"}).replace(b"CUT", b"cut \\ud83d")
    for sent in (data, data.replace(b'": ', b'":').replace(b", ", b",")):
        found = [
            *ExportTraceServiceRequest.FromString(to_protobuf("traces", sent)).resource_spans[0].scope_spans[0].spans
        ]
        assert [one.name for one in found] == ["before", "cut \ufffd", "after"]
        assert found[1].attributes[0].value.string_value == "a: \U0001f642 \\ cut \ufffd"


def test_colons_in_texts_do_not_look_like_keys() -> None:
    text = 'a: "b": \\u003a {"c": 1, "c": 1} \N{FULLWIDTH COLON}'
    assert value({"stringValue": text}).string_value == text


@pytest.mark.parametrize(
    ("given", "expected"), [("NaN", "nan"), ("Infinity", "inf"), ("-Infinity", "-inf"), ("1.5", "1.5"), (2, "2.0")]
)
def test_doubles_are_numbers_or_the_texts_that_stand_for_them(given: object, expected: str) -> None:
    assert str(value({"doubleValue": given}).double_value) == expected


@pytest.mark.parametrize("text", ["-_8=", "-_8", "+/8=", "+/8"])
def test_bytes_are_base64_of_either_alphabet_with_or_without_padding(text: str) -> None:
    assert value({"bytesValue": text}).bytes_value == b"\xfb\xff"


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        ({"name": 5}, r"spans\[0\]\.name: expected a text, got 5"),
        ({"name": ["secret"]}, r"spans\[0\]\.name: expected a text, got a list"),
        ({"attributes": {}}, r"spans\[0\]\.attributes: expected a list, got an object"),
        ({"attributes": ["secret"]}, r"attributes\[0\]: expected an object, got a text"),
        ({"attributes": [{"value": {"boolValue": "true"}}]}, r"attributes\[0\]\.value\.boolValue"),
        ({"attributes": [{"value": {"bytesValue": "*"}}]}, r"attributes\[0\]\.value\.bytesValue"),
        ({"attributes": [{"value": {"doubleValue": "1_0"}}]}, r"attributes\[0\]\.value\.doubleValue"),
        ({"status": 1}, r"spans\[0\]\.status: expected an object, got 1"),
    ],
)
def test_the_message_names_the_place_and_never_repeats_a_text(bad: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidData, match=place) as caught:
        read(bad)
    assert "secret" not in str(caught.value)


def test_log_records_are_mapped_by_the_same_rules() -> None:
    record = {"traceId": TRACE_ID.upper(), "spanId": "bad", "timeUnixNano": "5", "severityNumber": 9, "eventName": "e"}
    record["body"] = {"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "1"}}]}}
    data = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    request = ExportLogsServiceRequest.FromString(to_protobuf("logs", json.dumps(data).encode()))
    (found,) = request.resource_logs[0].scope_logs[0].log_records
    assert (found.trace_id.hex(), found.span_id, found.time_unix_nano) == (TRACE_ID, b"", 5)
    assert found.body.kvlist_value.values[0].value.int_value == 1


def test_more_items_or_groups_than_allowed_are_too_large() -> None:
    assert to_protobuf("traces", body({}, {}), max_items=2)
    for bad in (body({}, {}, {}), b'{"resourceSpans":[{},{},{}]}', b'{"resourceSpans":[{"scopeSpans":[{},{},{}]}]}'):
        with pytest.raises(TooLarge):
            to_protobuf("traces", bad, max_items=2)


def test_more_attributes_than_any_sdk_sends_are_invalid() -> None:
    with pytest.raises(InvalidData, match=r"spans\[0\]\.attributes: 10001 is too many"):
        read({"attributes": [{}] * 10_001})


def test_a_bomb_of_values_is_refused_before_objects_are_made_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_mapping, "MAX_VALUES", 100)
    with pytest.raises(TooLarge, match="more than 100 JSON values"):
        to_protobuf("traces", b'{"odd": [' + b"0," * 100 + b"0]}")
    # The same marks inside a text are no values.
    assert to_protobuf("traces", b'{"odd": "' + b'{,[\\"' * 100 + b'"}') == b""


def marks_outside_strings(text: bytes) -> int:
    """Commas and opening brackets that are not inside a string; the last string may have no end."""
    found, inside, escaped = 0, False, False
    for byte in text:
        if escaped:
            escaped = False
        elif inside and byte == ord("\\"):
            escaped = True
        elif byte == ord('"'):
            inside = not inside
        elif not inside:
            found += byte in b",{["
    return found


@given(st.text(alphabet='",\\{[a\n', max_size=40).map(str.encode), st.integers(1, 50))
def test_values_are_counted_outside_strings_whether_the_last_one_ends_or_not(text: bytes, piece: int) -> None:
    outside = marks_outside_strings(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_mapping, "_PIECE", piece)  # it is read in pieces
        patch.setattr(json_mapping, "MAX_VALUES", outside)
        json_mapping.check_values(text)
        if outside:
            patch.setattr(json_mapping, "MAX_VALUES", outside - 1)
            with pytest.raises(TooLarge):
                json_mapping.check_values(text)


@pytest.mark.parametrize("unit", [b'\\"', b'"', b'"\\', b"\\", b'"\\"', b'"",'])
@pytest.mark.parametrize("end", [b"", b"\\", b'"'])
def test_a_string_that_never_ends_is_read_once(unit: bytes, end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_mapping, "MAX_VALUES", 100)

    def check(text: bytes) -> None:
        with suppress(TooLarge):
            json_mapping.check_values(b"," * 101 + b'"' + text + end)

    for times in (2_000, 200_000):  # work that grows with the square would take hours for the second
        assert_linear(check, unit * times)


DROPPED = "11" * 16


def thinned(*spans: dict[str, Any]) -> list[Span]:
    encoded = to_protobuf("traces", body(*spans), None, lambda trace_id: trace_id.hex() == DROPPED)
    return list(ExportTraceServiceRequest.FromString(encoded).resource_spans[0].scope_spans[0].spans)


def test_of_a_span_whose_trace_is_dropped_only_the_trace_id_is_converted() -> None:
    kept = {"name": "kept", "attributes": [{"key": "k", "value": {"stringValue": "v"}}]}
    dropped = {"traceId": DROPPED, "name": "dropped", "attributes": [{"key": 5}]}
    assert thinned(kept, dropped, kept, dropped) == [
        *read(kept, kept),
        *2 * [Span(trace_id=bytes.fromhex(DROPPED), span_id=bytes(8))],
    ]


@pytest.mark.parametrize(
    "unusual",
    [{"traceState": "ot=th:8"}, {"traceId": DROPPED + "11"}, {"traceId": "11 " * 16}, {"traceId": 7}, {"traceId": ""}],
)
def test_a_span_whose_trace_cannot_be_told_from_its_id_alone_is_converted_in_full(unusual: dict[str, Any]) -> None:
    span = {"traceId": DROPPED, "name": "a", **unusual}
    assert thinned(span) == read(span)


def test_two_names_of_one_field_are_refused_in_dropped_spans_too() -> None:
    with pytest.raises(InvalidData, match="both traceId and trace_id"):
        thinned({"traceId": DROPPED, "trace_id": TRACE_ID})


@given(
    st.binary(max_size=40).map(lambda junk: junk.decode("latin-1")) | st.recursive(st.none(), st.lists, max_leaves=4)
)
def test_a_request_that_is_none_is_refused_whether_or_not_spans_are_dropped(junk: object) -> None:
    for data in (
        {"resourceSpans": junk},
        {"resourceSpans": [{"scopeSpans": junk}, junk, {"scopeSpans": [{"spans": junk}]}]},
    ):
        with suppress(InvalidData):
            to_protobuf("traces", json.dumps(data).encode(), None, lambda _: True)
