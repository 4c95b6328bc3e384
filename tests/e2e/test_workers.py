"""Worker processes read and score: a text that hangs or kills one costs its own request, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import monitor as monitor_package
from tests.support import plugins
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import RagService
from tests.support.tools import wait_until


class Monitor(MonitorProcess):
    """A monitor with workers, and an evaluator that does to its process what an answer asks for."""

    def __init__(self, folder: Path, processes: int = 1, **scoring: Any) -> None:
        config = {
            "evaluators": [{"type": "sensitive"}, {"type": "refusal_pattern"}],
            "alerts": [],
            "scoring": {"processes": processes, **scoring},
        }
        super().__init__(folder, config)
        self.environment = plugins.install(folder / "plugins")

    def rows(self, *answers: str) -> None:
        rows = [{"request_id": one, "question": "What?", "contexts": ["That."], "answer": one} for one in answers]
        assert self.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200

    def outcomes(self, outcome: str) -> float:
        return self.total("ragmonitor_traces_total", outcome=outcome)

    def wait_for(self, read: float, poison: float = 0) -> None:
        """Wait until so many traces were read and set aside, and nothing is left."""
        wait_until(
            lambda: self.outcomes("read") == read and self.outcomes("poison") == poison,
            60,
            lambda: f"{read} read and {poison} set aside; the log: {self.log.read_text()}",
        )
        assert_balanced(self.samples())

    def only_worker(self) -> int:
        """The process of its only worker; one that helped, because that was slow, ends soon."""
        assert self.process is not None
        wait_until(lambda: len(workers_of(self.process.pid)) == 1, 60, "a single worker")
        (worker,) = workers_of(self.process.pid)
        return worker

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line.get("event") == event]


def workers_of(process: int) -> list[int]:
    """The processes that a process has started, from what the system says."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(path.parent.name))
    return found


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[Monitor]:
    process = Monitor(tmp_path, time_limit="500ms")
    yield process
    process.kill()


@pytest.mark.parametrize("how", ["LOOP-IN-PYTHON", "LOOP-IN-C"])
def test_a_text_that_hangs_its_reader_costs_one_request(monitor: Monitor, how: str) -> None:
    with monitor:
        monitor.rows("good-1", how, "good-2")
        monitor.wait_for(read=2, poison=1)
        assert monitor.total("ragmonitor_workers_replaced_total", reason="hung") == 1
        (event,) = monitor.events("request_set_aside")
        assert event["at"].startswith("sensitive_plugin.py:")
        aside = monitor.folder / "state" / "poison" / f"{how}.jsonl"
        assert how in aside.read_text()
        assert aside.stat().st_mode & 0o077 == 0
        monitor.terminate()
    with monitor:  # one life was enough: it is not read again
        assert monitor.total("ragmonitor_traces_received_total") == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_while_a_text_hangs_its_reader_all_else_goes_on(tmp_path: Path, processes: int) -> None:
    with Monitor(tmp_path, processes, time_limit="1h") as monitor:
        monitor.rows("LOOP-IN-C")
        monitor.rows(*(f"good-{number}" for number in range(20)))
        wait_until(lambda: monitor.outcomes("read") == 20, 60, "all but the one that hangs")
        wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 1, 60, "nothing waits behind it")
        assert monitor.get("/-/healthy") == "healthy\n"
        assert monitor.total("ragmonitor_workers_replaced_total") == 0
        assert_balanced(monitor.samples())
        monitor.terminate()  # does not wait for it


