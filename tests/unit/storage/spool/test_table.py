"""The spool's file: rows with checksums, settings, and how full the file and its disk are."""

from __future__ import annotations

import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from monitor.errors import ConfigError
from monitor.storage.checks import Damaged
from monitor.storage.spool import salvage, table
from monitor.storage.spool.table import PAGE, Fullness, Room, SpoolRecord, connect, decode, encode, log_pages

MIB = 1024 * 1024
RECORD = SpoolRecord("otlp_http", "traces", 1000.5, b"payload " * 20, b"meta")


def test_a_row_is_read_as_it_was_written() -> None:
    row = encode(7, RECORD)
    assert decode(row) == RECORD
    assert row[0] == 7
    assert len(row[3]) < len(RECORD.payload)
    assert decode(encode(0, SpoolRecord("kafka", "cases", 0.0, b""))).meta == b""


@pytest.mark.parametrize("place", range(5))
def test_a_change_anywhere_in_a_row_is_damage(place: int) -> None:
    row = list(encode(7, RECORD))
    row[place] = row[place] + 1 if isinstance(row[place], int) else bytes([row[place][0] ^ 1]) + row[place][1:]
    with pytest.raises(Damaged, match=f"record {row[0]} does not have the checksum"):
        decode(tuple(row))


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_part_that_is_no_bytes_is_damage(place: int) -> None:
    row = list(encode(7, RECORD))
    row[place] = "text"
    with pytest.raises(Damaged):
        decode(tuple(row))


def test_bytes_that_move_from_one_part_to_the_next_are_damage() -> None:
    number, head, meta, body, checksum = encode(7, RECORD)
    with pytest.raises(Damaged):
        decode((number, head + meta[:1], meta[1:], body, checksum))


def setting(db: sqlite3.Connection, name: str) -> object:
    found = db.execute(f"PRAGMA {name}").fetchone()[0]
    return found.decode() if isinstance(found, bytes) else found


@pytest.mark.parametrize(("erase", "deleting"), [(False, 2), (True, 1)])
def test_the_file_is_held_by_one_process_and_synced_at_every_commit(
    tmp_path: Path, deleting: int, *, erase: bool
) -> None:
    with closing(connect(tmp_path / "spool.db", most_pages=100, erase=erase)) as db:
        names = ("page_size", "locking_mode", "secure_delete", "journal_mode", "synchronous", "max_page_count")
        assert [setting(db, name) for name in names] == [PAGE, "exclusive", deleting, "wal", 2, 100]
        log = log_pages(os.statvfs(tmp_path))
        assert [setting(db, name) for name in ("wal_autocheckpoint", "journal_size_limit")] == [log, log * PAGE]
        assert (setting(db, "busy_timeout"), db.text_factory) == (0, bytes)
        db.execute("SELECT * FROM records").fetchall()
        with pytest.raises(ConfigError, match=r"spool\.db is in use by another process"):
            connect(tmp_path / "spool.db", most_pages=100)


def disk(size: int, free: int = 0) -> SimpleNamespace:
    return SimpleNamespace(f_blocks=size // 512, f_frsize=512, f_bavail=free // 512)


@pytest.mark.parametrize(
    ("size", "pages"),
    [(0, 16), (4 * MIB, 16), (5 * MIB, 20), (255 * MIB, 1020), (256 * MIB, 1024), (257 * MIB, 1024), (10**12, 1024)],
)
def test_the_log_has_a_sixteenth_of_a_small_disk_and_16_mib_of_a_large_one(size: int, pages: int) -> None:
    assert log_pages(disk(size)) == pages


@pytest.fixture
def db(tmp_path: Path):
    with closing(connect(tmp_path / "spool.db", most_pages=10_000)) as made:
        yield made


def measured(monkeypatch: pytest.MonkeyPatch, size: int, free: int) -> None:
    monkeypatch.setattr(table.os, "statvfs", lambda _: disk(size, free))


@pytest.mark.parametrize(
    ("free", "log", "has_room"),
    [
        (48 * MIB + 512, 0, True),
        (48 * MIB, 0, False),
        (20 * MIB, 0, False),
        (49 * MIB, 30 * MIB, True),
    ],
)
def test_a_disk_has_room_for_three_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, log: int, *, has_room: bool
) -> None:
    with closing(sqlite3.connect(":memory:")) as empty:
        measured(monkeypatch, 10**12, free)
        (tmp_path / "s.db-wal").write_bytes(bytes(log))
        assert Fullness(tmp_path / "s.db").of(empty, 0.0) == Room(0, has_room)


@pytest.mark.parametrize(
    ("free", "log", "has_room"), [(20 * MIB, 0, False), (20 * MIB + 512, 0, True), (19 * MIB, MIB + 512, True)]
)
def test_free_pages_of_the_file_count_as_room_where_the_log_can_still_be_folded_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, log: int, *, has_room: bool
) -> None:
    class Full:
        def execute(self, sql: str) -> Full:
            self.asked = sql
            return self

        def fetchone(self) -> tuple[int]:
            return (4000,) if "page_count" in self.asked else (3000,)

    measured(monkeypatch, 10**12, free)
    (tmp_path / "s.db-wal").write_bytes(bytes(log))
    assert Fullness(tmp_path / "s.db").of(Full(), 0.0) == Room(1000 * PAGE, has_room)


