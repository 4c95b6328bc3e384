"""The readers of untrusted bytes, each as a function of bytes: invalid input is refused, valid input is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from monitor import registry
from monitor.config import parse_text
from monitor.errors import ConfigError, InvalidData, JudgeError
from monitor.extraction import compose, rows
from monitor.judge.codec import read_verdict
from monitor.model.span import EncodedGroup, Part, Signal
from monitor.transport.otlp import json_mapping, wire
from monitor.transport.otlp.limits import cut
from tests.support.hostile_traces import assert_sound, decoded
from tests.support.paths import ROOT

CORPUS: Final = ROOT / "tests" / "data" / "fuzz"
"""A folder for each target: inputs that were interesting to fuzzing or to an attacker."""

_CONVENTIONS: Final = registry.conventions()
_VERDICT: Final = {
    "type": "object",
    "properties": {"explanation": {"type": "string"}, "score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["explanation", "score"],
}


def read_body(signal: Signal, body: bytes) -> int:
    """Read everything in a body, and return the number of traces."""
    try:
        groups = wire.split(body)
    except InvalidData:
        return 0
    return _read_groups(signal, groups)


def _read_groups(signal: Signal, groups: list[EncodedGroup]) -> int:
    traces: dict[bytes, list[Part]] = {}
    for trace_id, part in wire.offline_parts(signal, groups):
        traces.setdefault(trace_id, []).append(part)
    read = 0
    for trace_id, parts in traces.items():
        try:
            trace = decoded(trace_id, parts)
        except InvalidData:
            continue  # an invalid resource or scope: intake does not look into these
        assert_sound(compose.read(trace, _CONVENTIONS))
        read += 1
    return read


def otlp_protobuf(data: bytes) -> None:
    """Read a body of OTLP in protobuf; the first bit says whether it contains logs."""
    signal: Signal = "logs" if data[:1] == b"l" else "traces"
    read_body(signal, data[1:])
    try:
        cut(data[1:], 1000)
    except InvalidData:
        return


def otlp_json(data: bytes) -> None:
    """Read a body of OTLP in JSON."""
    try:
        encoded = json_mapping.to_protobuf("traces", data, max_items=1000)
    except InvalidData:
        return
    read_body("traces", encoded)


def row(data: bytes) -> None:
    """Read a body of rows."""
    try:
        found = rows.take(data, max_rows=100, max_row_bytes=100_000)
    except InvalidData:
        return
    for one in found.rows:
        reading = rows.read(
            one,
            lambda trace: compose.read(trace, _CONVENTIONS),
            source="s",
            turns="all",
            probability=1.0,
            received_at=0,
        )
        assert_sound(reading)


def verdict(data: bytes) -> None:
    """Read a judge's reply: the result can only be an integer from 1 to 5."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        found = read_verdict(text, _VERDICT, ("the material",))
    except JudgeError:
        return
    assert found["score"] in (1, 2, 3, 4, 5)
    assert isinstance(found["explanation"], str)


def configuration(data: bytes) -> None:
    """Read a configuration file."""
    try:
        parse_text(data.decode("utf-8", "replace"))
    except ConfigError:
        return


def dialect(data: bytes) -> None:
    """Read the attributes of a span, given as a JSON object."""
    try:
        attributes: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        return
    if not isinstance(attributes, dict):
        return
    listed = [{"key": key, "value": {"stringValue": str(value)}} for key, value in attributes.items()]
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "step", "attributes": listed}
    otlp_json(orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    one.__name__: one for one in (otlp_protobuf, otlp_json, row, verdict, configuration, dialect)
}
