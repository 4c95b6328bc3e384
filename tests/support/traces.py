"""Traces for the tests: built span by span, or read from recorded captures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from monitor import registry
from monitor.extraction import compose
from monitor.model.case import Reading, TraceReading
from monitor.model.span import LogRecord, Origin, Part, Signal, Span, SpanStatus, Value
from monitor.model.trace import Closed, Trace
from monitor.transport.otlp import json_mapping, wire

_DATA = Path(__file__).parents[1] / "data"
CAPTURES, RECORDED = _DATA / "captures", _DATA / "recorded"
SETUPS = {
    f"{folder.name}/{path.name}": path
    for folder in (CAPTURES, RECORDED)
    for path in sorted(folder.iterdir())
    if path.is_dir()
}
"""Every recorded set-up by name: `captures/...` were received as they are, `recorded/...` are from `tests/record`."""

TRACE_ID = "0123456789abcdef0123456789abcdef"


class Builder:
    """A trace being built: each span starts after the previous one, and ends with the whole trace."""

    def __init__(self, service: str = "rag") -> None:
        self.spans: list[Span] = []
        self.records: list[LogRecord] = []
        self.service = service

    def span(
        self,
        name: str,
        attributes: Mapping[str, Value] | None = None,
        parent: str = "",
        *,
        kind: int = 1,
        status: SpanStatus = "unset",
        message: str = "",
        root: bool | None = None,
        service: str = "",
    ) -> str:
        number = len(self.spans) + 1
        span_id = f"{number:016x}"
        self.spans.append(
            Span(
                trace_id=TRACE_ID,
                span_id=span_id,
                parent_id=parent,
                name=name,
                kind=kind,
                start_ns=number * 1000,
                end_ns=2_000_000_000,
                attributes=attributes or {},
                status=status,
                status_message=message,
                origin=Origin(service_name=service or self.service),
                is_root=not parent if root is None else root,
            )
        )
        return span_id

    def oi(self, span_kind: str, attributes: Mapping[str, Value] | None = None, parent: str = "", **rest: Any) -> str:
        """Add a span in OpenInference's dialect."""
        marked = {"openinference.span.kind": span_kind, **(attributes or {})}
        return self.span(span_kind.lower(), marked, parent, **rest)

    def llm(self, user: str, answer: str | None, parent: str = "", *, system: str = "", **rest: Any) -> str:
        """Add a model call in OpenInference's dialect."""
        sent = ([("system", system)] if system else []) + [("user", user)]
        attributes: dict[str, Value] = {"llm.model_name": "m"}
        for at, (role, content) in enumerate(sent):
            attributes[f"llm.input_messages.{at}.message.role"] = role
            attributes[f"llm.input_messages.{at}.message.content"] = content
        if answer is not None:
            attributes["llm.output_messages.0.message.role"] = "assistant"
            attributes["llm.output_messages.0.message.content"] = answer
        return self.oi("LLM", attributes, parent, **rest)

    def log(self, event: str, span_id: str, body: Value = None, attributes: Mapping[str, Value] | None = None) -> None:
        self.records.append(
            LogRecord(TRACE_ID, span_id, event, len(self.records) + 1, body, attributes or {}, Origin(self.service))
        )

    def trace(self, closed: Closed = Closed.ROOT_ENDED) -> Trace:
        return Trace(TRACE_ID, tuple(self.spans), tuple(self.records), closed, app="seen-first", source="test")

    def read(self, closed: Closed = Closed.ROOT_ENDED) -> Reading:
        """Return the reading of a trace that has only one."""
        (reading,) = self.read_all(closed).readings
        return reading

    def read_all(self, closed: Closed = Closed.ROOT_ENDED) -> TraceReading:
        return compose.read(self.trace(closed), registry.conventions())


def documents(prefix: str, texts: Sequence[str]) -> dict[str, Value]:
    """Return documents flattened as in OpenInference."""
    found: dict[str, Value] = {}
    for at, text in enumerate(texts):
        found[f"{prefix}.{at}.document.content"] = text
        found[f"{prefix}.{at}.document.id"] = f"id-{text[:8]}"
    return found


def captured_parts(setup: str) -> dict[bytes, list[Part]]:
    """Return the parts of every recorded trace of a set-up (a key of `SETUPS`), in order of arrival."""
    traces: dict[bytes, list[Part]] = {}
    for path in sorted(SETUPS[setup].iterdir()):
        content = path.read_bytes()
        if path.name == "expected.json" or path.is_dir():
            continue
        signal: Signal = "logs" if path.name.endswith(".logs.pb") or b'"resourceLogs"' in content else "traces"
        encoded = json_mapping.to_protobuf(signal, content) if path.suffix == ".json" else content
        for trace_id, part in wire.offline_parts(signal, wire.split(encoded)):
            traces.setdefault(trace_id, []).append(part)
    return traces


def expected(setup: str) -> dict[str, dict[str, Any]]:
    """Return the recorded application's own questions and answers, by trace id."""
    found: dict[str, dict[str, Any]] = json.loads((SETUPS[setup] / "expected.json").read_text())["traces"]
    return found
