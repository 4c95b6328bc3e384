"""Decode the parts of one closed trace into values: spans, log records, and the services that emitted them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as ScopeProto
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as RecordProto
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceProto
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanProto

from monitor.errors import InvalidData
from monitor.model.span import LogRecord, Origin, Part, RefusedParts, Span, SpanEvent, SpanLink, SpanStatus, Value
from monitor.model.trace import Closed, Trace

MAX_DEPTH: Final = 24
"""Maximum levels of nested arrays and lists; deeper values are read as None."""

MAX_NUMBERS: Final = 32
"""Maximum numbers kept from an array that starts with a number: longer ones are embedding vectors, which are not used.
"""

MAX_LINKS: Final = 8
"""Maximum links kept from a span: only their presence and the first link are used."""

_STATUS: Final[dict[int, SpanStatus]] = {1: "ok", 2: "error"}
_REMOTE_PARENT: Final = 0x300
_CACHE_BYTES: Final = 4 * 1024**2
_VALUE: Final = 200  # bytes of memory for a decoded value besides its text, rounded up

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SizedCache(Generic[K, V]):
    """A cache of values, up to `max_bytes` in total; the oldest are evicted first. Safe to use from threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: K) -> V | None:
        """Return the value of `key`; None if it is not cached."""
        found = self._known.get(key)
        return None if found is None else found[0]

    def put(self, key: K, value: V, size: int) -> V:
        """Cache and return a value of `size` bytes, key included. A value above 1/64 of the limit is not cached."""
        if size * 64 <= self._max_bytes:
            with self._lock:
                self.bytes += size - self._known.pop(key, (value, 0))[1]
                self._known[key] = (value, size)
                while self.bytes > self._max_bytes:
                    self.bytes -= self._known.popitem(last=False)[1][1]
        return value


