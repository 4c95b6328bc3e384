"""Recorded traces to draw from, and values of every shape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from hypothesis import strategies as st

from monitor import registry
from monitor.extraction import compose
from monitor.model.case import ReadingStatus, TraceReading
from monitor.model.span import Part, Value
from monitor.model.trace import Closed, Trace
from monitor.transport.otlp.decode import decode
from tests.support.traces import SETUPS, captured_parts

TRACES: list[tuple[str, bytes, list[Part]]] = [
    (setup, trace_id, parts) for setup in SETUPS for trace_id, parts in captured_parts(setup).items()
]


def decoded(trace_id: bytes, parts: Sequence[Part], closed: Closed = Closed.ROOT_ENDED) -> Trace:
    return decode(trace_id, parts, closed=closed, app="a", source="s", probability=1.0, received_at=0.0)


def read_parts(trace_id: bytes, parts: Sequence[Part], closed: Closed = Closed.ROOT_ENDED) -> TraceReading:
    return compose.read(decoded(trace_id, parts, closed), registry.conventions())


def assert_sound(found: TraceReading) -> None:
    """Each has a status, its own id, and a row that any JSON writer accepts, without numbers unknown to JSON."""
    assert found.readings
    assert len({one.case.request_id for one in found.readings}) == len(found.readings)
    for reading in found.readings:
        assert reading.status in ReadingStatus
        row = reading.as_row()
        assert orjson.loads(orjson.dumps(row)) == json.loads(json.dumps(row, allow_nan=False))
        for key, text in reading.case.attributes.items():
            (key + text).encode()


def _telling(value: Value, depth: int = 4) -> set[str]:
    """Return the short texts and keys in a value: roles, kinds, types, names of fields."""
    if isinstance(value, str):
        if value[:1] in ("{", "[", '"') and depth:
            try:
                return _telling(json.loads(value), depth - 1)
            except ValueError:
                return set()
        return {value} if len(value) <= 24 else set()
    if isinstance(value, Mapping) and depth:
        return {key for key in value if len(key) <= 24}.union(*(_telling(one, depth - 1) for one in value.values()))
    if isinstance(value, (list, tuple)) and depth:
        return set().union(*(_telling(one, depth - 1) for one in value[:20]))
    return set()


def _seen() -> tuple[list[str], list[str]]:
    keys, words = set[str](), set[str]()
    for _, trace_id, parts in TRACES:
        trace = decoded(trace_id, parts)
        for holder in (*trace.spans, *trace.records):
            keys |= set(holder.attributes)
            words |= _telling(holder.attributes)
    return sorted(keys), sorted(words)


KEYS, WORDS = _seen()
"""All attribute keys of the recorded traffic, and all short texts and field names within its values."""

_LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=4)
    | st.text(max_size=12)
    | st.sampled_from(WORDS)
)


def nested(leaf: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=12
    )


STRUCTURES = nested(_LEAF, st.sampled_from(WORDS) | st.text(max_size=6))
"""Arrays and key-value lists, as in an attribute and as in JSON."""


def as_json(value: Any) -> str:
    """JSON as Python writes it: with NaN, and with lone surrogates as escapes."""
    return json.dumps(value, default=str)


@st.composite
def texts_of_structures(draw: st.DrawFn) -> str:
    """A structure in a text: JSON, a Python literal, JSON within JSON, possibly cut or with one character changed."""
    structure = draw(STRUCTURES)
    text = draw(st.sampled_from((as_json, repr, lambda one: as_json(as_json(one)), lambda one: f"Node({one!r})")))(
        structure
    )
    if draw(st.booleans()):
        return text
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.sampled_from(("", "'", '"', "\\", "}", "]", "\ufffd", "NaN"))) + text[at + 1 :]


ODD: list[Value] = [
    "",
    " ",
    "[" * 10_000,
    "[" * 10_000 + "]" * 10_000,
    '{"a":' * 10_000,
    "{'a':" * 10_000 + "1" + "}" * 10_000,
    "[" + "-" * 30_000 + "1]",
    "[" + "1+" * 20_000 + "1]",
    "[0x" + "f" * 5_000 + "]",
    "{0x" + "f" * 5_000 + ": 'text'}",
    "[" + "9" * 5_000 + "]",
    "[1e999, -1e999]",
    '[{"text": "\\ud83d", "score": NaN, "id": Infinity}]',
    "[{'text': '\\ud83d', 'score': 1e999, 'id': 0x" + "f" * 5_000 + "}]",
    "Document(page_content='\\udc00 x', score=1e999)",
    '"' + "\\" * 9_999 + '"',
    "NodeWithScore(node=TextNode(id_='a', text='b" + "\\" * 5_000,
    "<generator object f at 0x7f>",
    b"\xff\xfe",
    float("nan"),
    float("inf"),
    2**63 - 1,
    1e300,
    "1e300",
    "9" * 4_000,
    [[[[[[[[[[[[[["deep"]]]]]]]]]]]]]],
    [],
    {},
    [None],
    {"": None},
    "x" * 70_000,
]
"""Values that have broken readers, or could."""

ODDITIES = st.integers(0, len(ODD) - 1).map(lambda at: ODD[at])
VALUES = ODDITIES | STRUCTURES | texts_of_structures()
