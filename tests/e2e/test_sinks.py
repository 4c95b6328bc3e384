"""What a sink whose receiver fails does to the rest of the monitor: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.http_api import HttpApi, Says
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import BAD, RagService
from tests.support.tools import free_port, wait_until

REQUESTS = 100


def monitor_with(folder: Path, sink: dict[str, Any]) -> MonitorProcess:
    monitor = MonitorProcess(folder, {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []})
    monitor.config["sinks"].append(sink)
    return monitor


def ask(monitor: MonitorProcess, times: int) -> None:
    service = RagService.over_http(monitor.http)
    for number in range(times):
        service.ask(f"Can I get my money back after {number} days?", BAD)
    service.close()


def test_while_a_receiver_is_down_verdicts_go_on_and_each_that_it_lacks_is_counted(tmp_path: Path) -> None:
    """Waiting out the time-out for each would take a minute."""
    sink = {"type": "langfuse", "url": f"http://127.0.0.1:{free_port()}", "public_key": "pk", "secret_key": "sk-secret"}
    with monitor_with(tmp_path, {**sink, "timeout": "2s"}) as monitor:
        ask(monitor, REQUESTS)
        failures = {"sink": "langfuse"}
        wait_until(lambda: monitor.total("ragmonitor_sink_failures_total", **failures) == REQUESTS, 20, "the failures")
        assert monitor.total("ragmonitor_evaluations_total") == REQUESTS
        assert_balanced(monitor.samples())
        assert "sk-secret" not in monitor.log.read_text()


def test_a_receiver_that_hangs_does_not_hold_up_stopping(tmp_path: Path) -> None:
    with HttpApi(Says(seconds=60)) as api:
        sink = {"type": "otel_events", "protocol": "http", "endpoint": api.url, "timeout": "60s"}
        with monitor_with(tmp_path, sink) as monitor:
            ask(monitor, 10)
            wait_until(lambda: api.asked, 20, "the first event")
            assert monitor.terminate(10) == 0
