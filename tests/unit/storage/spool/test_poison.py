"""What is being read stands in a file that outlives the process; what was set aside is bounded and can be erased."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.storage.spool import poison
from monitor.storage.spool.poison import FOLDER, READING, PoisonFiles, PoisonGuard


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], PoisonGuard]:
    return lambda: PoisonGuard(tmp_path, keep=3600.0, clock=ManualClock())


_NEVER_LEFT: list[object] = []


def end_while_reading(guard: PoisonGuard, *ids: str) -> None:
    """Leave the file as a process leaves it that ends while it reads these requests."""
    for one in ids:
        context = guard.reading(one)
        context.__enter__()
        _NEVER_LEFT.append(context)


def test_a_life_counts_against_what_was_being_read_and_nothing_else(opened) -> None:
    guard = opened()
    with guard.reading("read to its end"):
        pass
    end_while_reading(guard, "a", "b")
    guard = opened()
    assert [guard.lives(one) for one in ("a", "b", "read to its end")] == [1, 1, 0]
    assert guard.suspects


def test_lives_add_up_until_the_request_is_read_to_its_end(opened) -> None:
    end_while_reading(opened(), "a", "b")
    end_while_reading(opened(), "a")
    guard = opened()
    assert (guard.lives("a"), guard.lives("b")) == (2, 1)
    with guard.reading("b"):
        pass  # one of several steps
    assert guard.lives("b") == 1
    guard.finished("b")
    guard.finished("a")
    assert not guard.suspects
    assert not opened().suspects


def test_a_life_that_ends_in_another_step_of_the_same_request_counts_too(opened) -> None:
    for _ in range(2):
        guard = opened()
        with guard.reading("a"):
            pass
        end_while_reading(guard, "a")
    assert opened().lives("a") == 2


def test_an_orderly_end_counts_against_nothing(opened) -> None:
    end_while_reading(opened(), "a")
    opened().close()
    assert not opened().suspects


def test_more_requests_than_there_are_entries_are_read_all_the_same(opened) -> None:
    guard = opened()
    end_while_reading(guard, *(f"id {number}" for number in range(300)))
    assert sum(opened().lives(f"id {number}") for number in range(300)) == 256


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 6144, os.urandom(100_000)])
def test_a_damaged_file_counts_against_nothing(opened, tmp_path: Path, content: bytes) -> None:
    (tmp_path / READING).write_bytes(content)
    guard = opened()
    assert not guard.suspects
    end_while_reading(guard, "a")
    assert opened().lives("a") == 1


def test_a_folder_that_cannot_be_written_stops_no_reading(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    guard = PoisonGuard(tmp_path / "file", keep=1.0, clock=ManualClock())
    with guard.reading("a"):
        pass
    assert guard.set_aside("a", {".jsonl": b"{}"}) == ""
    guard.close()


def aside(tmp_path: Path) -> PoisonFiles:
    return PoisonFiles(tmp_path / FOLDER, keep=3600.0, clock=ManualClock(0.0))


def test_what_is_set_aside_is_private_and_its_name_stays_in_the_folder(tmp_path: Path) -> None:
    for request_id in ("../../etc/passwd", "a/b", "", ".hidden", "x" * 500, "fine-1"):
        path = Path(aside(tmp_path).put(request_id, {".jsonl": b"{}"}))
        assert path.parent == tmp_path / FOLDER
        assert path.stat().st_mode & 0o077 == 0


def test_at_most_twenty_are_kept_the_newest(tmp_path: Path) -> None:
    for number in range(30):
        os.utime(aside(tmp_path).put(f"id{number}", {".jsonl": b"{}"}), (number, number))
    assert {path.stem for path in poison.kept(tmp_path / FOLDER)} == {f"id{number}" for number in range(10, 30)}


def test_a_start_leaves_twenty_too(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    for number in range(25):
        path = tmp_path / FOLDER / f"id{number}.jsonl"
        path.write_bytes(b"{}")
        os.utime(path, (number, number))
    aside(tmp_path).prune()
    assert {path.stem for path in poison.kept(tmp_path / FOLDER)} == {f"id{number}" for number in range(5, 25)}


def test_what_is_older_than_results_are_kept_is_deleted(tmp_path: Path) -> None:
    old = Path(aside(tmp_path).put("old", {".jsonl": b"{}"}))
    os.utime(old, (0, 0))
    PoisonFiles(tmp_path / FOLDER, keep=3600.0, clock=ManualClock(3601.0)).prune()
    assert not old.exists()


def test_what_names_a_trace_or_a_user_is_erased_and_others_stay(tmp_path: Path) -> None:
    trace = "5b8efff798038103d269b633813fc60c"
    aside(tmp_path).put("one", {".pb": b"\x0a\x10" + bytes.fromhex(trace)})
    aside(tmp_path).put("two", {".jsonl": b'{"user": "u-1"}'})
    aside(tmp_path).put("three", {".jsonl": b"{}"})
    assert poison.erase(tmp_path / FOLDER, {trace, "u-1"}, dry_run=True) == {"files": 2}
    assert poison.erase(tmp_path / FOLDER, {trace, "u-1"}, dry_run=False) == {"files": 2}
    assert [path.stem for path in poison.kept(tmp_path / FOLDER)] == ["three"]
