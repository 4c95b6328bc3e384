"""What a sink whose receiver fails does to the rest of the monitor: nothing. It gets every result all the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.http_api import Asked, HttpApi, Says
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import BAD, RagService
from tests.support.tools import free_port, wait_until

REQUESTS = 40


def monitor_with(folder: Path, *sinks: dict[str, Any]) -> MonitorProcess:
    monitor = MonitorProcess(folder, {"evaluators": [{"type": "overlap_groundedness"}], "alerts": []})
    monitor.config["sinks"].extend(sinks)
    return monitor


def langfuse(url: str) -> dict[str, Any]:
    return {"type": "langfuse", "url": url, "timeout": "2s", "public_key": "pk", "secret_key": "sk-secret"}


def ask(monitor: MonitorProcess, times: int) -> None:
    service = RagService.over_http(monitor.http)
    for number in range(times):
        service.ask(f"Can I get my money back after {number} days?", BAD)
    service.close()


def written(path: Path) -> list[str]:
    """The ids of the results in a file of the sink `jsonl`."""
    return [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []


def received(api: HttpApi) -> set[str]:
    """The ids of the results that came; a kill may have cut one off."""
    return {asked.json["id"] for asked in list(api.asked) if asked.content.endswith(b"}")}


def said(monitor: MonitorProcess, event: str, sink: str) -> int:
    """How many lines of the log are of this event and sink."""
    lines = [json.loads(line) for line in monitor.log.read_text().splitlines() if line.startswith("{")]
    return sum(line.get("event") == event and line.get("sink") == sink for line in lines)


@contextmanager
def killed_at_the_end(monitor: MonitorProcess) -> Iterator[MonitorProcess]:
    try:
        yield monitor.start()
    finally:
        monitor.kill()


def test_receivers_that_are_down_or_hang_delay_no_other_sink_and_get_everything_after_a_kill(tmp_path: Path) -> None:
    """One of the results is refused by the receiver when it is back: it costs only itself."""
    port, lines = free_port(), tmp_path / "results.jsonl"
    with HttpApi(Says(seconds=60)) as hangs:
        otel = {"type": "otel_events", "protocol": "http", "endpoint": hangs.url, "timeout": "2s"}
        monitor = monitor_with(
            tmp_path, langfuse(f"http://127.0.0.1:{port}"), otel, {"type": "jsonl", "path": str(lines)}
        )
        with killed_at_the_end(monitor):
            assert said(monitor, "sink_begins", "langfuse") == 1
            ask(monitor, REQUESTS)
            wait_until(lambda: len(written(lines)) == REQUESTS, 60, "the results in the file")
            for sink in ("langfuse", "otel_events"):
                wait_until(
                    lambda sink=sink: monitor.total("ragmonitor_sink_lag_results", sink=sink) == REQUESTS, 60, "the lag"
                )
                assert monitor.total("ragmonitor_sink_lag_seconds", sink=sink) > 0
            wait_until(
                lambda: monitor.total("ragmonitor_sink_failures_total", sink="langfuse") >= 3, 60, "some attempts"
            )
            assert said(monitor, "sink_failed", "langfuse") == 1
            assert monitor.total("ragmonitor_evaluations_total") == REQUESTS
            assert_balanced(monitor.samples())
            monitor.kill()
    results = written(lines)

    def takes_all_but_one(asked: Asked) -> Says:
        return Says(413) if results[7].encode() in asked.content else Says()

    monitor.config["sinks"] = [sink for sink in monitor.config["sinks"] if sink["type"] != "otel_events"]
    with killed_at_the_end(monitor):
        wait_until(lambda: said(monitor, "sink_failed", "langfuse") == 2, 60, "another attempt")
        with HttpApi(takes_all_but_one, port=port) as api:
            counted = {"sent": REQUESTS - 1, "rejected": 1}
            for outcome, number in counted.items():
                labels = {"sink": "langfuse", "outcome": outcome}
                wait_until(
                    lambda labels=labels, number=number: (
                        monitor.total("ragmonitor_sink_results_total", **labels) == number
                    ),
                    90,
                    outcome,
                )
            assert set(results) == received(api)
            wait_until(lambda: said(monitor, "sink_recovered", "langfuse") == 1, 30, "the line that it works again")
            wait_until(lambda: monitor.total("ragmonitor_sink_lag_results", sink="langfuse") == 0, 30, "the lag")
        assert said(monitor, "sink_rejected", "langfuse") == 1
        assert not [one for one in monitor.samples()["ragmonitor_sink_position"] if one[0]["sink"] == "otel_events"]
        assert set(written(lines)) == set(results)
        assert "sk-secret" not in monitor.log.read_text()
        assert monitor.terminate(10) == 0


def arrived_whole(api: HttpApi) -> set[str]:
    """Return the ids of the results that arrived whole: of some, a kill cut the request off."""
    found = set()
    for asked in list(api.asked):
        with suppress(ValueError):
            found.add(asked.json["id"])
    return found


def test_a_kill_at_any_moment_costs_a_sink_no_result(tmp_path: Path) -> None:
    lines = tmp_path / "results.jsonl"
    with HttpApi(Says(seconds=0.05)) as api:
        monitor = monitor_with(tmp_path, langfuse(api.url), {"type": "jsonl", "path": str(lines)})
        for _ in range(2):
            before = len(api.asked)
            with killed_at_the_end(monitor):
                ask(monitor, REQUESTS)
                wait_until(lambda before=before: len(api.asked) > before + REQUESTS // 4, 60, "a part of them")
        with killed_at_the_end(monitor):
            wait_until(lambda: len(set(written(lines))) == 2 * REQUESTS, 60, "all in the file")
            wait_until(
                lambda: arrived_whole(api) == set(written(lines)),
                60,
                "all at the receiver",
            )


def test_two_sinks_of_a_type_have_names_of_their_own(tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    sinks = ({"type": "jsonl", "path": str(first)}, {"type": "jsonl", "path": str(second), "name": "archive"})
    with monitor_with(tmp_path, *sinks) as monitor:
        ask(monitor, 3)
        wait_until(lambda: len(written(first)) == len(written(second)) == 3, 60, "the files")
        wait_until(
            lambda: (
                Counter(
                    {
                        labels["sink"]: value
                        for labels, value in monitor.samples()["ragmonitor_sink_results_total"]
                        if labels["outcome"] == "sent"
                    }
                )
                == {"jsonl": 3, "archive": 3}
            ),
            30,
            "the counts",
        )


def test_a_receiver_that_hangs_does_not_hold_up_stopping(tmp_path: Path) -> None:
    with HttpApi(Says(seconds=60)) as api:
        sink = {"type": "otel_events", "protocol": "http", "endpoint": api.url, "timeout": "60s"}
        with monitor_with(tmp_path, sink) as monitor:
            ask(monitor, 10)
            wait_until(lambda: api.asked, 20, "the first event")
            assert monitor.terminate(10) == 0
