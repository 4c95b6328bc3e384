"""The tables of what came lately: how large they are, keys that want one slot, and what the file keeps of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from monitor.storage.spool import memory
from monitor.storage.spool.memory import Draw, FirstDraws, RecentIds, RecentPairs
from monitor.storage.spool.table import FORMAT


class At(str):
    """A key with a hash of one's own, and with it a slot: 64 slots are the smallest table."""

    __slots__ = ()

    def __hash__(self) -> int:
        return int(self)


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        made.executescript(FORMAT.schema)
        yield made


@pytest.mark.parametrize(
    ("max_bytes", "most", "slots", "limit"),
    [
        (0, 1000, 64, 38),
        (0, 10, 64, 10),
        (2047, 1000, 64, 38),
        (2048, 1000, 128, 76),
        (4095, 1000, 128, 76),
        (4096, 1000, 256, 153),
        (10**6, 38, 64, 38),
        (10**6, 39, 128, 39),
        (10**6, 76, 128, 76),
        (10**6, 77, 256, 77),
    ],
)
def test_a_table_of_ids_takes_a_quarter_of_its_bytes_and_fills_to_six_tenths(
    max_bytes: int, most: int, slots: int, limit: int
) -> None:
    ids = RecentIds(max_bytes, most)
    assert (ids._new.keys.nbytes, ids._new.numbers.nbytes, ids.limit) == (8 * slots, 0, limit)


@pytest.mark.parametrize(
    ("max_bytes", "most", "slots", "limit"), [(0, 100, 64, 38), (6143, 100, 64, 38), (6144, 100, 128, 76)]
)
def test_two_numbers_beside_each_id_count_in_its_bytes(max_bytes: int, most: int, slots: int, limit: int) -> None:
    pairs = RecentPairs(max_bytes, most)
    assert (pairs._new.keys.nbytes, pairs._new.numbers.nbytes, pairs.limit) == (8 * slots, 16 * slots, limit)


def test_ids_that_want_one_slot_are_told_apart_over_the_end_of_the_table() -> None:
    keys = [At(63 + 64 * number) for number in range(4)]
    ids = RecentIds(0, 30)
    assert all(map(ids.first, keys))
    assert not any(map(ids.first, keys))
    assert At(63 + 64 * 4) not in ids
    assert At(62) not in ids


def test_numbers_of_ids_that_want_one_slot_stay_their_own() -> None:
    pairs = RecentPairs(0, 30)
    for number in range(5):
        pairs.put(At(62 + 64 * number), float(number), -float(number))
    assert [pairs.get(At(62 + 64 * number)) for number in range(5)] == [(float(n), -float(n)) for n in range(5)]
    pairs.put(At(62 + 64), 7.0, 8.0)
    assert (pairs.get(At(62 + 64)), pairs.get(At(62))) == ((7.0, 8.0), (0.0, -0.0))
    assert pairs.get(At(62 + 64 * 5)) is None


def test_hashes_that_mean_free_or_forgotten_are_ids_like_others() -> None:
    for value in (0, 1, 2):
        ids = RecentIds(0, 30)
        assert At(value) not in ids
        assert ids.first(At(value))
        assert not ids.first(At(value))
        ids.forget(At(value))
        assert At(value) not in ids


def test_an_id_that_is_forgotten_hides_none_behind_it() -> None:
    ids = RecentIds(0, 30)
    for number in range(3):
        ids.first(At(5 + 64 * number))
    ids.forget(At(5))
    ids.forget(At(5))
    assert [At(5 + 64 * number) in ids for number in range(3)] == [False, True, True]
    assert ids.first(At(5))


def test_what_is_known_of_two_generations_goes_with_the_older_one() -> None:
    ids = RecentIds(0, 3)
    for number in range(3):
        assert ids.first(f"a{number}")
    assert ids.first("b0")  # the first table is full, and is the older one from here on
    assert not ids.first("a0")  # and is in the newer one too
    assert all(key in ids for key in ("a0", "a1", "a2", "b0"))
    ids.forget("a1")
    assert "a1" not in ids
    assert ids.first("b1")
    assert ids.first("c0")
    assert [key in ids for key in ("a0", "a1", "a2", "b0", "b1", "c0")] == [True, False, False, True, True, True]


def test_numbers_of_the_older_generation_are_found_and_the_newer_ones_count() -> None:
    pairs = RecentPairs(0, 2)
    pairs.put("a", 1.0, 2.0)
    pairs.put("b", 3.0, 4.0)
    pairs.put("c", 5.0, 6.0)
    assert [pairs.get(key) for key in "abc"] == [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]
    pairs.put("a", 7.0, 8.0)
    assert pairs.get("a") == (7.0, 8.0)
    pairs.put("d", 9.0, 9.0)
    assert [pairs.get(key) for key in "abcd"] == [(7.0, 8.0), None, (5.0, 6.0), (9.0, 9.0)]


