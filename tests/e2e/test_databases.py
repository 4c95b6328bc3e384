"""Damaged, foreign and newer databases, through the running monitor: it starts, keeps what it can, and says so once."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from monitor import __version__
from monitor.storage.damage import COPIES
from tests.support.llm import LLMServer, verdict
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.service import BAD, CONTEXT, GOOD
from tests.support.tools import wait_until

DATABASES = (
    "spool.db",
    "retained.db",
    "history.db",
    "request_log.db",
    "severe_cases.db",
    "incidents.db",
    "labels.db",
    "backfill.db",
    "state.db",
)
CONFIG: dict[str, Any] = {
    "evaluators": [{"type": "overlap_groundedness"}, {"type": "response_length"}],
    "storage": {"texts": "all", "spool_retention": "1d"},
    "alerts": [{"evaluator": "overlap_groundedness", "warning": "10%"}],
}
NUMBER = 60


def made(folder: Path) -> MonitorProcess:
    return MonitorProcess(folder, {**CONFIG, "storage": {**CONFIG["storage"], "path": str(folder / "state")}})


def send(monitor: MonitorProcess, name: str, number: int) -> None:
    rows = [
        {
            "request_id": f"{name}-{n}",
            "app": "shop",
            "request": "Can I get my money back?",
            "retrieved_context": [{"content": CONTEXT}],
            "response": f"{BAD if n % 2 else GOOD} This is answer {name} {n}.",
        }
        for n in range(number)
    ]
    assert monitor.post(json.dumps(rows).encode(), "/v1/cases", "application/json") == 200


def done(monitor: MonitorProcess, number: int) -> bool:
    assert_balanced(monitor.samples())
    return monitor.total("ragmonitor_requests_total", outcome="evaluated") == number


def overwrite(path: Path) -> None:
    """200 bytes in every second 4 kB page from the eighth on."""
    pages = path.stat().st_size // 4096
    assert pages > 20
    with path.open("r+b") as file:
        for page in range(8, pages, 2):
            file.seek(page * 4096)
            file.write(b"\xa5" * 200)


def events(monitor: MonitorProcess, name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in monitor.log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == name]


def test_d7_a_damaged_history_is_salvaged_restored_from_and_written_again(tmp_path: Path) -> None:
    history = tmp_path / "state" / "history.db"
    with made(tmp_path) as monitor:
        send(monitor, "before", NUMBER)
        wait_until(lambda: done(monitor, NUMBER), 60, "the results")
        assert monitor.terminate(60) == 0
        overwrite(history)
        with closing(sqlite3.connect(history.with_name("request_log.db"))) as db:  # a newer version, and back again
            db.execute("ALTER TABLE requests ADD COLUMN colour TEXT")
        monitor.start()
        assert monitor.total("ragmonitor_database_damaged_total", database="history") == 1
        saved = monitor.total("ragmonitor_database_rows_total", database="history", outcome="saved")
        assert saved > 20
        shown = json.loads(monitor.get("/api/v1/overview"))
        (told,) = shown["repaired"]
        assert f"{saved:.0f} rows saved" in told
        assert f"{saved:.0f} rows saved" in monitor.get("/")
        (app,) = shown["apps"]
        assert {rate["evaluator"]: rate["evaluated"] for rate in app["rates"]} == {
            "overlap_groundedness": NUMBER,
            "response_length": NUMBER,
        }
        before = json.loads(monitor.get("/api/v1/answers?outcome=any&limit=200"))["answers"]
        assert len(before) > 5
        send(monitor, "after", 5)
        wait_until(lambda: done(monitor, 5), 60, "further results")
        after = json.loads(monitor.get("/api/v1/answers?outcome=any&limit=200"))["answers"]
        assert len(after) == len(before) + 5
        assert monitor.total("ragmonitor_sink_failures_total") == 0
        assert monitor.total("ragmonitor_request_log_records_total", outcome="failed") == 0
        monitor.kill()
        monitor.start()
        assert monitor.total("ragmonitor_database_damaged_total") == 0
        assert len(events(monitor, "database_damaged")) == 1


def test_files_that_are_no_databases_cost_what_was_in_them_and_nothing_else(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for name in DATABASES:
        (state / name).write_bytes(b"somebody's text\n" * 1000)
    for number in range(6):  # of earlier starts on a disk that fails
        (state / f"history.db.damaged-20260101T00000{number}Z").write_bytes(b"somebody's text\n" * 1000)
    with made(tmp_path) as monitor:
        send(monitor, "first", 5)
        wait_until(lambda: done(monitor, 5), 60, "the results")
        assert len(json.loads(monitor.get("/api/v1/answers?outcome=any&limit=200"))["answers"]) == 5
        for name in ("spool", "history", "request_log", "retained"):
            wait_until(
                lambda name=name: monitor.total("ragmonitor_database_damaged_total", database=name) == 1, 60, name
            )
        assert (state / "history.db").read_bytes().startswith(b"SQLite format 3")
        for aside in state.glob("*.damaged-*"):
            assert aside.read_bytes().startswith(b"somebody's text"), aside
        assert len(list(state.glob("history.db.damaged-*"))) == COPIES, "however often a disk fails"


@pytest.mark.parametrize("name", DATABASES)
def test_d15_a_newer_version_is_refused_with_what_to_do_and_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "state" / name
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE of_a_newer_version (n INTEGER)")
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    monitor = made(tmp_path)
    monitor.spawn()
    assert monitor.process is not None
    assert monitor.process.wait(120) == 2
    said = monitor.log.read_text()
    known = f"this version ({__version__}) reads up to"
    assert f"{path} was written by a newer version of rag-monitor: it has format 99, {known}" in said
    assert "start the newer version again, or move the file away to begin without it" in said
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [name]


def test_a_folder_in_the_place_of_a_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "state" / "history.db").mkdir(parents=True)
    monitor = made(tmp_path)
    monitor.spawn()
    assert monitor.process is not None
    assert monitor.process.wait(120) == 2
    assert "history.db cannot be opened: Is a directory" in monitor.log.read_text()


def test_d10_a_budget_of_a_day_is_spent_once_over_kills(tmp_path: Path) -> None:
    with LLMServer() as llm:
        llm.always(verdict(observations=["it answers"], explanation="it answers the question", score=5))
        judge = {
            "model": "openai/scripted",
            "api_base": llm.url,
            "api_key": "none",
            "recheck_share": 0,
            "budget": {"evaluations_per_day": 3},
        }
        monitor = MonitorProcess(
            tmp_path, {"judge": judge, "evaluators": [{"type": "relevance"}], "canary": {"interval": None}}
        )

        def ended() -> bool:
            unscored = monitor.total("ragmonitor_unscored_total", evaluator="relevance", reason="budget")
            scored = monitor.total("ragmonitor_evaluations_total", evaluator="relevance")
            return scored + unscored >= 2  # more where the kill left a delivery in the spool

        with monitor:
            send(monitor, "first", 2)
            wait_until(ended, 120, "two verdicts")
            monitor.kill()
            monitor.start()
            send(monitor, "second", 2)
            wait_until(ended, 120, "the end of two more")
        assert len(llm.requests) == 3
