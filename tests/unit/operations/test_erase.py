"""Where copies of a request may lie that erasing cannot reach."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor import config as configuration
from monitor.config import Config
from monitor.errors import ConfigError
from monitor.operations.erase import erase


def configured(folder: Path, **sections: object) -> Config:
    (folder / "version.json").touch()
    return configuration.parse({"storage": {"path": str(folder)}, **sections})


def test_copies_in_other_systems_are_named_and_those_that_are_erased_here_are_not(tmp_path: Path) -> None:
    sinks = [
        {"type": "prometheus"},
        {"type": "history", "path": str(tmp_path / "other.db")},
        {"type": "jsonl", "path": str(tmp_path / "out.jsonl")},
        {"type": "otel_events", "endpoint": "http://collector:4317"},
        {"type": "kafka", "brokers": "kafka:9092", "topic": "results"},
    ]
    sources = [{"type": "kafka", "brokers": "kafka:9092", "topics": {"spans": "otlp_proto"}, "dead_letters": "letters"}]
    found = erase(configured(tmp_path, sinks=sinks, sources=sources), trace="a", dry_run=True)
    assert found.copies == [
        f"jsonl {tmp_path / 'out.jsonl'}",
        "otel_events http://collector:4317",
        "kafka kafka:9092 results",
        "kafka kafka:9092 spans, letters: the telemetry itself",
    ]


@pytest.mark.parametrize("given", [{}, {"trace": "a", "user": "b"}])
def test_either_a_trace_or_a_user_is_erased(tmp_path: Path, given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="either a trace or a user"):
        erase(configured(tmp_path), **given, dry_run=True)  # type: ignore[arg-type]


def test_nothing_is_deleted_where_one_file_is_of_a_newer_version(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with closing(sqlite3.connect(tmp_path / "history.db")) as db:
        db.executescript(
            "CREATE TABLE results (id TEXT, trace_id TEXT); INSERT INTO results VALUES ('r', 'a');"
            "PRAGMA user_version = 99;"
        )
    before = sorted(one.name for one in tmp_path.iterdir())
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match=r"history\.db was written by a newer version"):
            erase(config, trace="a", dry_run=dry_run)
    with closing(sqlite3.connect(tmp_path / "history.db")) as db:
        assert db.execute("SELECT count(*) FROM results").fetchone() == (1,)
    assert sorted(one.name for one in tmp_path.iterdir()) == before, "no mark was left"


def test_a_folder_of_no_monitor_is_not_said_to_hold_nothing_of_a_person(tmp_path: Path) -> None:
    config = configuration.parse({"storage": {"path": str(tmp_path / "typo")}})
    with pytest.raises(ConfigError, match="no monitor has written to"):
        erase(config, user="u-4711", dry_run=True)
    assert list(tmp_path.iterdir()) == []
