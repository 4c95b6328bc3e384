"""A state folder of every released version under a monitor of this one, and one of a newer version."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from monitor import __version__
from monitor.cli.demo.feeder import STEADY
from monitor.storage import folder as state_folder
from monitor.storage.history.reader import HistoryReader
from tests.support import databases
from tests.support.command import command
from tests.support.databases import ALL_READERS, EXAMPLES, NUMBER
from tests.support.monitor import MonitorProcess
from tests.support.tools import wait_until

LONG = "10000d"
KEPT = {
    "texts": "all",
    **dict.fromkeys(("retention", "incidents_retention", "request_log", "spool_retention"), LONG),
}


def made(folder: Path) -> MonitorProcess:
    storage = {"path": str(folder / "state"), **KEPT}
    config = {"evaluators": [{"type": "overlap_groundedness"}], "storage": storage, "backfill": {"retention": LONG}}
    return MonitorProcess(folder, config)


def exported(monitor: MonitorProcess, *options: str) -> list[dict[str, Any]]:
    done = command("export", "-c", monitor.folder / "config.yaml", "--since", LONG, *options)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def image(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, byte by byte."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("version", sorted(EXAMPLES.iterdir()), ids=lambda one: one.name)
def test_a_state_folder_of_a_released_version_is_taken_over_whole(version: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    was = databases.unpacked(version, state)
    with made(tmp_path) as monitor:
        history = HistoryReader(state / "history.db")
        wait_until(lambda: len(history.results(limit=-1)) == NUMBER + 1, 60, "the result of what was in the spool")
        listed = json.loads(monitor.get("/api/v1/incidents"))["incidents"]
        assert {one["id"] for one in listed} >= set(was["incidents.db"])
        assert monitor.total("ragmonitor_database_damaged_total") == 0
        assert monitor.terminate(60) == 0

        rows = exported(monitor, "--all")
        assert {f"{one['request_id']} {one['score']}" for one in rows} >= set(was["history.db"]["results"])
        assert sum(one["app"] == STEADY for one in rows) == 1
        assert len(exported(monitor, "--labelled")) == NUMBER
    now = {name: databases.alone(state / name) for name in ALL_READERS}
    for name in ("backfill.db", "calibration.json", "canary.json", "labels.db", "severe_cases.db"):
        assert now[name] == was[name], name
    assert set(now["retained.db"]) >= {*was["retained.db"], was["spool.db"]["deliveries"][-1]}
    assert set(now["request_log.db"]["requests"]) >= set(was["request_log.db"]["requests"])
    assert now["incidents.db"].keys() >= was["incidents.db"].keys()
    assert now["spool.db"]["deliveries"] == [], "what it held was processed"
    assert now["version.json"] == {"version": __version__, "format": state_folder.FORMAT}


def newer_database(state: Path) -> Path:
    with closing(sqlite3.connect(state / "history.db")) as db:
        db.execute("PRAGMA user_version = 98")
    (state / "version.json").write_text('{"version": "9.8.0", "format": 1}')
    return state / "history.db"


def newer_folder(state: Path) -> Path:
    (state / "version.json").write_text('{"version": "9.8.0", "format": 98}')
    return state / "version.json"


@pytest.mark.parametrize("rolled_back", [newer_database, newer_folder])
def test_a_rollback_is_refused_with_both_versions_and_changes_no_byte(rolled_back: Any, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    databases.fill(state, 5)
    path = rolled_back(state)
    before = image(state)
    monitor = made(tmp_path)
    monitor.spawn()
    assert monitor.process is not None
    assert monitor.process.wait(120) == 2
    (said,) = [line for line in monitor.log.read_text().splitlines() if "newer version" in line]
    assert f"{path} was written by a newer version of rag-monitor (9.8.0): it has format 98, " in said
    assert f"this version ({__version__}) reads up to " in said
    assert "; start the newer version again, or " in said
    assert image(state) == before
