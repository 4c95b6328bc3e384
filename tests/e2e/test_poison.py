"""A request that ends the monitor's own process: after two processes it is set aside, and the monitor runs on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command import command
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import RagService
from tests.support.tools import wait_until

KILLER = """
import os

from monitor.evaluators.refusal_pattern import RefusalPattern

whole = RefusalPattern.evaluate

async def evaluate(self, case, judge):
    if "KILL" in case.response:
        os._exit(9)
    return await whole(self, case, judge)

RefusalPattern.evaluate = evaluate
from monitor.__main__ import main
main()
"""
"""A monitor in which a certain answer does what a crash of a library would."""


class Killable(MonitorProcess):
    """A monitor that ends, at once and without cleaning up, when it evaluates an answer with KILL in it."""

    def spawn(self) -> None:
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(self.config))
        with self.log.open("ab") as log:
            started = [sys.executable, "-c", KILLER, "run", "-c", str(path)]
            self.process = subprocess.Popen(started, stdout=log, stderr=log)

    def ended(self) -> int:
        assert self.process is not None
        return self.process.wait(60)

    def send(self, *answers: str) -> None:
        rows = [
            {"request_id": answer, "question": "What?", "contexts": ["That."], "answer": answer} for answer in answers
        ]
        try:
            self.post(json.dumps(rows).encode(), "/v1/cases", "application/json")
        except OSError:
            assert self.ended() == 9  # it may be quicker than its answer


@pytest.fixture
def monitor(tmp_path: Path):
    evaluators = [{"type": "refusal_pattern"}]
    process = Killable(tmp_path, {"evaluators": evaluators, "alerts": [], "scoring": {"processes": 0}})
    yield process
    process.kill()


def why(monitor: MonitorProcess, request_id: str) -> dict[str, Any]:
    """Return what the command says of a request: nothing before the request log, which is written late, has it."""
    found = command("why", request_id, "-c", monitor.folder / "config.yaml", "--json")
    return json.loads(found.stdout or "{}")


def test_a_request_that_ends_the_process_is_set_aside_after_two_lives(monitor: Killable) -> None:
    monitor.start()
    monitor.send("good-1", "KILL-2", "good-3")
    assert monitor.ended() == 9
    monitor.spawn()
    assert monitor.ended() == 9  # replayed
    with monitor:
        wait_until(lambda: monitor.total("ragmonitor_traces_total", outcome="poison") == 1, 20, "the request set aside")
        wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 20, "the other requests")
        assert_balanced(monitor.samples())
        assert monitor.total("ragmonitor_traces_total", outcome="read") >= 1  # one may have been finished earlier
        assert monitor.post(b'[{"question": "What?", "answer": "good"}]', "/v1/cases", "application/json") == 200
        aside = monitor.folder / "state" / "poison" / "KILL-2.jsonl"
        assert "KILL-2" in aside.read_text()
        assert aside.stat().st_mode & 0o077 == 0
        wait_until(lambda: why(monitor, "KILL-2").get("cause") == "poison", 20, "the line in the request log")
        assert "set aside" in json.dumps(why(monitor, "KILL-2"))
        assert "request_set_aside" in monitor.log.read_text()
        monitor.terminate()
    with monitor:  # nothing of it is left that could end another process
        monitor.wait_for_total(0, "ragmonitor_spool_records")
        assert monitor.total("ragmonitor_traces_total", outcome="poison") == 0


def test_a_process_that_is_killed_while_nothing_is_read_counts_against_no_request(monitor: Killable) -> None:
    for _ in range(3):
        with monitor:
            monitor.send("good")
            wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 20, "the request")
    with monitor:
        assert monitor.total("ragmonitor_traces_total", outcome="poison") == 0


def test_a_trace_that_ends_the_process_is_set_aside_as_a_file_that_cases_reads(monitor: Killable) -> None:
    monitor.start()
    service = RagService.over_http(monitor.http)
    service.ask("Can I get my money back?", "KILL")
    service.flush()
    assert monitor.ended() == 9
    monitor.spawn()
    assert monitor.ended() == 9
    with monitor:
        wait_until(lambda: monitor.total("ragmonitor_traces_total", outcome="poison") == 1, 20, "the trace set aside")
        assert_balanced(monitor.samples())
        (aside,) = (monitor.folder / "state" / "poison").iterdir()
        assert aside.suffix == ".pb"
        assert "Can I get my money back?" in command("cases", aside).stdout
