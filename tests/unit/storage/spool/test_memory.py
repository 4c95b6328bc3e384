"""The first probability of each case, kept over restarts."""

from __future__ import annotations

import sqlite3

import pytest

from monitor.storage.spool import memory as kept
from monitor.storage.spool import salvage
from tests.support.spool import SpoolFile, killed

pytestmark = pytest.mark.anyio


async def test_a_draw_is_there_after_a_restart(file: SpoolFile) -> None:
    async with file.open() as spool:
        spool.draws.keep_draw("a case", 0.25, 0.125)
        assert spool.draws.drawn("a case") == (0.25, 0.125)
    async with file.open() as spool:
        assert spool.draws.drawn("a case") == (0.25, 0.125)
        assert spool.draws.drawn("another") is None


async def test_a_draw_is_on_disk_no_later_than_the_result_that_follows_from_it(file: SpoolFile) -> None:
    async with killed(file) as spool:
        spool.draws.keep_draw("a case", 0.25, 0.125)
        spool.remember(["its result"])
        await spool.append(file.record(b"the next"))  # its commit takes both along
    async with file.open() as spool:
        assert spool.remembered("its result")
        assert spool.draws.drawn("a case") == (0.25, 0.125)


async def test_only_so_many_draws_are_kept_the_newest(file: SpoolFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_DRAWS", 3)
    async with file.open() as spool:
        for key in "abcdefgh":
            spool.draws.keep_draw(key, 0.5, 0.5)
        known = [key for key in "abcdefgh" if spool.draws.drawn(key)]
        assert known[-3:] == ["f", "g", "h"]
        assert len(known) <= 6
    with sqlite3.connect(file.path) as db:
        assert db.execute("SELECT count(*) FROM draws").fetchone() == (3,)
    db.close()


async def test_draws_older_than_any_case_go(file: SpoolFile) -> None:
    async with file.open() as spool:
        spool.draws.keep_draw("old", 0.5, 0.5)
    file.clock.advance(2 * 3600.0)
    async with file.open() as spool:
        await spool.append(file.record(b"writes, and so prunes"))
    async with file.open() as spool:
        assert spool.draws.drawn("old") is None


async def test_a_file_from_before_there_were_draws_is_taken_over(file: SpoolFile) -> None:
    async with file.open() as spool:
        await spool.append(file.record(b"kept"))
    with sqlite3.connect(file.path) as db:
        db.execute("DROP TABLE draws")
        db.execute("PRAGMA user_version = 1")
    db.close()
    async with file.open() as spool:
        assert [one.record.payload async for one in spool.replay()] == [b"kept"]
        spool.draws.keep_draw("new", 0.5, 0.5)
    async with file.open() as spool:
        assert spool.draws.drawn("new") == (0.5, 0.5)
    assert file.asides() == []


async def test_what_is_no_draw_in_the_file_is_passed_over(file: SpoolFile) -> None:
    async with file.open() as spool:
        spool.draws.keep_draw("good", 0.5, 0.5)
    with sqlite3.connect(file.path) as db:
        db.execute("INSERT INTO draws (id, probability, target, at) VALUES (x'61', 7.0, 0.5, 0), ('b', 'c', 'd', 0)")
    db.close()
    async with file.open() as spool:
        assert spool.draws.drawn("good") == (0.5, 0.5)
        assert spool.draws.drawn("a") is None


async def test_draws_outlive_the_repair_of_a_damaged_file(file: SpoolFile) -> None:
    async with file.open() as spool:
        spool.draws.keep_draw("a case", 0.25, 0.125)
        await spool.append(file.record(b"kept"))
    found = salvage.rebuild(file.path, most_pages=1000, now=0.0, why="a test")
    assert (found.kept["records"], found.kept["draws"]) == (1, 1)
    async with file.open() as spool:
        assert spool.draws.drawn("a case") == (0.25, 0.125)