def test_a_worker_that_is_slow_has_help_until_it_is_done(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with Monitor(tmp_path, time_limit="1h") as monitor:
        monitor.rows(f"WAIT-FOR {done}", *(f"good-{number}" for number in range(8)))
        wait_until(lambda: monitor.outcomes("read") == 8, 60, "those behind the slow one, read by another worker")
        wait_until(lambda: monitor.total("ragmonitor_workers") == 2, 60, "the worker that helps")
        done.touch()
        monitor.wait_for(read=9)
        wait_until(lambda: monitor.total("ragmonitor_workers") == 1, 60, "the end of the help")
        monitor.rows("good")
        monitor.wait_for(read=10)
        assert monitor.total("ragmonitor_evaluations_total", evaluator="sensitive") == 10, "each once"
        assert monitor.total("ragmonitor_workers_replaced_total") == 0


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("__init__.py", "# Later.", "upgraded"),
        ("pipeline/workers/process.py", "raise OSError", "not_started"),
    ],
)
def test_where_an_upgrade_under_the_running_monitor_leaves_it_without_workers_it_reads_by_itself(
    tmp_path: Path, file: str, content: str, reason: str
) -> None:
    monitor = Monitor(tmp_path)
    package = tmp_path / "installed" / "monitor"
    shutil.copytree(Path(monitor_package.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert monitor.environment is not None
    path = os.pathsep.join((str(package.parent), monitor.environment["PYTHONPATH"]))
    monitor.environment |= {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    with monitor:
        monitor.rows("good-1")
        monitor.wait_for(read=1)
        worker = monitor.only_worker()
        changed = package / file
        changed.write_text(f"{changed.read_text()}\n{content}\n")
        monitor.rows("good-2")  # by the worker that runs
        monitor.wait_for(read=2)
        os.kill(worker, signal.SIGKILL)
        monitor.rows("good-3")
        monitor.wait_for(read=3)
        wait_until(lambda: len(monitor.events("no_workers")) == 1, 60, "the line that says so")
        monitor.wait_for_total(0, "ragmonitor_workers")
        assert monitor.total("ragmonitor_workers_replaced_total", reason=reason) >= 1
        monitor.rows("good-4")
        monitor.wait_for(read=4)
        assert len(monitor.events("no_workers")) == 1
        assert monitor.terminate() == 0


@pytest.mark.parametrize("how", ["EXIT", "KILL"])
def test_a_text_that_kills_its_reader_costs_one_request(monitor: Monitor, how: str) -> None:
    with monitor:
        monitor.rows("good-1", how, "good-2")
        service = RagService.over_http(monitor.http)
        service.ask("What?", how)
        service.ask("What?", "That.")
        service.flush()
        monitor.wait_for(read=3, poison=2)
        assert monitor.total("ragmonitor_workers_replaced_total", reason="died") == 4, "each had a second chance"
        wait_until(lambda: monitor.total("ragmonitor_workers") == 1, 60, "its successor")
        kept = {path.suffix for path in (monitor.folder / "state" / "poison").iterdir()}
        assert kept == {".jsonl", ".pb"}
        monitor.terminate()
    with monitor:
        assert monitor.total("ragmonitor_traces_received_total") == 0


def test_a_text_that_makes_its_reader_sleep_is_ended_by_the_clock(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, time_limit="200ms")
    with monitor:
        monitor.rows("SLEEP", "good")
        monitor.wait_for(read=1, poison=1)
        monitor.terminate()


def test_a_worker_that_ends_for_another_reason_costs_nothing(monitor: Monitor) -> None:
    with monitor:
        monitor.rows("good-1")
        monitor.wait_for(read=1)
        os.kill(monitor.only_worker(), signal.SIGKILL)
        monitor.rows("good-2")
        monitor.wait_for(read=2)
        assert monitor.total("ragmonitor_workers_replaced_total", reason="died") == 1


def test_what_an_evaluator_raises_comes_back_without_its_text(monitor: Monitor) -> None:
    with monitor:
        monitor.rows("RAISE with the secret of a user", "good")
        monitor.wait_for(read=2)
        assert monitor.total("ragmonitor_unscored_total", evaluator="sensitive", reason="error") == 1
        (event,) = monitor.events("evaluator_failed")
        assert event["error"].startswith("RuntimeError at sensitive_plugin.py:")
        assert "secret" not in monitor.log.read_text()


def test_with_two_workers_nothing_is_lost_and_each_works(tmp_path: Path) -> None:
    with Monitor(tmp_path, 2, time_limit="1s") as monitor:
        wait_until(lambda: monitor.total("ragmonitor_workers") == 2, 60, "both workers")
        service = RagService.over_http(monitor.http)
        for number in range(60):
            service.ask(f"What {number}?", "That.")
        service.flush()
        monitor.rows(*(f"row-{number}" for number in range(60)), "LOOP-IN-C", "EXIT", *(f"more-{n}" for n in range(30)))
        monitor.wait_for(read=150, poison=2)
        for name in ("sensitive", "refusal_pattern"):
            assert monitor.total("ragmonitor_evaluations_total", evaluator=name) == 150


def test_workers_end_with_the_monitor_however_it_ends(tmp_path: Path) -> None:
    monitor = Monitor(tmp_path, 2, time_limit="1s")
    workers: list[int] = []
    for end in (monitor.terminate, monitor.kill):
        monitor.start()
        assert monitor.process is not None
        wait_until(lambda: monitor.total("ragmonitor_workers") == 2, 60, "both workers")
        workers[:] = workers_of(monitor.process.pid)
        assert len(workers) == 2
        monitor.rows(f"LOOP-IN-C {end.__name__}")  # one of them is busy now, or soon
        end()
        wait_until(lambda: not any(map(is_running, workers)), 60, "the end of the workers")


def test_signals_to_the_whole_group_leave_workers_at_work_until_all_is_done(monitor: Monitor) -> None:
    with monitor:
        wait_until(lambda: monitor.total("ragmonitor_workers") == 1, 60, "the worker")
        assert monitor.process is not None
        for one in workers_of(monitor.process.pid):
            os.kill(one, signal.SIGINT)
            os.kill(one, signal.SIGTERM)
        monitor.rows("good")
        monitor.wait_for(read=1)
        assert monitor.total("ragmonitor_workers_replaced_total") == 0
        assert monitor.terminate() == 0
