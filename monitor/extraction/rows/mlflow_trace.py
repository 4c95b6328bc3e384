"""Read MLflow's own JSON of a trace into spans, as its SDK writes it: the current schema and the one before 3.0.

Current: `info.trace_id`, span ids in base64, `start_time_unix_nano`, `status: {code}`. Before: `info.request_id`,
`context: {span_id}` in hex, `start_time`, `status_code`. In both, attribute values are JSON in a text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final, NamedTuple

from monitor.extraction import slices, values
from monitor.model.span import Origin, Span, SpanEvent, SpanStatus, Value
from monitor.model.trace import Trace

_LAST_TIME: Final = 2**63 - 1
_STATUS: Final[dict[str, SpanStatus]] = {"OK": "ok", "ERROR": "error", "1": "ok", "2": "error"}
_METADATA: Final = ("trace_metadata", "request_metadata")


class TraceRow(NamedTuple):
    """A trace with the metadata that MLflow keeps beside its spans."""

    request_id: str
    trace: Trace
    app: str
    session_id: str
    user_id: str
    facts: Mapping[str, str]
    expectations: Mapping[str, Value]
    """People's expectations of the answer, by the name they gave, such as `expected_response`."""


def is_trace(value: Value) -> bool:
    """Return whether a value, or the JSON in a text, has the outline of a trace."""
    return _halves(value) is not None


def named(value: Value) -> tuple[str, str]:
    """Return MLflow's id of the trace, unchanged, and the service named in its tags; empty texts where missing."""
    halves = _halves(value)
    return (_request_id(halves[0]), _app(halves[0])) if halves else ("", "")


def read(value: Value) -> TraceRow | None:
    """Read the trace in a value; None if there is none. List items that are not spans are left out."""
    halves = _halves(value)
    if halves is None:
        return None
    info, listed = halves
    name = _app(info)
    metadata = next((found for key in _METADATA if (found := _pairs(info.get(key)))), {})
    origin = Origin(service_name=name)
    spans = [span for item in listed if (span := _span(item, origin)) is not None]
    spans.sort(key=lambda span: (span.start_ns, span.span_id))
    trace = Trace(trace_id=_request_id(info), spans=tuple(spans), app=name)
    return TraceRow(
        request_id=trace.trace_id,
        trace=trace,
        app=name,
        session_id=values.text(metadata.get("mlflow.trace.session")),
        user_id=values.text(metadata.get("mlflow.trace.user")),
        expectations=_expectations(info.get("assessments")),
        facts=slices.of_attributes({k: v for k, v in _pairs(info.get("tags")).items() if not k.startswith("mlflow.")}),
    )


def _expectations(given: Value) -> dict[str, Value]:
    """Return the expectations among the assessments of a trace; if several have the same name, the last."""
    found = {}
    for one in values.elements(given) or ():
        expectation = one.get("expectation") if isinstance(one, Mapping) and one.get("valid") is not False else None
        name = values.text(values.first(one, ("name", "assessment_name"))) if isinstance(one, Mapping) else ""
        if name and isinstance(expectation, Mapping):
            serialized = expectation.get("serialized_value")
            held = values.unfold(serialized.get("value")) if isinstance(serialized, Mapping) else None
            found[name] = held if held is not None else expectation.get("value")
    return found


def _halves(value: Value) -> tuple[Mapping[str, Value], list[Value]] | None:
    whole = values.unfold(value)
    if not isinstance(whole, Mapping):
        return None
    info, data = whole.get("info"), whole.get("data")
    spans = values.elements(data.get("spans")) if isinstance(data, Mapping) else None
    return (info, list(spans)) if isinstance(info, Mapping) and spans is not None else None


def _request_id(info: Mapping[str, Value]) -> str:
    return values.text(values.first(info, ("trace_id", "request_id")))


def _app(info: Mapping[str, Value]) -> str:
    return values.text(_pairs(info.get("tags")).get("service.name"))


def _pairs(value: Value) -> Mapping[str, Value]:
    """Return a mapping unchanged, or build one from a list of `{key, value}`."""
    if isinstance(value, Mapping):
        return value
    listed = [item for item in values.elements(value) or () if isinstance(item, Mapping)]
    return {values.text(item.get("key")): item.get("value") for item in listed}


def _span(item: Value, origin: Origin) -> Span | None:
    if not isinstance(item, Mapping):
        return None
    context = item.get("context")
    within = context if isinstance(context, Mapping) else item
    span_id = _hex(within.get("span_id"))
    if not span_id:
        return None
    parent = _hex(values.first(item, ("parent_span_id", "parent_id")))
    attributes = item.get("attributes")
    status = item.get("status")
    stated = status if isinstance(status, Mapping) else {"code": item.get("status_code"), "message": None}
    return Span(
        trace_id=_hex(within.get("trace_id")),
        span_id=span_id,
        parent_id=parent,
        name=values.text(item.get("name")),
        start_ns=_time(values.first(item, ("start_time_unix_nano", "start_time"))),
        end_ns=_time(values.first(item, ("end_time_unix_nano", "end_time"))),
        attributes=attributes if isinstance(attributes, Mapping) else {},
        events=tuple(_event(e) for e in values.elements(item.get("events")) or () if isinstance(e, Mapping)),
        status=_STATUS.get(values.text(stated.get("code")).removeprefix("STATUS_CODE_").upper(), "unset"),
        status_message=values.text(
            values.first({**stated, "beside": item.get("status_message")}, ("message", "beside"))
        ),
        origin=origin,
        is_root=not parent,
    )


def _event(event: Mapping[str, Value]) -> SpanEvent:
    attributes = event.get("attributes")
    return SpanEvent(
        values.text(event.get("name")),
        _time(values.first(event, ("time_unix_nano", "timestamp"))),
        attributes if isinstance(attributes, Mapping) else {},
    )


def _hex(value: Value) -> str:
    """Return a span id as 16 hex digits, a trace id as 32, read from such digits, a hex number or base64."""
    text = values.text(value).strip()
    digits = text[2:].lower() if text[:2] in ("0x", "0X") else text.lower()
    if len(digits) in (16, 32) and not set(digits) - set("0123456789abcdef"):
        return digits
    if text[:2] in ("0x", "0X") and not set(digits) - set("0123456789abcdef"):
        return digits.rjust(16, "0") if digits else ""
    try:
        return base64.b64decode(text, validate=True).hex()[:32]
    except (binascii.Error, ValueError):
        return ""


def _time(value: Value) -> int:
    """Return a time in nanoseconds since 1970; 0 for a value that cannot be a time."""
    found = value if isinstance(value, int) and not isinstance(value, bool) else values.count(value)
    return found if found is not None and 0 < found <= _LAST_TIME else 0
