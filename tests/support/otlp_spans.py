"""Single spans as OTLP/JSON, sent to a monitor."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.support.monitor import MonitorProcess


def span(trace_id: str, number: int, attributes: dict[str, str], *, parent: int = 0, failed: bool = False) -> Any:
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    return {
        "traceId": trace_id,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": f"step {number}",
        "startTimeUnixNano": str(time.time_ns() + number),
        "endTimeUnixNano": str(time.time_ns() + 1_000_000),
        "attributes": listed,
        "status": {"code": 2 if failed else 0, "message": "the user's secret question failed" if failed else ""},
    }


def send_spans(monitor: MonitorProcess, *spans: Any) -> None:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    scoped = {"scope": {"name": "openinference.instrumentation.own"}, "spans": spans}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}
    assert monitor.post(json.dumps(body).encode(), "/v1/traces", "application/json") == 200
