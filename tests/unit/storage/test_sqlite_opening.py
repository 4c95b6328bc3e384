"""An opened file: its settings, its version at the edges, its times of checks, and what an error says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import ConfigError, InvalidData, MonitorError
from monitor.storage import checks, sqlite
from monitor.storage.checks import Damaged, check_schema, code_of, is_damage, open_read_only, quick_check, readable
from monitor.storage.damage import Repaired, damaged_copies
from monitor.storage.erasing import Eraser, erasing
from monitor.storage.sqlite import (
    DamagedFile,
    Database,
    Format,
    ReadOnly,
    SetAside,
    empty_log,
    marks,
    open_database,
    used_bytes,
)

NOTES = Format(1, "CREATE TABLE IF NOT EXISTS notes (id TEXT UNIQUE NOT NULL, body TEXT);")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "n.db"


def setting(db: sqlite3.Connection, name: str) -> object:
    return db.execute(f"PRAGMA {name}").fetchone()[0]


def settings(db: sqlite3.Connection) -> dict[str, object]:
    return {name: setting(db, name) for name in ("journal_mode", "synchronous", "secure_delete", "busy_timeout")}


def database(path: Path, clock: ManualClock | None = None, repaired: list[Repaired] | None = None) -> Database:
    report = (repaired if repaired is not None else []).append
    return Database(path, NOTES, name="the notes", clock=clock or ManualClock(), repaired=report, timeout=0.0)


def add(file: Database, name: str = "a") -> None:
    with file.transaction() as db:
        db.execute("INSERT INTO notes VALUES (?, 'x')", (name,))


def test_a_file_is_opened_with_a_log_synced_at_checkpoints_and_overwrites_what_is_deleted(path: Path) -> None:
    with closing(open_database(path, NOTES)) as db:
        found = settings(db)
        assert found == {"journal_mode": "wal", "synchronous": 1, "secure_delete": 1, "busy_timeout": 5000}
        assert db.isolation_level is None


def test_a_format_may_have_settings_of_its_own_and_the_caller_others(path: Path) -> None:
    own = Format(1, NOTES.schema, {"synchronous": "FULL", "secure_delete": "OFF"})
    with closing(open_database(path, own, timeout=0.25, pragmas={"cache_size": 77, "secure_delete": "FAST"})) as db:
        assert settings(db) == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 0, "busy_timeout": 250}
        assert setting(db, "cache_size") == 77


def test_a_reader_waits_five_seconds_and_writes_nothing(path: Path) -> None:
    open_database(path, NOTES).close()
    with closing(open_read_only(path)) as db:
        assert setting(db, "busy_timeout") == 5000
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            db.execute("INSERT INTO notes VALUES ('a', 'x')")
    with pytest.raises(sqlite3.OperationalError), closing(open_read_only(path.with_name("none.db"))) as db:
        db.execute("SELECT 1 FROM notes")


def test_an_untouched_file_has_none_beside_it(path: Path) -> None:
    open_database(path, NOTES).close()
    with closing(open_read_only(path, untouched=True)) as db:
        db.execute("SELECT * FROM notes").fetchall()
        assert [one.name for one in path.parent.iterdir()] == ["n.db"]
    odd = path.with_name("what? 100 %#.db")
    path.rename(odd)
    with closing(open_read_only(odd, untouched=True)) as db:
        assert db.execute("SELECT * FROM notes").fetchall() == []


@pytest.mark.parametrize("number", [-1, 10_000, 2**31 - 1])
def test_a_version_that_no_format_has_is_damage(path: Path, number: int) -> None:
    open_database(path, NOTES).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(Damaged, match=f"{number} is not the version of any format"):
        open_database(path, NOTES)
    with pytest.raises(DamagedFile, match="is not the version of any format"):
        ReadOnly(path, NOTES, name="the notes").query("SELECT 1")


@pytest.mark.parametrize("number", [2, 9_999])
def test_a_higher_version_is_a_newer_one(path: Path, number: int) -> None:
    open_database(path, NOTES).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(ConfigError, match=f"it has format {number}"):
        open_database(path, NOTES)


def test_an_empty_file_can_be_read_before_its_writer_has_made_the_tables(path: Path) -> None:
    path.touch()
    assert ReadOnly(path, NOTES, name="the notes").query("SELECT 1") == [(1,)]


def test_bytes_in_use_are_those_of_pages_that_are_not_free(path: Path) -> None:
    with closing(open_database(path, NOTES)) as db:
        page, before = setting(db, "page_size"), used_bytes(db)
        assert before == page * setting(db, "page_count")
        db.executemany("INSERT INTO notes VALUES (?, ?)", [(str(n), "x" * 500) for n in range(100)])
        full = used_bytes(db)
        assert full == page * setting(db, "page_count") > before
        db.execute("DELETE FROM notes")
        assert used_bytes(db) == full - page * setting(db, "freelist_count") < full


@pytest.mark.parametrize(("number", "expected"), [(0, ""), (1, "?"), (3, "?, ?, ?")])
def test_each_value_has_a_mark(number: int, expected: str) -> None:
    assert marks(range(number)) == expected


@pytest.mark.parametrize("wait", [False, True])
def test_an_emptied_log_has_no_bytes_and_the_timeout_stays(path: Path, *, wait: bool) -> None:
    with closing(open_database(path, NOTES, timeout=0.125)) as db:
        db.execute("INSERT INTO notes VALUES ('a', 'x')")
        log = path.with_name("n.db-wal")
        assert log.stat().st_size
        empty_log(db, wait=wait)
        assert log.stat().st_size == 0
        assert setting(db, "busy_timeout") == 125


def test_a_log_that_another_reads_is_left_at_once(path: Path) -> None:
    with closing(open_database(path, NOTES, timeout=100.0)) as db, closing(open_read_only(path)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM notes").fetchall()
        db.execute("INSERT INTO notes VALUES ('a', 'x')")
        empty_log(db)
        assert path.with_name("n.db-wal").stat().st_size
        assert setting(db, "busy_timeout") == 100_000


def test_a_file_that_another_holds_is_named(path: Path) -> None:
    file = database(path)
    with closing(open_database(path, NOTES)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(MonitorError, match=r"the notes .*n\.db cannot be written: database is locked"):
            add(file)
    add(file)
    assert damaged_copies(path) == []


def test_what_can_never_be_written_is_invalid_and_harms_nothing(path: Path) -> None:
    file = database(path)
    add(file)
    with pytest.raises(InvalidData, match=r"the notes .*n\.db cannot be written: UNIQUE constraint"):
        add(file)
    with pytest.raises(MonitorError, match="cannot be read: no such table"), file.reading() as db:
        db.execute("SELECT * FROM nowhere")
    add(file, "b")


def test_a_file_is_checked_whole_at_most_once_a_minute(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, checked = ManualClock(), []
    file = database(path, clock)
    add(file)
    monkeypatch.setattr(sqlite, "full_check", lambda _: checked.append(clock.monotonic()))
    for seconds in (0, 59, 1, 59, 1):
        clock.advance(seconds)
        assert file.suspect() is False
    assert checked == [0, 60, 120]


def test_a_small_file_is_checked_as_it_is_opened_and_again_after_a_day(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, checked, beside = ManualClock(), [], []

    class Beside:
        ended, found = True, None

        def __init__(self, of: Path) -> None:
            beside.append((of, clock.monotonic()))

        def stop(self) -> None:
            pass

    monkeypatch.setattr(sqlite, "quick_check", lambda _: checked.append(clock.monotonic()))
    monkeypatch.setattr(sqlite, "BackgroundCheck", Beside)
    file = database(path, clock)
    add(file, "a")
    assert (checked, beside) == ([0], [])
    clock.advance(86_399)
    add(file, "b")
    assert beside == []
    clock.advance(1)
    add(file, "c")
    assert (checked, beside) == ([0], [(path, 86_400)])
    clock.advance(100)
    add(file, "d")
    assert len(beside) == 1


@pytest.mark.parametrize(("more", "beside"), [(0, False), (-1, True)])
def test_a_file_above_the_limit_is_checked_beside(
    path: Path, monkeypatch: pytest.MonkeyPatch, more: int, *, beside: bool
) -> None:
    first = database(path)
    add(first)
    first.close()  # now all of it is in the file itself, and its size stays
    threads, checked = [], []
    monkeypatch.setattr(sqlite, "_CHECK_UP_TO", path.stat().st_size + more)
    monkeypatch.setattr(sqlite, "quick_check", checked.append)
    monkeypatch.setattr(sqlite, "BackgroundCheck", threads.append)
    with database(path).reading():
        pass
    assert (len(checked), len(threads)) == (int(not beside), int(beside))


def test_a_repair_that_the_disk_refuses_is_tried_again_after_half_a_minute(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, tried = ManualClock(), []

    def refuse(*_: object, **__: object) -> None:
        tried.append(clock.monotonic())
        raise OSError(28, "No space left on device")

    path.write_bytes(b"no database" * 100)
    file = database(path, clock)
    with monkeypatch.context() as patched:
        patched.setattr(sqlite.damage, "rebuild", refuse)
        for seconds in (0, 29, 1, 29.5):
            clock.advance(seconds)
            with pytest.raises(MonitorError, match=r"n\.db is damaged and cannot be replaced: No space left"):
                add(file)
    assert tried == [0, 30]
    clock.advance(0.5)
    add(file)
    assert len(damaged_copies(path)) == 1


def test_a_file_that_another_process_has_replaced_is_opened_again(path: Path) -> None:
    file = database(path)
    add(file, "before")
    path.rename(path.with_name("moved.db"))
    for suffix in ("-wal", "-shm"):
        path.with_name(f"n.db{suffix}").unlink(missing_ok=True)
    other = database(path)
    add(other, "after")
    other.close()
    with file.reading() as db:
        assert db.execute("SELECT id FROM notes").fetchall() == [("after",)]


def test_a_table_that_lacks_a_column_is_damage_and_one_that_has_more_is_not(path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE notes (id TEXT, body TEXT, more TEXT)")
        check_schema(db, NOTES.schema)
        with pytest.raises(Damaged, match=r"^table notes lacks colour, name$"):
            check_schema(db, "CREATE TABLE notes (id TEXT, name TEXT, colour TEXT)")
        with pytest.raises(Damaged, match=r"^table people lacks id$"):
            check_schema(db, "CREATE TABLE people (id TEXT)")


@pytest.fixture
def errors() -> Iterator[dict[str, Exception]]:
    corrupt, busy = sqlite3.DatabaseError("malformed"), sqlite3.OperationalError("locked")
    corrupt.sqlite_errorcode, busy.sqlite_errorcode = 11 | (2 << 8), 5
    no_database = sqlite3.DatabaseError("not a database")
    no_database.sqlite_errorcode = 26
    return {"corrupt": corrupt, "busy": busy, "no database": no_database, "unknown": sqlite3.Error("from nowhere")}


def test_damage_is_told_from_a_lock_by_the_primary_code(errors: dict[str, Exception]) -> None:
    assert {name: is_damage(one) for name, one in errors.items()} == {
        "corrupt": True,
        "busy": False,
        "no database": True,
        "unknown": False,
    }
    assert [code_of(one) for one in errors.values()] == [11, 5, 26, sqlite3.SQLITE_MISUSE]
    assert is_damage(Damaged("a page"))
    assert is_damage(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no text"))
    assert not is_damage(OSError("a disk"))


def test_a_check_says_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        def __init__(self, said: object) -> None:
            self.said, self.asked = said, ""

        def execute(self, sql: str) -> Found:
            self.asked = sql
            return self

        def fetchone(self) -> tuple[object]:
            return (self.said,)

    for check, name in ((quick_check, "quick_check"), (checks.full_check, "integrity_check")):
        whole = Found("ok")
        check(whole)
        assert whole.asked == f"PRAGMA {name}(1)"
        check(Found(b"ok"))
        with pytest.raises(Damaged, match="row 3 missing"):
            check(Found(b"row 3 missing"))


def test_a_text_with_damaged_bytes_can_be_read() -> None:
    assert (readable(b"caf\xc3\xa9"), readable(b"a\xff")) == ("café", "a\ufffd")


def test_a_file_that_was_set_aside_says_so_and_the_next_call_works(path: Path) -> None:
    repaired: list[Repaired] = []
    file = database(path, repaired=repaired)
    add(file)
    with (
        pytest.raises(SetAside, match=r"the notes .*n\.db was damaged and has been repaired: bad page"),
        file.reading(),
    ):
        raise Damaged("bad page")
    assert [one.why for one in repaired] == ["bad page"]
    assert repaired[0].kept == {"notes": 1}
    add(file, "b")


# -- erasing


def test_more_values_than_one_query_takes_are_all_erased(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.storage.erasing._ERASE_AT_ONCE", 2)
    file = database(path)
    for name in "abcdef":
        add(file, name)
    file.close()
    for dry_run in (True, False):
        with erasing(path, dry_run=dry_run) as eraser:
            eraser.delete("notes", "id", list("edcba"))
            eraser.delete("notes", "id", ["f"] if dry_run else [])
            eraser.delete("notes", "id", ["none"])
        assert eraser.rows == {"notes": 6 if dry_run else 5}
    assert ReadOnly(path, NOTES, name="the notes").query("SELECT id FROM notes") == [("f",)]


def test_requests_of_a_trace_are_those_behind_its_slash(path: Path) -> None:
    file = database(path)
    for name in ("a", "a/1", "a/2/3", "a0", "ab", "b/1"):
        add(file, name)
    file.close()
    with erasing(path, dry_run=True) as eraser:
        assert eraser.requests_of("notes", "id", ["a"]) == {"a", "a/1", "a/2/3"}
        assert eraser.requests_of("none", "id", ["a"]) == {"a"}
        assert (eraser.has("notes"), eraser.has("none")) == (True, False)


def _delete_in_vain(eraser: Eraser) -> None:
    eraser.delete("notes", "id", ["a"])
    eraser.delete("notes", "colour", ["a"])


def test_an_erasure_that_fails_deletes_nothing(path: Path) -> None:
    file = database(path)
    add(file)
    file.close()
    with (
        pytest.raises(MonitorError, match=r"n\.db cannot be used: no such column"),
        erasing(path, dry_run=False) as one,
    ):
        _delete_in_vain(one)
    assert ReadOnly(path, NOTES, name="the notes").query("SELECT id FROM notes") == [("a",)]
