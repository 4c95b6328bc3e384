"""Repair of damaged files: names and limits of copies, what is copied in which order, and what counts as lost."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

import pytest

from monitor.storage import damage
from monitor.storage.damage import Repaired, damaged_copies, finish, rebuild, remove, reporter, set_aside, timestamp
from tests.support.runtime import runtime, total

SCHEMA = "CREATE TABLE notes (n INTEGER PRIMARY KEY, body TEXT);"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "n.db"


def create(path: Path, schema: str = SCHEMA) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(schema)
    return db


def fill(path: Path, numbers: object, schema: str = SCHEMA) -> None:
    with closing(create(path, schema)) as db:
        db.execute("BEGIN")
        db.executemany("INSERT INTO notes VALUES (?, 'x')", [(one,) for one in numbers])
        db.execute("COMMIT")


def numbers(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as db:
        return [number for (number,) in db.execute("SELECT n FROM notes ORDER BY n")]


def test_a_moment_is_written_in_utc() -> None:
    assert (timestamp(0.0), timestamp(86_400.5 + 3_661)) == ("19700101T000000Z", "19700102T010101Z")


def test_a_second_file_of_one_second_gets_a_number(path: Path) -> None:
    names = []
    for content in (b"1", b"2", b"3"):
        path.write_bytes(content)
        path.with_name("n.db-wal").write_bytes(content)
        path.with_name("n.db-shm").touch()
        names.append(set_aside(path, 0.0).name)
    stamp = "n.db.damaged-19700101T000000Z"
    assert names == [stamp, f"{stamp}-1", f"{stamp}-2"]
    assert sorted(one.name for one in path.parent.iterdir()) == sorted(
        f"{name}{end}" for name in names for end in ("", "-wal")
    )


def test_the_log_of_a_copy_counts_in_its_bytes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "COPIES_BYTES", 30)
    for now, log in ((0.0, 10), (1.0, 0)):
        path.write_bytes(bytes(10))
        path.with_name("n.db-wal").write_bytes(bytes(log))
        set_aside(path, now)
    assert len([one for one in damaged_copies(path) if not one.name.endswith("-wal")]) == 2
    path.write_bytes(bytes(11))
    set_aside(path, 2.0)
    assert [one.stat().st_size for one in damaged_copies(path) if not one.name.endswith("-wal")] == [10, 11]


def test_files_of_other_databases_are_not_counted(path: Path) -> None:
    for name in ("m.db.damaged-1", "n.db", "n.db-wal.damaged-2", "n.db.damaged-1"):
        path.with_name(name).touch()
    assert [one.name for one in damaged_copies(path)] == ["n.db-wal.damaged-2", "n.db.damaged-1"]


def test_a_database_goes_with_all_its_companions(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal", ".other"):
        path.with_name(f"n.db{end}").touch()
    remove(path)
    remove(path)
    assert [one.name for one in path.parent.iterdir()] == ["n.db.other"]


def test_where_nothing_was_rebuilt_there_is_nothing_to_finish(path: Path) -> None:
    path.write_bytes(b"as it was")
    assert finish(path, 0.0) is None
    assert path.read_bytes() == b"as it was"


def test_a_rebuilt_file_takes_the_place_of_the_old_one(path: Path) -> None:
    path.write_bytes(b"old")
    path.with_name("n.db.rebuilt").write_bytes(b"new")
    aside = finish(path, 0.0)
    assert aside is not None
    assert (path.read_bytes(), aside.read_bytes()) == (b"new", b"old")


@pytest.mark.parametrize("number", [0, 1, 63, 64, 65, 5000])
def test_all_rows_of_a_whole_file_are_kept_however_many(path: Path, number: int) -> None:
    fill(path, range(number))
    found = rebuild(path, create, now=0.0, why="a test")
    assert (found.kept, found.lost, found.why) == ({"notes": number}, {"notes": 0}, "a test")
    assert numbers(path) == list(range(number))
    assert found.aside.name == "n.db.damaged-19700101T000000Z"
    assert path.stat().st_mode & 0o777 == 0o600
    assert not [one for one in path.parent.iterdir() if "building" in one.name or "rebuilt" in one.name]


def test_rows_that_are_not_whole_are_lost_and_counted(path: Path) -> None:
    fill(path, range(100))
    seen: list[str] = []

    def is_whole(table: str, row: tuple[int, str]) -> bool:
        seen.append(table)
        return row[0] % 10 != 0

    found = rebuild(path, create, now=0.0, why="", is_whole=is_whole)
    assert (found.kept, found.lost, set(seen)) == ({"notes": 90}, {"notes": 10}, {"notes"})
    assert numbers(path) == [one for one in range(100) if one % 10]


def test_the_newest_rows_are_copied_first_until_it_is_late(path: Path) -> None:
    fill(path, range(1000))
    asked = itertools.count(1)
    found = rebuild(path, create, now=0.0, why="", is_late=lambda: next(asked) >= 2)
    assert (found.kept, found.lost) == ({"notes": 128}, {"notes": 1})
    assert numbers(path) == list(range(872, 1000))


def test_a_column_that_the_old_file_lacks_is_empty_and_a_table_that_it_lacks_is_lost(path: Path) -> None:
    fill(path, range(3))
    schema = "CREATE TABLE notes (n INTEGER PRIMARY KEY, body TEXT, more TEXT); CREATE TABLE people (name TEXT);"
    found = rebuild(path, lambda one: create(one, schema), now=0.0, why="")
    assert (found.kept, found.lost) == ({"notes": 3, "people": 0}, {"notes": 0, "people": 1})
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT n, body, more FROM notes").fetchall() == [(n, "x", None) for n in range(3)]


def test_rows_that_the_new_table_takes_only_once_count_as_lost(path: Path) -> None:
    with closing(create(path, "CREATE TABLE notes (n INTEGER, body TEXT);")) as db:
        db.executemany("INSERT INTO notes VALUES (?, 'x')", [(1,), (1,), (2,)])
    schema = "CREATE TABLE notes (n INTEGER, body TEXT, UNIQUE (n));"
    found = rebuild(path, lambda one: create(one, schema), now=0.0, why="")
    assert (found.kept, found.lost) == ({"notes": 2}, {"notes": 1})


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE notes (n INTEGER, body TEXT, PRIMARY KEY (n, body)) WITHOUT ROWID;",
        "CREATE TABLE notes (n TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID;",
        "CREATE TABLE notes (n INTEGER, body TEXT);",
    ],
)
def test_tables_of_any_kind_of_key_are_copied_whole(path: Path, schema: str) -> None:
    fill(path, range(300), schema)
    found = rebuild(path, lambda one: create(one, schema), now=0.0, why="")
    assert (found.kept, found.lost) == ({"notes": 300}, {"notes": 0})


def test_a_rebuild_that_fails_leaves_the_old_file(path: Path) -> None:
    fill(path, range(3))
    before = path.read_bytes()

    def refuse(_: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(sqlite3.OperationalError, match="full"):
        rebuild(path, refuse, now=0.0, why="")
    assert path.read_bytes() == before
    assert damaged_copies(path) == []


def test_a_repair_that_lost_nothing_says_so(caplog: pytest.LogCaptureFixture) -> None:
    lent = runtime()
    reporter("labels", lent.events, lent.metrics)(Repaired(Path("l.damaged"), "bad page", {"a": 2, "b": 1}))
    rows = "ragmonitor_database_rows_total"
    assert [total(lent.metrics, rows, database="labels", outcome=one) for one in ("saved", "lost")] == [3, 0]
    assert any("3 rows saved, none is known to be lost" in line for line in caplog.messages)


# -- around what cannot be read


def searched(monkeypatch: pytest.MonkeyPatch, whole: Callable[[int], bool], failed: int) -> int | None:
    """The number from which it is read on below `failed`, where the numbers can be read that are `whole`."""
    monkeypatch.setattr(damage, "_reads", lambda _db, _sql, bound, itself=False: whole(bound))
    return damage._below(None, "", failed)


@pytest.mark.parametrize("gap", [1, 2, 10, 63, 64, 65, 100, 1000, 10**6, 2**40])
def test_a_gap_of_any_length_is_left_just_below_it(monkeypatch: pytest.MonkeyPatch, gap: int) -> None:
    assert searched(monkeypatch, lambda one: one <= 2**50 - gap, 2**50) == 2**50 - gap


def test_rows_above_the_gap_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(monkeypatch, lambda one: one <= 100 or one >= 500, 500) == 100


def test_without_any_row_below_the_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(monkeypatch, lambda _: False, 10**6) is None


def test_single_rows_in_a_gap_are_found_where_they_stand_close(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(monkeypatch, lambda one: one <= 1000 or (one < 1400 and one % 50 == 0), 2000)
    assert found == 1350


def test_a_short_stretch_of_rows_some_way_below_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searched(monkeypatch, lambda one: 900 <= one <= 936, 1000) == 936


def read_around(broken: Collection[int], number: int = 300, *, key: str = "rowid") -> tuple[list[int], int]:
    """The rows of a table from 0 on that come where the `broken` ones cannot be read, and how many are lost."""

    def body(one: int) -> str:
        if one in broken:
            raise ValueError("a damaged page")
        return "x"

    with closing(sqlite3.connect(":memory:")) as db:
        db.create_function("body", 1, body)
        db.execute("CREATE TABLE whole (n INTEGER PRIMARY KEY)")
        db.executemany("INSERT INTO whole VALUES (?)", [(one,) for one in range(number)])
        db.execute(f"CREATE VIEW notes AS SELECT n AS {key}, n AS m, body(n) AS body FROM whole")
        found = list(damage._rows(db, damage._Rows("notes", ("m", "body"), (key,), key)))
    return [row[0] for row in found if isinstance(row, tuple)], sum(row for row in found if isinstance(row, int))


@pytest.mark.parametrize(
    "broken",
    [
        (),
        (5,),
        (1,),
        (1, 2, 3),
        (0,),
        (298,),
        (100, 101, 102),
        (100, 200),
        (100, 102),
        range(100, 164),
        range(50, 180),
        range(1, 290),
    ],
    ids=str,
)
def test_every_row_around_a_gap_is_read_once_from_the_newest_down_and_those_in_it_are_lost(
    broken: Collection[int],
) -> None:
    assert read_around(broken) == ([one for one in range(299, -1, -1) if one not in broken], len(broken))


def test_of_a_gap_among_rows_that_share_numbers_no_more_than_its_rows_count_as_lost() -> None:
    found, lost = read_around((100, 101, 102), key="n")
    assert found == [*range(299, 102, -1), *range(99, -1, -1)]
    assert 1 <= lost <= 3


def test_a_gap_at_the_newest_end_counts_as_one_row() -> None:
    assert read_around((299,)) == (list(range(298, -1, -1)), 1)
    assert read_around(range(280, 300)) == (list(range(279, -1, -1)), 1)
