"""The file of what is being read, byte by byte, and what is set aside at the edges of its number, size and age."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.storage.spool import poison
from monitor.storage.spool.poison import FOLDER, READING, PoisonFiles, PoisonGuard

SIZE = 24


def key_of(request_id: str) -> bytes:
    return hashlib.blake2b(request_id.encode(), digest_size=16).digest()


def entry(request_id: str, ended: int, now: int, *, broken: int = 0) -> bytes:
    key = key_of(request_id)
    return struct.pack("<16sBBHI", key, ended, now, 0, zlib.crc32(key + bytes((ended, now)), 1) ^ broken)


def guard(folder: Path) -> PoisonGuard:
    return PoisonGuard(folder, keep=3600.0, clock=ManualClock())


def entries(folder: Path) -> list[bytes]:
    content = (folder / READING).read_bytes()
    return [content[at : at + SIZE] for at in range(0, len(content), SIZE)]


@pytest.mark.parametrize(
    ("ended", "now", "lives"), [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2), (254, 1, 255), (255, 1, 255), (255, 0, 255)]
)
def test_a_process_that_ended_while_it_read_is_one_life_more(tmp_path: Path, ended: int, now: int, lives: int) -> None:
    (tmp_path / READING).write_bytes(entry("a", ended, now))
    found = guard(tmp_path)
    assert (found.lives("a"), found.suspects) == (lives, lives > 0)


def test_an_entry_with_another_checksum_counts_nothing_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / READING).write_bytes(entry("a", 1, 0, broken=1) + entry("b", 1, 0) + entry("c", 1, 0)[:-1])
    found = guard(tmp_path)
    assert [found.lives(name) for name in "abc"] == [0, 1, 0]


def test_of_two_entries_of_a_request_the_first_counts(tmp_path: Path) -> None:
    (tmp_path / READING).write_bytes(entry("a", 3, 0) + entry("a", 7, 0))
    assert guard(tmp_path).lives("a") == 3


def test_the_file_has_256_entries_and_no_more_are_read(tmp_path: Path) -> None:
    (tmp_path / READING).write_bytes(b"".join(entry(str(number), 1, 0) for number in range(257)))
    found = guard(tmp_path)
    assert [found.lives(str(number)) for number in (0, 255, 256)] == [1, 1, 0]
    (tmp_path / READING).unlink()
    guard(tmp_path)
    assert (tmp_path / READING).stat().st_size == 256 * SIZE


def test_what_is_being_read_stands_in_the_first_free_entry_and_is_cleared_afterwards(tmp_path: Path) -> None:
    found = guard(tmp_path)
    with found.reading("a"):
        with found.reading("b"):
            assert entries(tmp_path)[:3] == [entry("a", 0, 1), entry("b", 0, 1), bytes(SIZE)]
        assert entries(tmp_path)[:2] == [entry("a", 0, 1), bytes(SIZE)]
        with found.reading("c"):
            assert entries(tmp_path)[:2] == [entry("a", 0, 1), entry("c", 0, 1)]
    assert set(entries(tmp_path)) == {bytes(SIZE)}


def test_an_entry_is_cleared_where_reading_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no trace"), guard(tmp_path).reading("a"):
        raise ValueError("no trace")
    assert set(entries(tmp_path)) == {bytes(SIZE)}


def test_lives_stay_in_the_file_while_a_suspect_is_read_in_steps_and_go_when_it_is_finished(tmp_path: Path) -> None:
    (tmp_path / READING).write_bytes(entry("a", 0, 1) + entry("b", 0, 1))
    found = guard(tmp_path)
    assert entries(tmp_path)[:3] == [entry("a", 1, 0), entry("b", 1, 0), bytes(SIZE)]
    with found.reading("b"):
        assert entries(tmp_path)[:2] == [entry("a", 1, 0), entry("b", 1, 1)]
    assert entries(tmp_path)[:2] == [entry("a", 1, 0), entry("b", 1, 0)]
    found.finished("never seen")
    found.finished("a")
    assert entries(tmp_path)[:2] == [bytes(SIZE), entry("b", 1, 0)]
    assert (found.suspects, found.lives("a"), found.lives("b")) == (True, 0, 1)
    found.finished("b")
    assert (found.suspects, set(entries(tmp_path))) == (False, {bytes(SIZE)})
    with found.reading("a"):
        assert entry("a", 0, 1) in entries(tmp_path)


def test_entries_are_used_again_however_many_are_read(tmp_path: Path) -> None:
    found = guard(tmp_path)
    for number in range(600):
        with found.reading(str(number)):
            assert entry(str(number), 0, 1) in entries(tmp_path)[:2]


def test_a_closed_file_is_empty_and_is_not_written_any_more(tmp_path: Path) -> None:
    found = guard(tmp_path)
    with found.reading("a"):
        found.close()
        found.close()
        assert (tmp_path / READING).read_bytes() == b""
    with found.reading("b"):
        pass
    assert (tmp_path / READING).read_bytes() == b""


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"precious")
    (tmp_path / READING).symlink_to(tmp_path / "elsewhere")
    with guard(tmp_path).reading("a"):
        pass
    assert (tmp_path / "elsewhere").read_bytes() == b"precious"


def test_a_start_deletes_what_was_set_aside_too_long_ago(tmp_path: Path) -> None:
    clock = ManualClock()
    for name, age in (("at the edge", 3600.0), ("too old", 3601.0)):
        path = tmp_path / FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (0, clock.now() - age))
    PoisonGuard(tmp_path, keep=3600.0, clock=clock)
    assert [path.name for path in poison.kept(tmp_path / FOLDER)] == ["at the edge"]


# -- what is set aside


@pytest.fixture
def aside(tmp_path: Path) -> PoisonFiles:
    return PoisonFiles(tmp_path, keep=1e10, clock=ManualClock(0.0))


def put(aside: PoisonFiles, name: str, size: int, at: int) -> str:
    path = aside.put(name, {".pb": bytes(size)})
    if path:
        os.utime(path, (at, at))
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in poison.kept(folder))


@pytest.mark.parametrize(
    ("request_id", "kept"),
    [
        ("a", True),
        ("Z9_-", True),
        ("x" * 64, True),
        ("x" * 65, False),
        ("-a", False),
        ("_a", False),
        ("a.b", False),
        ("a\n", False),
        ("é", False),
    ],
)
def test_a_request_gives_its_name_to_the_file_where_it_can(aside: PoisonFiles, request_id: str, kept: bool) -> None:
    name = Path(aside.put(request_id, {".pb": b"x"})).name
    assert name == (f"{request_id}.pb" if kept else f"{key_of(request_id).hex()}.pb")


def test_each_part_has_a_file_and_the_first_is_named(aside: PoisonFiles, tmp_path: Path) -> None:
    content = {".empty": b"", ".pb": b"spans", ".logs.pb": b"records"}
    assert aside.put("a", content) == str(tmp_path / "a.pb")
    assert names(tmp_path) == ["a.logs.pb", "a.pb"]
    assert (tmp_path / "a.logs.pb").read_bytes() == b"records"


def test_a_part_is_kept_up_to_the_limit_of_all_and_no_byte_more(
    aside: PoisonFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poison, "MAX_BYTES", 100)
    assert aside.put("fits", {".pb": bytes(100)})
    assert aside.put("not", {".pb": bytes(101)}) == ""
    assert "not.pb" not in names(tmp_path)


def test_the_oldest_go_as_far_as_a_new_one_needs_their_bytes(
    aside: PoisonFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poison, "MAX_BYTES", 100)
    for at, name in enumerate("abc"):
        put(aside, name, 30, at)
    put(aside, "d", 10, 3)
    assert names(tmp_path) == ["a.pb", "b.pb", "c.pb", "d.pb"]
    put(aside, "e", 1, 4)
    assert names(tmp_path) == ["b.pb", "c.pb", "d.pb", "e.pb"]
    put(aside, "f", 90, 5)
    assert names(tmp_path) == ["e.pb", "f.pb"]


def test_the_oldest_go_as_far_as_a_new_one_needs_their_number(
    aside: PoisonFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poison, "MAX_FILES", 3)
    for at, name in enumerate("abc"):
        put(aside, name, 1, at)
    assert names(tmp_path) == ["a.pb", "b.pb", "c.pb"]
    aside.put("d", {".pb": b"x", ".logs.pb": b"x"})
    assert names(tmp_path) == ["c.pb", "d.logs.pb", "d.pb"]


def test_what_is_just_as_old_as_results_are_kept_stays(tmp_path: Path) -> None:
    for name, at in (("old", 0), ("edge", 1)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    PoisonFiles(tmp_path, keep=10.0, clock=ManualClock(11.0)).prune()
    assert names(tmp_path) == ["edge"]


def test_links_and_folders_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").touch()
    assert names(tmp_path) == ["file"]
    assert poison.kept(tmp_path / "none") == []


def test_nobody_is_erased_by_an_empty_name(aside: PoisonFiles, tmp_path: Path) -> None:
    aside.put("a", {".pb": b"x"})
    assert poison.erase(tmp_path, {""}, dry_run=False) == {}
    assert poison.erase(tmp_path, {"other"}, dry_run=False) == {}
    assert names(tmp_path) == ["a.pb"]
