"""Texts and bodies made to be slow to read, sent to a running monitor: it answers others meanwhile.

None of these tests measures time. Each text is so long that reading it in more than linear time would take minutes or
days, and a request for the monitor's health that waits for it fails.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import wait_until

UNENDING = b"," * 1_000_001 + b'"' + b'\\"' * 1_400_000


@pytest.fixture(scope="module")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitorProcess]:
    config: dict[str, Any] = {
        "evaluators": [{"type": "injection_pattern"}, {"type": "pii_leak"}, {"type": "refusal_pattern"}],
        "redaction": {"enabled": True},
        "alerts": [],
    }
    with MonitorProcess(tmp_path_factory.mktemp("hostile"), config) as process:
        yield process


def answers_while(monitor: MonitorProcess, send: Callable[[], int]) -> int:
    """Return the status that `send` was answered with; asks for the monitor's health until then."""
    status: list[int] = []
    sender = threading.Thread(target=lambda: status.append(send()))
    sender.start()
    while sender.is_alive():
        assert monitor.get("/-/healthy") == "healthy\n"
    assert monitor.get("/-/healthy") == "healthy\n"
    return status[0]


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/logs", "/v1/cases", "/v1/feedback"])
def test_a_string_without_end_is_refused_and_others_are_answered(monitor: MonitorProcess, path: str) -> None:
    body = gzip.compress(UNENDING)
    assert len(body) < 8192
    headers = {"content-type": "application/json", "content-encoding": "gzip"}

    def send() -> int:
        url = f"http://127.0.0.1:{monitor.http}{path}"
        return httpx.post(url, content=body, headers=headers, trust_env=False, timeout=60).status_code

    assert answers_while(monitor, send) == 413


HOSTILE = {
    "headings": "system " + "#" * 80_000,
    "passports": "reisepass" * 9_000,
    "prompts": "промпт " + "системн" * 12_000,
    "spaces": "a" + " " * 80_000 + "a",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_text_made_to_be_slow_is_evaluated_and_others_are_answered(monitor: MonitorProcess, name: str) -> None:
    text = HOSTILE[name]
    row = {"question": text, "contexts": [text], "answer": text}
    before = monitor.total("ragmonitor_evaluations_total")
    sent = answers_while(monitor, lambda: monitor.post(json.dumps([row]).encode(), "/v1/cases", "application/json"))
    assert sent == 200
    wait_until(lambda: monitor.total("ragmonitor_evaluations_total") == before + 3, 60, "the scores of the row")
    assert monitor.get("/-/healthy") == "healthy\n"
    assert_balanced(monitor.samples())
