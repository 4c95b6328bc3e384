"""The wall clock of the whole process jumps, as a time server or a resumed machine makes it jump."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.monitor import MonitorProcess, assert_balanced, faster
from tests.support.service import BAD, RagService
from tests.support.tools import wait_until

ENTRY = """
import sys
from pathlib import Path

from monitor.clock import SystemClock

offset, true_now = Path(sys.argv.pop(1)), SystemClock.now

def now(self):
    return true_now(self) + float(offset.read_text())

SystemClock.now = now
from monitor.__main__ import main
main()
"""
HOUR, DAY = 3600, 86_400
EACH = 40


class JumpingMonitor(MonitorProcess):
    """A monitor with a wall clock that `jump` sets to a distance from the true one."""

    @property
    def offset(self) -> Path:
        return self.folder / "offset"

    def jump(self, seconds: float) -> None:
        written = self.offset.with_suffix(".new")
        written.write_text(str(seconds))
        written.rename(self.offset)

    def spawn(self) -> None:
        self.jump(0)
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(self.config))
        with self.log.open("ab") as log:
            started = [sys.executable, "-c", ENTRY, str(self.offset), "run", "-c", str(path)]
            self.process = subprocess.Popen(started, stdout=log, stderr=log)


def firing(monitor: MonitorProcess) -> list[str]:
    """Return the names of the alerts that are firing."""
    return [one["name"] for one in json.loads(monitor.get("/api/v1/alerts"))["alerts"] if one["status"] == "firing"]


def test_f9_a_clock_that_jumps_costs_nothing_and_raises_no_alert(tmp_path: Path) -> None:
    alert = {"evaluator": "overlap_groundedness", "warning": "10%", "critical": "30%", "regression": True}
    config = {"evaluators": [{"type": "overlap_groundedness"}], "alerts": [alert]}
    with JumpingMonitor(tmp_path, config) as monitor:
        service = RagService.over_http(monitor.http)
        sent = 0
        for seconds in (0, HOUR, -HOUR, -DAY, DAY, 0):
            monitor.jump(seconds)
            for number in range(EACH):
                service.ask(f"Question {sent + number}?")
            service.flush()
            sent += EACH

            def evaluated(wanted: int = sent) -> bool:
                return monitor.total("ragmonitor_requests_total", outcome="evaluated") == wanted

            wait_until(evaluated, 20, f"all answers after a jump to {seconds} s")
            assert assert_balanced(monitor.samples()) == sent
            assert monitor.get("/-/ready") == "ready\n"
            assert firing(monitor) == []
        for number in range(3 * EACH):
            service.ask(f"Question {sent + number}?", BAD)
        service.flush()
        wait_until(lambda: firing(monitor), 60, "the alert on answers that got worse")
        assert monitor.terminate() == 0


def test_an_hour_passes_in_seconds_for_a_monitor_whose_clocks_run_fast(tmp_path: Path) -> None:
    """As `python -m tests.soak --speed` has them run: what is kept for an hour is gone soon."""
    monitor = MonitorProcess(tmp_path, {"evaluators": [{"type": "overlap_groundedness"}]})
    monitor.config["storage"] |= {"retention": "1h"}
    monitor.around = faster(600)
    with monitor:
        service = RagService.over_http(monitor.http)
        asked = 0

        def first_is_gone() -> bool:
            nonlocal asked
            service.ask(f"Question {asked}?")  # what is too old is deleted when something new is written
            service.flush()
            asked += 1
            found = json.loads(monitor.get("/api/v1/answers?outcome=any&since=30d&limit=200"))["answers"]
            return bool(found) and first not in {one["trace_id"] for one in found}

        first = service.ask("The first question?")
        service.flush()
        wait_until(first_is_gone, 60, "the end of the first answer")
        wait_until(lambda: monitor.total("ragmonitor_requests_total", outcome="evaluated") == asked + 1, 30, "the rest")
        assert assert_balanced(monitor.samples()) == asked + 1
        assert monitor.terminate() == 0
