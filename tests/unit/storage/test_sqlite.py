"""Opening SQLite files: version, migration, checks, repair."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.errors import ConfigError, MonitorError
from monitor.storage.damage import Repaired, damaged_copies
from monitor.storage.sqlite import Database, Format, ReadOnly, SetAside, open_database, refuse_newer

FIRST = Format(1, "CREATE TABLE IF NOT EXISTS notes (id TEXT, body TEXT);")
SECOND = Format(2, FIRST.schema + "CREATE TABLE IF NOT EXISTS more (n INTEGER);")


def database(path: Path, form: Format = FIRST, repaired: list[Repaired] | None = None) -> Database:
    report = (repaired if repaired is not None else []).append
    return Database(path, form, name="the notes", clock=ManualClock(), repaired=report)


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
    with pytest.raises(ConfigError, match=r"n\.db .*newer version.*format 2.* up to 1; start the newer version again"):
        open_database(path, FIRST)
    with pytest.raises(ConfigError, match="newer version"):
        ReadOnly(path, FIRST, name="the notes").query("SELECT 1")
    with pytest.raises(ConfigError, match="newer version"), database(path).reading():
        pass
    assert damaged_copies(path) == []


def test_a_reader_asks_for_a_start_of_the_monitor_where_a_file_is_older_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    fill(path, 2)
    before = path.read_bytes()
    with pytest.raises(
        MonitorError, match=r"n\.db has format 1 of an older version .* reads 2: start the monitor once"
    ):
        ReadOnly(path, SECOND, name="the notes").query("SELECT body FROM notes")
    assert path.read_bytes() == before


def test_queries_at_once_see_nothing_of_what_is_written_between_them(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    file = database(path)
    run(file, "INSERT INTO notes VALUES ('1', 'first')")

    class Late(list[str]):
        def __getitem__(self, place: Any) -> Any:  # asked for when the second query begins
            run(file, "INSERT INTO notes VALUES ('2', 'late')")
            return super().__getitem__(place)

    count = "SELECT count(*) FROM notes WHERE id != ?"
    asked = ReadOnly(path, FIRST, name="the notes").query_at_once((count, [""]), (count, Late([""])))
    assert asked == [[(1,)], [(1,)]]
    assert bodies(path) == ["first", "late"]
    file.close()


def test_a_newer_file_is_refused_without_a_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    open_database(path, SECOND).close()
    with pytest.raises(ConfigError, match="newer version"):
        refuse_newer(path, FIRST)
    assert [one.name for one in tmp_path.iterdir()] == ["n.db"]


def test_a_newer_version_that_is_only_in_the_log_is_refused_as_well(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    fill(path, 2)
    with closing(open_database(path, FIRST)), closing(open_database(path, SECOND)):
        assert path.with_name("n.db-wal").stat().st_size
        with pytest.raises(ConfigError, match="newer version"):
            refuse_newer(path, FIRST)


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
    repaired: list[Repaired] = []
    with database(path, repaired=repaired).transaction() as db:
        db.execute("INSERT INTO notes VALUES ('new', 'new')")
    assert bodies(path)[-1] == "new"
    assert 950 < len(bodies(path)) < 1001
    assert [one.aside for one in repaired] == damaged_copies(path)
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