def test_the_disk_is_looked_at_four_times_a_second_and_always_while_it_is_full(
    db: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fullness = Fullness(tmp_path / "spool.db")
    measured(monkeypatch, 10**12, 10**12)
    assert fullness.of(db, 100.0).disk_has_room
    measured(monkeypatch, 10**12, 0)
    assert fullness.of(db, 100.2).disk_has_room
    assert not fullness.of(db, 100.25).disk_has_room
    measured(monkeypatch, 10**12, 10**12)
    assert fullness.of(db, 100.25).disk_has_room
    measured(monkeypatch, 10**12, 0)
    assert not fullness.of(db, 99.9).disk_has_room  # a clock that was set back


def test_a_file_that_has_grown_by_a_quarter_of_a_log_is_a_reason_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [1000]

    class Growing:
        def execute(self, sql: str) -> Growing:
            self.asked = sql
            return self

        def fetchone(self) -> tuple[int]:
            return (pages[0],) if "page_count" in self.asked else (0,)

    fullness = Fullness(tmp_path / "s.db")
    measured(monkeypatch, 10**12, 10**12)
    assert fullness.of(Growing(), 100.0).disk_has_room
    measured(monkeypatch, 10**12, 0)
    pages[0] = 1256
    assert fullness.of(Growing(), 100.0) == Room(1256 * PAGE, disk_has_room=True)
    pages[0] = 1257
    assert fullness.of(Growing(), 100.0) == Room(1257 * PAGE, disk_has_room=False)


@pytest.mark.parametrize(
    ("code", "damaged"),
    [
        (sqlite3.SQLITE_CORRUPT, True),
        (sqlite3.SQLITE_NOTADB, True),
        (sqlite3.SQLITE_ERROR, True),
        (sqlite3.SQLITE_CONSTRAINT, True),
        (sqlite3.SQLITE_CONSTRAINT | (6 << 8), True),
        (sqlite3.SQLITE_FULL, False),
        (sqlite3.SQLITE_IOERR, False),
        (sqlite3.SQLITE_BUSY, False),
    ],
)
def test_damage_is_what_the_content_is_at_fault_for(code: int, *, damaged: bool) -> None:
    error = sqlite3.Error("said")
    error.sqlite_errorcode = code
    assert table.is_damage(error) is damaged
    assert table.is_damage(Damaged("a page"))
    assert not table.is_damage(OSError("a disk"))


# -- the log of a damaged file


def log_of(*commits: int, page: int = 512, salts: bytes = b"saltsalt", header: bytes = b"saltsalt") -> bytes:
    """A write-ahead log: a frame for each number, which is 0 but in the last frame of a transaction."""
    head = struct.pack(">III", 0x377F0682, 3007000, page) + bytes(4) + header + bytes(8)
    return head + b"".join(struct.pack(">II", 1, one) + salts + bytes(8) + bytes(page) for one in commits)


def lost(tmp_path: Path, log: bytes, read: int = 0) -> int:
    (tmp_path / "s.db-wal").write_bytes(log)
    return salvage.lost_in_log(tmp_path / "s.db", read)


@pytest.mark.parametrize(
    ("commits", "read", "expected"),
    [
        ((5,), 0, 1),
        ((0, 0, 5), 0, 1),
        ((5, 5, 0), 0, 2),
        ((5, 0, 5, 5), 1, 2),
        ((5, 5), 2, 0),
        ((0,), 0, 0),
        ((), 0, 0),
    ],
)
def test_transactions_behind_what_was_read_are_counted(
    tmp_path: Path, commits: tuple[int, ...], read: int, expected: int
) -> None:
    assert lost(tmp_path, log_of(*commits), read) == expected


@pytest.mark.parametrize(("page", "expected"), [(256, 0), (512, 2), (4096, 2), (65536, 2), (131072, 0)])
def test_only_page_sizes_that_sqlite_allows_are_read(tmp_path: Path, page: int, expected: int) -> None:
    assert lost(tmp_path, log_of(5, 5, page=page)) == expected


def test_frames_of_an_earlier_round_are_not_lost(tmp_path: Path) -> None:
    old = log_of(5, 5, salts=b"oldsalts")[32:]
    assert lost(tmp_path, log_of(5) + old) == 1
    assert lost(tmp_path, log_of(5, 5, salts=b"oldsalts"), 1) == 0
    assert lost(tmp_path, log_of(5, 5, header=b"damaged!"), 0) == 2


@pytest.mark.parametrize(("cut", "expected"), [(0, 2), (1, 1), (535, 1), (536, 1), (537, 0)])
def test_a_frame_that_was_cut_short_is_none(tmp_path: Path, cut: int, expected: int) -> None:
    log = log_of(5, 5)
    assert lost(tmp_path, log[: len(log) - cut]) == expected


def test_without_a_log_nothing_is_lost_and_nothing_copied(tmp_path: Path) -> None:
    assert salvage.lost_in_log(tmp_path / "s.db", 0) == 0
    assert lost(tmp_path, b"") == lost(tmp_path, log_of(5)[:55]) == 0
    (tmp_path / "s.db-wal").unlink()
    assert salvage.copy_log(tmp_path / "s.db", 0.0) is None


def test_a_log_is_copied_under_the_time_and_private(tmp_path: Path) -> None:
    (tmp_path / "s.db-wal").write_bytes(b"the log")
    aside = salvage.copy_log(tmp_path / "s.db", 86_400.0)
    assert aside == tmp_path / "s.db-wal.damaged-19700102T000000Z"
    assert (aside.read_bytes(), aside.stat().st_mode & 0o777) == (b"the log", 0o600)
