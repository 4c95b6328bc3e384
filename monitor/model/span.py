"""Spans and log records, encoded (on the way in) and decoded (once their trace is complete).

Field meanings are those of the OpenTelemetry protocol, `opentelemetry/proto/trace/v1/trace.proto` and `logs.proto`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from monitor.model.ack import Ack

# An attribute value as decoded from an OTLP AnyValue. An AnyValue without a value is None.
Value: TypeAlias = "str | bool | int | float | bytes | Sequence[Value] | Mapping[str, Value] | None"

Signal: TypeAlias = Literal["traces", "logs"]
SpanStatus: TypeAlias = Literal["unset", "ok", "error"]


class EncodedGroup(NamedTuple):
    """Spans (or log records) of one resource and one scope, each still an encoded protobuf message."""

    resource: bytes
    scope: bytes
    items: list[bytes]


class RefusedGroup(NamedTuple):
    """Spans (or log records) of one resource and one scope that were refused.

    `why` completes a sentence that begins with their number: `1 span` `larger than max_span_bytes`. A resource or scope
    that is itself too large is empty here.
    """

    resource: bytes
    scope: bytes
    items: Sequence[bytes]
    why: str


class RefusedParts(NamedTuple):
    """How many spans (or log records) of one trace were refused for the same reason."""

    signal: Signal
    why: str
    number: int


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """One delivery of spans or log records as protobuf, cut apart and not decoded further.

    `source` is the type of the source. With an `ack` the sender holds the durable copy: the batch is not written to
    disk, and the ack is settled when every result has been delivered. `refused` are the spans or records of this
    delivery that were refused; the traces they belong to are incomplete without them.
    """

    source: str
    signal: Signal
    groups: Sequence[EncodedGroup]
    ack: Ack | None = None
    refused: Sequence[RefusedGroup] = ()


class Part(NamedTuple):
    """One encoded span or log record, with the few fields that assembly needs.

    A log record has an empty `span_id` and `parent_id`; `is_root` is true for a span without a parent, or with one
    that lives in another process (OTLP span flags 0x100 and 0x200 set). `ended_ns` is in nanoseconds since 1970, or 0.
    """

    signal: Signal
    span_id: bytes
    parent_id: bytes
    is_root: bool
    ended_ns: int
    encoded: bytes
    resource: bytes
    scope: bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """The emitter of a span or record: its resource (a service) and instrumentation scope (a library)."""

    service_name: str = ""
    resource: Mapping[str, Value] = field(default_factory=dict)
    scope_name: str = ""
    scope_version: str = ""
    scope_attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """An event of a span. `time_ns` is in nanoseconds since 1970."""

    name: str
    time_ns: int = 0
    attributes: Mapping[str, Value] = field(default_factory=dict)


class SpanLink(NamedTuple):
    """A link from one span to another, often in another trace. An invalid id is empty."""

    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of a trace. Ids are lower-case hex (32 and 16 digits); `parent_id` is empty for a root.

    `links` holds only the first few links.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    name: str = ""
    kind: int = 0
    start_ns: int = 0
    end_ns: int = 0
    attributes: Mapping[str, Value] = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    status: SpanStatus = "unset"
    status_message: str = ""
    origin: Origin = field(default_factory=Origin)
    dropped_attributes: int = 0
    is_root: bool = False
    links: tuple[SpanLink, ...] = ()


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log record of a trace. `span_id` is empty if the emitter gave none."""

    trace_id: str
    span_id: str = ""
    event_name: str = ""
    time_ns: int = 0
    body: Value = None
    attributes: Mapping[str, Value] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    dropped_attributes: int = 0
