r"""Texts that a sender has cut in the middle of an emoji: `"cut \ud83d"` in JSON."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import CONTEXT, GOOD
from tests.support.shape import REQUEST

CUT = b"Why \\ud83d"


def answer_to(monitor: MonitorProcess, path: str, body: bytes) -> dict[str, Any]:
    url = f"http://127.0.0.1:{monitor.http}{path}"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200
        return json.loads(answer.read())


def test_half_an_emoji_costs_neither_its_request_nor_those_that_came_with_it(tmp_path: Path) -> None:
    traces = json.loads(REQUEST.read_bytes())["resourceSpans"]
    ids = [f"{number:032x}" for number in (1, 2, 3)]
    sent = [json.dumps(traces).replace("0123456789abcdef" * 2, one) for one in ids]
    sent[1] = sent[1].replace("How long does the warranty", "CUT")
    row = {"request": "Why?", "response": GOOD, "retrieved_context": [{"content": CONTEXT}]}
    rows = [{**row, "request_id": "first"}, {**row, "request_id": "cut", "request": "CUT"}]
    vote = {"trace_id": ids[0], "thumbs": "down", "comment": "CUT"}
    with MonitorProcess(tmp_path, {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []}) as monitor:
        export = f'{{"resourceSpans": [{",".join(one[1:-1] for one in sent)}]}}'.encode()
        assert answer_to(monitor, "/v1/traces", export.replace(b"CUT", CUT)) == {}
        said = answer_to(monitor, "/v1/cases?service=rows", json.dumps(rows).encode().replace(b"CUT", CUT))
        assert said == {"accepted": 2, "rejected": 0, "errors": []}
        monitor.wait_for_total(3, "ragmonitor_requests_total", app="shop", outcome="evaluated")
        monitor.wait_for_total(2, "ragmonitor_requests_total", app="rows", outcome="evaluated")
        said = answer_to(monitor, "/v1/feedback", json.dumps(vote).encode().replace(b"CUT", CUT))
        assert said == {"accepted": 1, "rejected": 0, "errors": []}
        monitor.wait_for_total(1, "ragmonitor_external_scores_total", outcome="scored")
        assert_balanced(monitor.samples())
