"""Salvage: what is saved of a damaged file, what is counted as lost, and how many copies stay."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.storage import checks, damage, sqlite
from monitor.storage.damage import Repaired, damaged_copies, reporter, set_aside
from monitor.storage.sqlite import DamagedFile, Database, Format, ReadOnly
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics
from tests.support.tools import wait_until

NOTES = Format(
    1,
    """
CREATE TABLE IF NOT EXISTS sums (at INTEGER, app TEXT, weight REAL, PRIMARY KEY (at, app)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS people (user TEXT, at REAL NOT NULL, PRIMARY KEY (user)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (id TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS notes_by_body ON notes (body);
""",
)
NUMBER = 3000
PAGE = 4096


def database(path: Path, repaired: list[Repaired] | None = None, clock: ManualClock | None = None) -> Database:
    report = (repaired if repaired is not None else []).append
    return Database(path, NOTES, name="the notes", clock=clock or ManualClock(), repaired=report)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """A file of some hundred pages, closed."""
    path = tmp_path / "n.db"
    file = database(path)
    with file.transaction() as db:
        rows = ((f"{n:08}", f"{n} ".encode() * 30) for n in range(NUMBER))
        db.executemany("INSERT INTO notes (id, body) VALUES (?, ?)", rows)
        sums = ((n, "shop", n / 2) for n in range(NUMBER))
        db.executemany("INSERT INTO sums (at, app, weight) VALUES (?, ?, ?)", sums)
        db.executemany("INSERT INTO people (user, at) VALUES (?, ?)", ((f"u{n}", 1.0) for n in range(NUMBER)))
    file.close()
    return path


def overwrite(path: Path, pages: range, length: int = 200) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE)
            file.write(b"\xa5" * length)


def counts(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        names = ("sums", "people", "notes")
        return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def use(file: Database) -> None:
    with file.transaction() as db:
        db.execute("INSERT OR REPLACE INTO notes (id, body) VALUES ('new', x'00')")


def test_of_every_second_page_damaged_the_rows_of_the_others_are_saved(good: Path) -> None:
    pages = good.stat().st_size // PAGE
    overwrite(good, range(8, pages, 2))
    repaired: list[Repaired] = []
    use(database(good, repaired))
    (found,) = repaired
    saved = counts(good)
    assert saved["notes"] > NUMBER / 4
    assert saved["sums"] > NUMBER / 4
    assert saved == {**found.kept, "notes": found.kept["notes"] + 1}
    assert all(found.lost.values())
    with closing(sqlite3.connect(good)) as db:
        for key, body in db.execute("SELECT id, body FROM notes WHERE id <> 'new'"):
            assert body == f"{int(key)} ".encode() * 30


def test_one_damaged_page_costs_the_rows_of_that_page(good: Path) -> None:
    for page in range(8, good.stat().st_size // PAGE, 37):  # the first ones are the roots of the tables
        before = counts(good)
        overwrite(good, range(page, page + 1), length=100)
        use(database(good))
        after = counts(good)
        for name, number in before.items():
            # an inner page of a table without numbers of its own costs what lies below it
            assert after[name] > number * (0.8 if name != "people" else 0.0), f"page {page}, table {name}"


@pytest.mark.parametrize("below", [False, True])
def test_the_newest_page_of_a_table_without_its_rows_costs_only_those(good: Path, *, below: bool) -> None:
    """As a file cut within that page is read: its head, and zeros for the rows, which then have the number 0."""
    newest = [
        page
        for page in range(good.stat().st_size // PAGE)
        if (content := good.read_bytes()[page * PAGE : (page + 1) * PAGE]).startswith(b"\x0d")  # a leaf of a table
        and any(f"{n} {n} {n} ".encode() in content for n in range(NUMBER - 60, NUMBER))
    ][-1]
    with good.open("r+b") as file:
        file.seek(newest * PAGE + 300)
        file.write(bytes(PAGE - 300))
    if below:
        overwrite(good, range(newest - 8, newest))
    repaired: list[Repaired] = []
    use(database(good, repaired))
    assert repaired[0].lost["notes"]
    assert counts(good)["notes"] > NUMBER * 0.9


def test_what_is_read_too_late_stays_in_the_copy(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "SALVAGE_SECONDS", 0.0)
    overwrite(good, range(9, 10))
    repaired: list[Repaired] = []
    use(database(good, repaired))
    assert 0 < counts(good)["sums"] < 200
    assert repaired[0].lost["sums"]
    with closing(sqlite3.connect(good)) as db:
        assert db.execute("SELECT max(at) FROM sums").fetchone() == (NUMBER - 1,)  # the newest come first


def test_a_missing_table_or_column_is_damage(good: Path) -> None:
    with closing(sqlite3.connect(good)) as db:
        db.execute("DROP TABLE people")
        db.execute("ALTER TABLE sums RENAME COLUMN weight TO height")
    repaired: list[Repaired] = []
    use(database(good, repaired))
    assert repaired[0].why == "table people lacks at, user" or "sums" in repaired[0].why
    assert counts(good) == {"sums": NUMBER, "people": 0, "notes": NUMBER + 1}


def test_one_more_column_of_a_newer_version_is_no_damage(good: Path) -> None:
    with closing(sqlite3.connect(good)) as db:
        db.execute("ALTER TABLE notes ADD COLUMN colour TEXT")
    repaired: list[Repaired] = []
    use(database(good, repaired))
    assert repaired == []
    assert counts(good)["notes"] == NUMBER + 1


def test_a_version_that_no_format_has_is_damage(good: Path) -> None:
    with closing(sqlite3.connect(good)) as db:
        db.execute("PRAGMA user_version = 16777217")
    repaired: list[Repaired] = []
    use(database(good, repaired))
    assert len(repaired) == 1
    assert counts(good)["notes"] == NUMBER + 1


def test_a_large_file_is_checked_beside_and_repaired_at_a_later_use(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_CHECK_UP_TO", 0)
    overwrite(good, range(20, 60))
    repaired: list[Repaired] = []
    file = database(good, repaired)

    def found() -> bool:
        with file.reading() as db:
            db.execute("SELECT 1").fetchone()
        return bool(repaired)

    wait_until(found, 60, "the check in the background")
    assert counts(good)["notes"] < NUMBER


def test_a_file_is_checked_again_after_a_day(good: Path) -> None:
    clock, repaired = ManualClock(), list[Repaired]()
    file = database(good, repaired, clock)
    use(file)
    file_size = good.stat().st_size
    with file.reading() as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    overwrite(good, range(file_size // PAGE // 2, file_size // PAGE // 2 + 10))
    with file.reading():
        assert repaired == []
    clock.advance(86_401.0)

    def found() -> bool:
        with file.reading():
            return bool(repaired)

    wait_until(found, 60, "the daily check")


def test_a_reader_that_meets_damage_has_the_file_repaired_once_a_minute(good: Path) -> None:
    clock, repaired = ManualClock(), list[Repaired]()
    file = database(good, repaired, clock)
    with file.reading():
        pass
    assert not file.suspect()
    overwrite(good, range(4, 200))
    with pytest.raises(DamagedFile, match=r"n\.db cannot be read"):
        ReadOnly(good, NOTES, name="the notes").query("SELECT sum(length(body)) FROM notes")
    assert not file.suspect()
    clock.advance(61.0)
    assert file.suspect()
    assert len(repaired) == 1
    ReadOnly(good, NOTES, name="the notes").query("SELECT sum(length(body)) FROM notes")


def test_a_repair_that_the_disk_refuses_leaves_the_file_and_is_tried_again_after_half_a_minute(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overwrite(good, range(20, 60))
    image, clock = good.read_bytes(), ManualClock()
    file = database(good, clock=clock)
    tried = []

    def refuse(*_: object, **__: object) -> Repaired:
        tried.append(1)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(damage, "rebuild", refuse)
        for _ in range(3):
            with pytest.raises(MonitorError, match="is damaged and cannot be replaced: No space left"):
                use(file)
    assert len(tried) == 1
    assert good.read_bytes() == image
    assert damaged_copies(good) == []
    clock.advance(31.0)
    use(file)
    assert len(damaged_copies(good)) == 1


def test_a_file_that_another_process_replaced_is_not_set_aside_a_second_time(good: Path) -> None:
    first, second = database(good), database(good)
    with second.reading():
        pass
    with first.reading() as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    overwrite(good, range(4, 200))
    assert first.suspect()
    use(second)
    assert len([copy for copy in damaged_copies(good) if not copy.name.endswith("-wal")]) == 1
    with first.reading() as db:
        assert db.execute("SELECT count(*) FROM notes WHERE id = 'new'").fetchone() == (1,)


def test_a_repair_that_was_interrupted_is_completed(good: Path) -> None:
    good.rename(good.with_name("n.db.rebuilt"))
    good.write_bytes(b"the damaged one")
    use(database(good))
    assert counts(good)["notes"] == NUMBER + 1
    assert damaged_copies(good)[0].read_bytes() == b"the damaged one"


def test_only_so_many_copies_stay_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    for number in range(6):
        path.write_bytes(b"%d" % number)
        path.with_name("n.db-wal").write_bytes(b"log %d" % number)
        set_aside(path, float(number))
    assert [copy.read_bytes() for copy in damaged_copies(path)] == [b"3", b"log 3", b"4", b"log 4", b"5", b"log 5"]


def test_copies_take_only_so_many_bytes_and_the_newest_stays_in_any_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "COPIES_BYTES", 1000)
    path = tmp_path / "n.db"
    for number, size in enumerate((600, 300, 5000)):
        path.write_bytes(bytes(size))
        set_aside(path, float(number))
        assert len(damaged_copies(path)) == (1, 2, 1)[number]
    assert damaged_copies(path)[0].stat().st_size == 5000


def test_a_repair_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    reporter("history", Events(metrics), metrics)(Repaired(Path("h.damaged"), "bad page", {"a": 3}, {"a": 1, "b": 1}))
    value = metrics.registry.get_sample_value
    assert value("ragmonitor_database_damaged_total", {"database": "history"}) == 1
    assert value("ragmonitor_database_rows_total", {"database": "history", "outcome": "saved"}) == 3
    assert value("ragmonitor_database_rows_total", {"database": "history", "outcome": "lost"}) == 2
    (line,) = caplog.messages
    assert line == "the database history was damaged: 3 rows saved, 2 or more lost; the damaged file is kept"


@pytest.mark.parametrize("content", [b"", b"no database at all " * 500, b"SQLite format 3\x00", bytes(8192)])
def test_a_file_that_is_no_database_is_set_aside_and_a_new_one_begun(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "n.db"
    path.write_bytes(content)
    use(database(path))
    assert counts(path)["notes"] == 1
    assert [copy.read_bytes() for copy in damaged_copies(path)] == ([content] if content else [])


def folder(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [folder, link])
def test_what_is_no_file_is_left_as_it_is_and_named(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "n.db"
    make(path)
    with pytest.raises(MonitorError, match=r"the notes .*n\.db cannot be opened"):
        use(database(path))
    assert os.listdir(tmp_path) == ["n.db"]  # noqa: PTH208 - the link leads nowhere


def test_a_check_that_is_stopped_ends(good: Path) -> None:
    check = checks.BackgroundCheck(good)
    check.stop()
    wait_until(lambda: check.ended, 60, "the end of the check")
    assert check.found is None
    assert threading.current_thread().is_alive()