def test_an_id_that_is_there_takes_no_more_room() -> None:
    ids = RecentIds(0, 3)
    for _ in range(10):
        ids.first("a")
        ids.first("b")
    assert ids._new.used == 2
    assert ids._old.used == 0


# -- draws


def draws(changed: list[str]) -> FirstDraws:
    return FirstDraws(lambda: changed.append("changed"), 10**5)


def test_a_draw_waits_until_it_is_taken_and_says_that_it_does() -> None:
    changed: list[str] = []
    kept = draws(changed)
    assert (bool(kept), kept.take(), changed) == (False, [], [])
    kept.keep_draw("a", 0.5, 0.25)
    kept.keep_draw("b", 0.5, 0.0)
    assert (bool(kept), changed) == (True, ["changed"] * 2)
    assert kept.take() == [Draw(b"a", 0.5, 0.25), Draw(b"b", 0.5, 0.0)]
    assert (bool(kept), kept.drawn("a"), kept.drawn("c")) == (False, (0.5, 0.25), None)


def test_draws_that_could_not_be_written_come_first_again_in_their_order() -> None:
    kept = draws([])
    kept.keep_draw("a", 0.5, 0.5)
    kept.keep_draw("b", 0.5, 0.5)
    taken = kept.take()
    kept.keep_draw("c", 0.5, 0.5)
    kept.give_back(taken)
    assert [one.key for one in kept.take()] == [b"a", b"b", b"c"]


def test_a_draw_of_this_process_counts_more_than_one_of_the_last_and_the_first_of_these_most() -> None:
    kept = draws([])
    kept.keep_draw("a", 0.5, 0.5)
    kept.load([Draw(b"a", 0.1, 0.1), Draw(b"b", 0.2, 0.1), Draw(b"b", 0.3, 0.1)])
    assert (kept.drawn("a"), kept.drawn("b")) == ((0.5, 0.5), (0.2, 0.1))
    assert [one.key for one in kept.take()] == [b"a"]


@pytest.mark.parametrize(
    ("probability", "target", "kept"),
    [
        (1.0, 1.0, True),
        (1e-9, 0.0, True),
        (0.0, 0.5, False),
        (-0.5, 0.5, False),
        (1.5, 0.5, False),
        (0.5, -0.1, False),
        (0.5, 1.1, False),
        ("x", 0.5, False),
        (0.5, "x", False),
    ],
)
def test_a_draw_that_cannot_have_been_is_not_read(
    db: sqlite3.Connection, probability: object, target: object, kept: bool
) -> None:
    db.execute("INSERT INTO draws (id, probability, target, at) VALUES (x'61', ?, ?, 0)", (probability, target))
    assert bool(memory.read_draws(db)) is kept


def test_what_is_written_is_read_oldest_first(db: sqlite3.Connection) -> None:
    memory.write(db, ["a", "b\ud800"], [Draw(b"x", 0.5, 0.5)], 10.0)
    memory.write(db, ["c"], [Draw(b"y", 0.25, 0.0)], 20.0)
    memory.write(db, [], [], 30.0)
    assert [key[0] for key in memory.read_result_ids(db)] == ["a", "b", "c"]
    assert memory.read_draws(db) == [Draw(b"x", 0.5, 0.5), Draw(b"y", 0.25, 0.0)]
    assert db.execute("SELECT at FROM remembered ORDER BY n").fetchall() == [(10.0,), (10.0,), (20.0,)]


def test_an_id_that_is_no_bytes_is_passed_over(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO remembered (id, at) VALUES ('a text', 0), (x'61', 0)")
    assert memory.read_result_ids(db) == ["a"]


def test_only_the_newest_are_read_and_kept(db: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.write(db, "abcde", [Draw(key.encode(), 0.5, 0.5) for key in "abcde"], 10.0)
    monkeypatch.setattr(memory, "MAX_RESULT_IDS", 2)
    monkeypatch.setattr(memory, "MAX_DRAWS", 3)
    assert memory.read_result_ids(db) == ["d", "e"]
    assert [one.key for one in memory.read_draws(db)] == [b"c", b"d", b"e"]
    memory.write(db, [], [Draw(b"f", 0.5, 0.5)], 10.0)
    assert db.execute("SELECT count(*) FROM draws").fetchone() == (3,)
    memory.prune(db, 0.0)
    assert db.execute("SELECT count(*) FROM remembered").fetchone() == (2,)


def test_what_is_just_as_old_as_a_case_can_be_stays(db: sqlite3.Connection) -> None:
    for at in (9.0, 10.0):
        memory.write(db, [f"{at}"], [Draw(b"%d" % at, 0.5, 0.5)], at)
    memory.prune(db, 10.0)
    assert memory.read_result_ids(db) == ["10.0"]
    assert [one.key for one in memory.read_draws(db)] == [b"10"]