class Origins:
    """The origins of the parts of a trace or a delivery. Each resource is decoded once, however many scopes it has.

    Small origins are also cached for later traces.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[bytes, bytes], Origin] = {}
        self._resources: dict[bytes, Mapping[str, Value]] = {}

    def of(self, part: Part) -> Origin:
        """Return the origin of a part. Raises `DecodeError`."""
        key = (part.resource, part.scope)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = _small_origins.get(key) or self._decoded(*key)
        return found

    def _decoded(self, resource: bytes, scope: bytes) -> Origin:
        attributes = self._resources.get(resource)
        if attributes is None:
            attributes = self._resources[resource] = _attributes(ResourceProto.FromString(resource).attributes)
        library = ScopeProto.FromString(scope)
        name = attributes.get("service.name", "")
        made = Origin(
            service_name=name if isinstance(name, str) else "",
            resource=attributes,
            scope_name=library.name,
            scope_version=library.version,
            scope_attributes=_attributes(library.attributes),
        )
        values = _count((attributes, made.scope_attributes)) if len(resource) + len(scope) < _CACHE_BYTES // 64 else 0
        return _small_origins.put((resource, scope), made, 2 * (len(resource) + len(scope)) + _VALUE * (values + 5))


_small_origins: SizedCache[tuple[bytes, bytes], Origin] = SizedCache(_CACHE_BYTES)


def _count(value: object) -> int:
    """Return the number of values within a decoded value, including itself."""
    if isinstance(value, Mapping):
        return 1 + sum(map(_count, value.values()))
    return 1 + sum(map(_count, value)) if isinstance(value, (list, tuple)) else 1


def decode(
    trace_id: bytes,
    parts: Sequence[Part],
    *,
    closed: Closed,
    app: str,
    source: str,
    probability: float,
    received_at: float,
    refused: tuple[RefusedParts, ...] = (),
) -> Trace:
    """Build the trace from `parts`; the result is the same for any order and repetition of the same parts.

    Among several spans with the same id, an ended one wins, then the longest; identical log records count once.
    Raises `InvalidData` if a part cannot be decoded, although intake has checked it.
    """
    hex_id = trace_id.hex()
    spans: dict[bytes, Part] = {}
    records: dict[bytes, Part] = {}
    for part in parts:
        if part.signal == "traces":
            held = spans.get(part.span_id)
            if held is None or (held is not part and _rank(part) > _rank(held)):
                spans[part.span_id] = part
        else:
            held = records.get(part.encoded)
            if held is None or (part.resource, part.scope) > (held.resource, held.scope):
                records[part.encoded] = part
    origins = Origins()
    try:
        read_spans = sorted(
            (_span(hex_id, part, origins) for part in spans.values()), key=lambda s: (s.start_ns, s.span_id)
        )
        read_records = [(_record(hex_id, part, origins), part.encoded) for part in records.values()]
    except DecodeError as error:
        raise InvalidData(f"a part of trace {hex_id} cannot be decoded: {error}") from None
    read_records.sort(key=lambda pair: (pair[0].time_ns, pair[1]))
    return Trace(
        trace_id=hex_id,
        spans=tuple(read_spans),
        records=tuple(record for record, _ in read_records),
        closed=closed,
        app=app,
        source=source,
        probability=probability,
        received_at=received_at,
        refused=refused,
    )


def record(trace_id: bytes, part: Part, origins: Origins) -> LogRecord:
    """Decode a part that is one log record. Raises `InvalidData`."""
    try:
        return _record(trace_id.hex(), part, origins)
    except DecodeError as error:
        raise InvalidData(f"a log record cannot be decoded: {error}") from None


def span(trace_id: bytes, part: Part, origins: Origins) -> Span:
    """Decode a part that is one span. Raises `InvalidData`."""
    try:
        return _span(trace_id.hex(), part, origins)
    except DecodeError as error:
        raise InvalidData(f"a span cannot be decoded: {error}") from None


def service_name(resource: bytes) -> str:
    """Return the `service.name` of an encoded resource; empty if it is missing or not a text."""
    try:
        parsed = ResourceProto.FromString(resource)
    except DecodeError:
        return ""
    for pair in parsed.attributes:
        if pair.key == "service.name":
            return str(pair.value.string_value)
    return ""


def resource_fault(resource: bytes) -> str:
    """Return why the spans of a resource can never be decoded; empty if they can be."""
    return _fault("resource", ResourceProto, resource)


def scope_fault(scope: bytes) -> str:
    """Return why the spans of a scope can never be decoded; empty if they can be."""
    return _fault("scope", ScopeProto, scope)


def _fault(name: str, message: Any, encoded: bytes) -> str:
    try:
        message.FromString(encoded)
    except DecodeError as error:
        return f"the {name} of a group cannot be decoded: {error}"
    return ""


def _rank(part: Part) -> tuple[bool, int, int, bytes, bytes, bytes]:
    return part.ended_ns > 0, len(part.encoded), part.ended_ns, part.encoded, part.resource, part.scope


def _span(trace_id: str, part: Part, origins: Origins) -> Span:
    proto = SpanProto.FromString(part.encoded)
    parent = proto.parent_span_id
    has_parent = any(parent)
    status = proto.status
    return Span(
        trace_id=trace_id,
        span_id=proto.span_id.hex(),
        parent_id=parent.hex() if has_parent else "",
        name=proto.name,
        kind=proto.kind,
        start_ns=proto.start_time_unix_nano,
        end_ns=proto.end_time_unix_nano,
        attributes=_attributes(proto.attributes),
        events=tuple(map(_event, proto.events)) if proto.events else (),
        status=_STATUS.get(status.code, "unset"),
        status_message=status.message,
        origin=origins.of(part),
        dropped_attributes=proto.dropped_attributes_count,
        is_root=not has_parent or proto.flags & _REMOTE_PARENT == _REMOTE_PARENT,
        links=tuple(map(_link, proto.links[:MAX_LINKS])) if proto.links else (),
    )


def _event(proto: Any) -> SpanEvent:
    return SpanEvent(proto.name, proto.time_unix_nano, _attributes(proto.attributes))


def _link(proto: Any) -> SpanLink:
    trace_id, span_id = proto.trace_id, proto.span_id
    return SpanLink(
        trace_id.hex() if len(trace_id) == 16 and any(trace_id) else "",  # noqa: PLR2004 - bytes of an id
        span_id.hex() if len(span_id) == 8 and any(span_id) else "",  # noqa: PLR2004 - bytes of an id
    )


def _record(trace_id: str, part: Part, origins: Origins) -> LogRecord:
    proto = RecordProto.FromString(part.encoded)
    return LogRecord(
        trace_id=trace_id,
        span_id=proto.span_id.hex() if any(proto.span_id) else "",
        event_name=proto.event_name,
        time_ns=proto.time_unix_nano or proto.observed_time_unix_nano,
        body=_value(proto.body, MAX_DEPTH),
        attributes=_attributes(proto.attributes),
        origin=origins.of(part),
        dropped_attributes=proto.dropped_attributes_count,
    )


def _attributes(pairs: Iterable[Any]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pair in pairs:
        value = pair.value
        # Nearly every attribute is text: one look-up instead of a call.
        found[pair.key] = value.string_value or _value(value, MAX_DEPTH)
    return found


def _value(any_value: Any, depth: int) -> Value:
    which = any_value.WhichOneof("value")
    if which == "array_value":
        return _array(any_value.array_value.values, depth - 1) if depth > 0 else None
    if which == "kvlist_value":
        pairs = any_value.kvlist_value.values
        return {pair.key: _value(pair.value, depth - 1) for pair in pairs} if depth > 0 else None
    scalar: Value = getattr(any_value, which, None) if which is not None else None
    return scalar


def _array(values: Any, depth: int) -> list[Value]:
    if len(values) > MAX_NUMBERS and values[0].WhichOneof("value") in ("double_value", "int_value"):
        values = values[:MAX_NUMBERS]
    return [_value(one, depth) for one in values]
