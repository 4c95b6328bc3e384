"""Erasing rows beside a process that writes the file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.storage.erasing import erasing
from monitor.storage.sqlite import Database, Format

NOTES = Format(1, "CREATE TABLE IF NOT EXISTS notes (id TEXT, body TEXT);")


def bodies(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as db:
        return [body for (body,) in db.execute("SELECT body FROM notes")]


def test_what_is_erased_is_nowhere_on_the_disk_while_another_connection_is_open(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    file = Database(path, NOTES, name="the notes", clock=ManualClock())
    with file.transaction() as db:
        db.execute("INSERT INTO notes VALUES ('a', 'a secret'), ('b', 'a plain text')")
    with erasing(path, dry_run=True) as counted:
        counted.delete("notes", "id", ["a", "c"])
    assert counted.rows == {"notes": 1}
    assert len(bodies(path)) == 2
    with erasing(path, dry_run=False) as eraser:
        eraser.delete("notes", "id", ["a", "c"])
        eraser.delete("unknown", "id", ["a"])
    assert eraser.rows == {"notes": 1}
    assert bodies(path) == ["a plain text"]
    assert b"a secret" not in b"".join(one.read_bytes() for one in tmp_path.iterdir())
    file.close()


def test_a_file_that_is_no_database_cannot_be_erased_from(tmp_path: Path) -> None:
    (tmp_path / "n.db").write_bytes(b"no database" * 1000)
    with pytest.raises(MonitorError, match=r"n\.db cannot be used"), erasing(tmp_path / "n.db", dry_run=False):
        pass
