"""Opening SQLite files: version, migration, damage, erasure."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.errors import ConfigError, MonitorError
from monitor.storage.sqlite import (
    Database,
    Format,
    ReadOnly,
    SetAside,
    damaged_copies,
    erasing,
    open_database,
)

FIRST = Format(1, "CREATE TABLE IF NOT EXISTS notes (id TEXT, body TEXT);")
SECOND = Format(2, FIRST.schema + "CREATE TABLE IF NOT EXISTS more (n INTEGER);")


def database(path: Path, form: Format = FIRST, told: list[tuple[Path, str]] | None = None) -> Database:
    heard = told if told is not None else []
    return Database(path, form, name="the notes", clock=ManualClock(), damaged=lambda *said: heard.append(said))


def run(file: Database, *statements: Any) -> None:
    with file.transaction() as db:
        for one in statements:
            db.execute(one)


def fill(path: Path, number: int = 1000) -> None:
    file = database(path)
    with file.transaction() as db:
        db.executemany("INSERT INTO notes VALUES (?, ?)", [(str(n), "x" * 500) for n in range(number)])
    file.close()


def bodies(path: Path) -> list[str]:
    return [body for (body,) in ReadOnly(path, FIRST, name="the notes").query("SELECT body FROM notes")]


def test_a_file_of_an_earlier_version_is_migrated_and_keeps_its_rows(tmp_path: Path) -> None:
    fill(tmp_path / "n.db", 2)
    with closing(open_database(tmp_path / "n.db", SECOND)) as db:
        db.execute("INSERT INTO more VALUES (1)")
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT count(*) FROM notes").fetchone() == (2,)


def test_a_file_of_a_newer_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    open_database(path, SECOND).close()
    with pytest.raises(ConfigError, match=r"n\.db was written by a newer version of this program \(format 2, not 1\)"):
        open_database(path, FIRST)
    with pytest.raises(ConfigError, match="newer version"):
        ReadOnly(path, FIRST, name="the notes").query("SELECT 1")
    with pytest.raises(ConfigError, match="newer version"), database(path).reading():
        pass
    assert damaged_copies(path) == []


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "n.db", 2)
    broken = Format(2, "DROP TABLE notes; INSERT INTO nowhere VALUES (1);")
    with pytest.raises(sqlite3.Error):
        open_database(tmp_path / "n.db", broken)
    assert len(bodies(tmp_path / "n.db")) == 2


def test_a_damaged_page_is_found_when_the_file_is_opened_and_the_file_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    fill(path)
    whole = bytearray(path.read_bytes())
    whole[3 * 4096 : 4 * 4096] = b"\xff" * 4096
    path.write_bytes(whole)
    told: list[tuple[Path, str]] = []
    with database(path, told=told).transaction() as db:
        db.execute("INSERT INTO notes VALUES ('new', 'new')")
    assert bodies(path) == ["new"]
    assert [aside for aside, _ in told] == damaged_copies(path)
    assert damaged_copies(path)[0].read_bytes() == whole


def test_damage_found_during_a_transaction_sets_the_file_aside_and_the_next_one_works(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    fill(path, 10_000)  # more than the connection caches
    file = database(path)
    with file.reading():
        pass  # open, and checked
    with path.open("r+b") as image:
        image.seek(4096)
        image.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(SetAside, match=r"n\.db was damaged"):
        run(file, "DELETE FROM notes")
    run(file, "INSERT INTO notes VALUES ('new', 'new')")
    assert bodies(path) == ["new"]
    assert len(damaged_copies(path)) == 1


def test_a_transaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    file = database(tmp_path / "n.db")
    insert = "INSERT INTO notes VALUES ('1', 'x')"
    with pytest.raises(MonitorError, match=r"the notes .*n\.db cannot be written: no such table"):
        run(file, insert, "INSERT INTO nowhere VALUES (1)")
    assert bodies(tmp_path / "n.db") == []
    with pytest.raises(TypeError):
        run(file, insert, 3)
    assert bodies(tmp_path / "n.db") == []
    run(file, insert)
    assert bodies(tmp_path / "n.db") == ["x"]


def test_threads_take_turns_in_one_file(tmp_path: Path) -> None:
    file = database(tmp_path / "n.db")

    def add() -> None:
        for _ in range(50):
            with file.transaction() as db:
                db.execute("INSERT INTO notes VALUES ('1', 'x')")

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(bodies(tmp_path / "n.db")) == 200


def test_what_is_erased_is_nowhere_on_the_disk_while_another_connection_is_open(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    file = database(path)
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
