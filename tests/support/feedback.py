"""A monitor with local evaluators that has read one answer, and external scores sent to it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tests.support.monitor import MonitorProcess
from tests.support.service import GOOD, RagService
from tests.support.tools import wait_until

LOCAL: dict[str, Any] = {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []}


def answered(monitor: MonitorProcess, before: float = 0) -> str:
    """Make one request to the service, read by the monitor; return its trace id."""
    service = RagService.over_http(monitor.http)
    trace_id = service.ask("Can I get my money back?", GOOD)
    service.close()
    wait_until(lambda: monitor.total("ragmonitor_traces_total", app="shop") > before, 20, "the end of the trace")
    return trace_id


def post(monitor: MonitorProcess, *entries: dict[str, Any], expect: int = 200) -> dict[str, Any]:
    body = json.dumps(entries[0] if len(entries) == 1 else entries).encode()
    url = f"http://127.0.0.1:{monitor.http}/v1/feedback"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, said = answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        status, said = error.code, json.loads(error.read())
    assert status == expect, said
    return said


def came(monitor: MonitorProcess, number: float, **labels: str) -> None:
    wait_until(lambda: monitor.total("ragmonitor_external_scores_total", **labels) == number, 20, f"{labels}")
