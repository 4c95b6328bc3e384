"""A monitor that ends between any two durable steps: the next one loses nothing and counts nothing twice."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from tests.support.failpoints import ENDED, POINTS, Failing
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.tools import wait_until

NAMES = {f"row-{number}" for number in range(5)}


def delivered(monitor: MonitorProcess) -> bool:
    """Send the rows; whether they were acknowledged."""
    rows = [{"request_id": one, "question": "What?", "contexts": ["That."], "answer": "That."} for one in NAMES]
    try:
        return monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200
    except OSError:
        return False


def results(folder: Path) -> Counter[str]:
    with sqlite3.connect(folder / "state" / "history.db") as database:
        return Counter(row[0] for row in database.execute("select trace_id from results"))


@pytest.mark.parametrize("point", POINTS)
def test_a_monitor_that_ends_between_two_durable_steps_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, point: str
) -> None:
    monitor = Failing(tmp_path, {"evaluators": [{"type": "response_length"}], "alerts": []})
    monitor.config["sinks"].append({"type": "jsonl", "path": str(tmp_path / "results.jsonl")})
    monitor.point = point
    monitor.start()
    acknowledged = delivered(monitor)
    assert monitor.ended() == ENDED
    monitor.point = ""
    with monitor:
        if not acknowledged:
            wait_until(lambda: delivered(monitor), 20, "the delivery that was not acknowledged")
        wait_until(lambda: results(tmp_path) == Counter(NAMES), 30, "one result of each row in the history")
        wait_until(lambda: monitor.total("ragmonitor_traces_pending") == 0, 20, "the end of all rows")
        wait_until(lambda: monitor.total("ragmonitor_spool_records") == 0, 20, "the end of the spool")
        assert_balanced(monitor.samples())
        (rate,) = json.loads(monitor.get("/api/v1/overview"))["apps"][0]["rates"]
        assert rate["evaluated"] == len(NAMES)
        assert monitor.terminate() == 0
    exported = Counter(
        json.loads(line)["id"] for line in (tmp_path / "results.jsonl").read_text().splitlines() if line.endswith("}")
    )
    assert len(exported) == len(NAMES)
    assert max(exported.values()) <= 2, "at most one repetition, with the same id"
    assert results(tmp_path) == Counter(NAMES)
