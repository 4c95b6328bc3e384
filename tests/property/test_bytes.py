"""From bytes to readings: whatever a body holds is refused as invalid or read, and never anything else."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from monitor.errors import InvalidData
from monitor.model.span import EncodedGroup, Signal
from monitor.transport.otlp import json_mapping, wire
from tests.support.examples import TIMES, examples
from tests.support.fuzzing import read_body
from tests.support.hostile_traces import KEYS, ODDITIES
from tests.support.traces import SETUPS

pytestmark = pytest.mark.timeout(1200)

BODIES: list[tuple[Signal, bytes]] = [
    ("logs" if path.name.endswith(".logs.pb") else "traces", path.read_bytes())
    for folder in SETUPS.values()
    for path in sorted(folder.glob("*.pb"))[:3]
]
JSON_BODIES = [
    path.read_bytes() for folder in SETUPS.values() for path in sorted(folder.glob("0*.json")) if path.is_file()
]


def spoiled(body: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, removed or repeated; or the body cut, or two halves of it swapped."""
    for _ in range(rng.randint(1, 6)):
        at, size = rng.randrange(len(body) + 1), rng.choice((1, 1, 2, 8, 100))
        other = rng.choice((rng.randbytes(size), b"", body[at : at + 2 * size], b"\xff" * size, b"\xed\xa0\x80"))
        body = body[:at] + other + body[at + size :]
    return rng.choice((body, body, body[: rng.randrange(len(body) + 1)]))


def test_recorded_bodies_with_bytes_changed_are_refused_or_read() -> None:
    rng = random.Random(None if TIMES else 1)
    read = sum(
        read_body(signal, spoiled(body, rng)) for signal, body in (BODIES * 20 * max(TIMES, 1))[: 400 * max(TIMES, 1)]
    )
    assert read, "all were refused: nothing was tried"


def test_spans_with_bytes_changed_within_a_sound_request_are_left_out_or_read() -> None:
    rng = random.Random(None if TIMES else 2)
    read = 0
    for _ in range(2 * max(TIMES, 1)):
        for signal, body in BODIES:
            groups = [
                EncodedGroup(g.resource, g.scope, [spoiled(one, rng) if rng.random() < 0.3 else one for one in g.items])
                for g in wire.split(body)
            ]
            read += read_body(signal, wire.join(groups))
    assert read


def test_recorded_json_with_characters_changed_is_refused_or_read() -> None:
    rng = random.Random(None if TIMES else 3)
    read = 0
    for body in JSON_BODIES[:3] * 30 * max(TIMES, 1):
        at = rng.randrange(len(body))
        changed = (
            body[:at] + rng.choice((b"", b'"', b"{", b"9", b"null", b"\\ud800", b"\xff", b"1e999")) + body[at + 1 :]
        )
        try:
            encoded = json_mapping.to_protobuf("traces", changed)
        except InvalidData:
            continue
        read += read_body("traces", encoded)
    assert read


JSON_VALUES = st.recursive(
    st.fixed_dictionaries({"stringValue": st.text(max_size=8) | ODDITIES.filter(lambda odd: isinstance(odd, str))})
    | st.fixed_dictionaries({"intValue": st.integers(-(2**63), 2**63 - 1).map(str)})
    | st.fixed_dictionaries({"doubleValue": st.floats(allow_nan=False, allow_infinity=False) | st.just("NaN")})
    | st.fixed_dictionaries({"bytesValue": st.just("AAEC")})
    | st.just({}),
    lambda inner: (
        st.fixed_dictionaries({"arrayValue": st.fixed_dictionaries({"values": st.lists(inner, max_size=3)})})
        | st.fixed_dictionaries(
            {
                "kvlistValue": st.fixed_dictionaries(
                    {
                        "values": st.lists(
                            st.fixed_dictionaries({"key": st.text(max_size=5), "value": inner}), max_size=3
                        )
                    }
                )
            }
        )
    ),
    max_leaves=6,
)


@examples(60)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, min_size=1, max_size=6), min_size=1, max_size=4))
def test_spans_of_any_values_come_through_the_json_encoding_and_are_read(spans: list[dict[str, Any]]) -> None:
    sent = [
        {
            "traceId": "5b8efff798038103d269b633813fc60c",
            "spanId": f"{number:016x}",
            "parentSpanId": f"{number - 1:016x}" if number > 1 else "",
            "attributes": [{"key": key, "value": value} for key, value in held.items()],
        }
        for number, held in enumerate(spans, 1)
    ]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": sent}]}]}).encode()
    assert read_body("traces", json_mapping.to_protobuf("traces", body)) == 1


def test_no_lone_half_of_a_character_comes_out_of_the_decoder() -> None:
    span = Span(
        trace_id=b"t" * 16, span_id=b"s" * 8, attributes=[KeyValue(key="k", value=AnyValue(string_value="ABC"))]
    )
    encoded = span.SerializeToString().replace(b"ABC", b"\xed\xa0\x80")
    with pytest.raises(InvalidData):
        wire.span_part(encoded, b"", b"")
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"cut \\ud800"}]}]}]}'
    request = ExportTraceServiceRequest.FromString(json_mapping.to_protobuf("traces", body))
    assert request.resource_spans[0].scope_spans[0].spans[0].name == "cut \ufffd"
