"""A disk that takes nothing while requests are being evaluated: nothing is lost, and it goes on when there is room."""

from __future__ import annotations

import json
import os
import resource
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import wait_until

NAMES = [f"row-{number}" for number in range(20)]
EVERYTHING = resource.RLIM_INFINITY
NOTHING = 0


def post(monitor: MonitorProcess, *names: str) -> int:
    rows = [{"request_id": one, "question": "What?", "contexts": ["That."], "answer": "That."} for one in names]
    return monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json")


def room(monitor: MonitorProcess, size: int) -> None:
    """Let files of the running monitor grow to so many bytes; a write beyond fails, as on a full disk."""
    assert monitor.process is not None
    _, hard = resource.prlimit(monitor.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(monitor.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def stored(folder: Path) -> Counter[str]:
    with closing(sqlite3.connect(folder / "state" / "history.db")) as database:
        return Counter(row[0] for row in database.execute("SELECT trace_id FROM results"))


def failing(monitor: MonitorProcess, database: str) -> bool:
    return monitor.total("ragmonitor_database_failing", database=database) == 1


@pytest.mark.parametrize("then", ["there is room again", "it is killed and starts on a disk with room"])
def test_what_was_acknowledged_before_the_disk_was_full_is_kept_until_the_history_has_it(
    tmp_path: Path, then: str
) -> None:
    config = {"evaluators": [{"type": "response_length"}], "alerts": [], "scoring": {"time_limit": "10m"}}
    with MonitorProcess(tmp_path, config) as monitor:
        wait_until(lambda: monitor.total("ragmonitor_workers") == 1, 30, "the worker process")
        (reader,) = monitor.children()
        os.kill(reader, signal.SIGSTOP)  # what is acknowledged now is read when the disk is full
        assert post(monitor, *NAMES) == 200
        room(monitor, NOTHING)
        os.kill(reader, signal.SIGCONT)
        wait_until(lambda: failing(monitor, "history"), 30, "a history that cannot be written")
        assert post(monitor, "refused") == 503
        wait_until(lambda: failing(monitor, "spool"), 30, "a spool that cannot be written")
        assert monitor.total("ragmonitor_requests_total", outcome="evaluated") == 0
        assert_balanced(monitor.samples())
        if then == "there is room again":
            room(monitor, EVERYTHING)
        else:
            monitor.kill()
            monitor.start()
        wait_until(lambda: stored(tmp_path) == Counter(NAMES), 60, "one result of each row in the history")
        wait_until(lambda: post(monitor, "accepted") == 200, 30, "being taken up again")
        wait_until(lambda: stored(tmp_path) == Counter([*NAMES, "accepted"]), 30, "the next result")
        evaluated = len(NAMES) + 1
        wait_until(
            lambda: monitor.total("ragmonitor_requests_total", outcome="evaluated") == evaluated, 30, "their end"
        )
        wait_until(lambda: monitor.total("ragmonitor_database_failing") == 0, 30, "databases that all work")
        logged = "ragmonitor_request_log_records_total"
        wait_until(lambda: monitor.total(logged, outcome="kept") == evaluated, 30, "the request log")
        for lost in ("ragmonitor_sink_failures_total", "ragmonitor_database_unwritten_records_total"):
            assert monitor.total(lost) == 0
        assert_balanced(monitor.samples())
        assert monitor.terminate() == 0


def test_it_ends_in_time_while_the_disk_takes_nothing_and_the_next_process_does_the_rest(tmp_path: Path) -> None:
    config = {"evaluators": [{"type": "response_length"}], "alerts": [], "scoring": {"time_limit": "10m"}}
    with MonitorProcess(tmp_path, config) as monitor:
        wait_until(lambda: monitor.total("ragmonitor_workers") == 1, 30, "the worker process")
        (reader,) = monitor.children()
        os.kill(reader, signal.SIGSTOP)
        assert post(monitor, *NAMES) == 200
        room(monitor, NOTHING)
        os.kill(reader, signal.SIGCONT)
        wait_until(lambda: failing(monitor, "history"), 30, "a history that cannot be written")
        assert monitor.terminate(15) == 0
        monitor.start()
        wait_until(lambda: stored(tmp_path) == Counter(NAMES), 60, "one result of each row in the history")
