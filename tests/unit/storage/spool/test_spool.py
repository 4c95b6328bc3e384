"""The spool's promises, on real files."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor.errors import ConfigError, Overloaded, TooLarge
from monitor.storage.spool import queue as spool_queue
from monitor.storage.spool.table import PAGE
from tests.support.spool import SpoolFile, killed

pytestmark = pytest.mark.anyio


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_queue, "_IDLE", 0.01)


async def test_an_unsettled_record_comes_back_whole_after_a_restart(file: SpoolFile) -> None:
    record = file.record(b"payload " * 1000, meta=b'{"probability":0.1}', signal="logs", source="otlp_grpc")
    async with file.open() as spool:
        await spool.append(record)
    async with file.open() as spool:
        assert [one.record async for one in spool.replay()] == [record]


async def test_a_settled_record_does_not_come_back(file: SpoolFile) -> None:
    async with file.open() as spool:
        acks = [await spool.append(file.record(b"%d" % n)) for n in range(3)]
        acks[1].settle()
    assert await file.left() == [b"0", b"2"]


async def test_settling_a_replayed_record_deletes_it(file: SpoolFile) -> None:
    async with file.open() as spool:
        for n in range(3):
            await spool.append(file.record(b"%d" % n))
    async with file.open() as spool:
        async for one in spool.replay():
            if one.record.payload != b"2":
                one.ack.settle()
    assert await file.left() == [b"2"]


async def test_replay_is_oldest_first_and_has_nothing_of_this_process(file: SpoolFile) -> None:
    async with file.open() as spool:
        for n in range(40):
            await spool.append(file.record(b"%d" % n))
    async with file.open() as spool:
        await spool.append(file.record(b"new"))
        seen = [one.record.payload async for one in spool.replay()]
    assert seen == [b"%d" % n for n in range(40)]


async def test_records_are_on_disk_when_append_returns(file: SpoolFile) -> None:
    async with killed(file) as spool:
        for n in range(5):
            await spool.append(file.record(b"%d" % n))
    assert await file.left() == [b"%d" % n for n in range(5)]


async def test_many_waiting_appends_share_a_few_commits(file: SpoolFile, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = 0
    write = spool_queue.SpoolDatabase.write

    def counted(self: Any, batch: Any) -> Any:
        nonlocal commits
        commits += 1
        return write(self, batch)

    monkeypatch.setattr(spool_queue.SpoolDatabase, "write", counted)
    async with file.open() as spool, anyio.create_task_group() as group:
        for n in range(200):
            group.start_soon(spool.append, file.record(b"%d" % n))
    assert commits <= 4
    assert len(await file.left()) == 200


async def test_beyond_at_most_it_is_overloaded_until_records_are_settled(file: SpoolFile, quick: None) -> None:
    async with file.open(at_most=1024 * 1024) as spool:
        acks = []
        with pytest.raises(Overloaded, match="full") as refused:  # noqa: PT012 - which one is refused is not the point
            while True:
                ack = await spool.append(file.record(os.urandom(50_000)))
                acks.append(ack)
        assert 1 <= refused.value.retry_after <= 2
        assert 10 < len(acks) < 25
        assert file.value("ragmonitor_events_total", event="spool_full") == 1
        for ack in acks:
            ack.settle()
        with anyio.fail_after(120):
            while True:
                try:
                    await spool.append(file.record(os.urandom(50_000)))
                    break
                except Overloaded:
                    await anyio.sleep(0.02)
    assert len(await file.left()) == 1


async def test_a_record_that_can_never_fit_is_too_large(file: SpoolFile) -> None:
    async with file.open(at_most=100_000) as spool:
        with pytest.raises(TooLarge, match="100000"):
            await spool.append(file.record(bytes(200_000)))


async def test_a_cancelled_append_keeps_nothing(file: SpoolFile) -> None:
    async with file.open() as spool:
        for delay in (0.0, 0.0005, 0.002, 0.01):
            with anyio.move_on_after(delay):
                ack = await spool.append(file.record(b"cancelled"))
                ack.settle()
        await spool.append(file.record(b"stays"))
    assert await file.left() == [b"stays"]


async def test_an_append_cancelled_in_the_moment_of_its_commit_keeps_nothing(
    file: SpoolFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with file.open() as spool:
        task = asyncio.create_task(spool.append(file.record(b"cancelled")))
        # the gauge is set in the same step of the loop as the result of the append
        monkeypatch.setattr(file.metrics.spool_bytes, "set", lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task
        monkeypatch.undo()
    assert await file.left() == []


async def test_what_is_waiting_when_the_spool_closes_is_committed(file: SpoolFile) -> None:
    async with file.open() as spool:
        tasks = [asyncio.create_task(spool.append(file.record(b"%d" % n))) for n in range(50)]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert len(await file.left()) == 50


async def test_a_record_older_than_keep_is_reported_as_expired(file: SpoolFile) -> None:
    async with file.open() as spool:
        await spool.append(file.record(b"old"))
        file.clock.advance(3000)
        await spool.append(file.record(b"young"))
    file.clock.advance(700)
    async with file.open() as spool:
        assert [(one.record.payload, one.expired) async for one in spool.replay()] == [
            (b"old", True),
            (b"young", False),
        ]


async def test_remembered_results_survive_a_restart_until_they_are_too_old(file: SpoolFile) -> None:
    async with file.open() as spool:
        spool.remember(["a", "b"])
        assert spool.remembered("a")
        assert not spool.remembered("c")
    file.clock.advance(3000)
    async with file.open() as spool:
        assert spool.remembered("b")
        spool.remember(["c"])
    file.clock.advance(3000)
    async with file.open() as spool:
        await spool.append(file.record(b"any commit prunes"))
    async with file.open() as spool:
        assert not spool.remembered("a")
        assert spool.remembered("c")


async def test_only_so_many_results_are_remembered_the_newest(file: SpoolFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_queue, "MAX_RESULT_IDS", 3)
    async with file.open() as spool:
        spool.remember("abcdefgh")
        known = [key for key in "abcdefgh" if spool.remembered(key)]
        assert known[-3:] == ["f", "g", "h"]
        assert len(known) <= 6


async def test_a_result_is_remembered_no_later_than_its_record_is_deleted(file: SpoolFile) -> None:
    async with killed(file) as spool:
        ack = await spool.append(file.record(b"first"))
        spool.remember(["result of first"])
        ack.settle()
        await spool.append(file.record(b"second"))  # its commit takes both along
    async with file.open() as spool:
        assert spool.remembered("result of first")
        assert [one.record.payload async for one in spool.replay()] == [b"second"]


async def test_only_the_owner_can_read_what_it_writes(file: SpoolFile) -> None:
    async with file.open() as spool:
        await spool.append(file.record(b"secret"))
        assert file.path.parent.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in file.path.parent.iterdir()} == {0o600}


async def test_a_planted_link_is_refused(file: SpoolFile, tmp_path: Path) -> None:
    file.path.parent.mkdir()
    file.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"spool\.db"):
        async with file.open():
            pass
    assert not (tmp_path / "elsewhere").exists()


async def test_two_processes_cannot_share_a_spool(file: SpoolFile) -> None:
    async with file.open():
        with pytest.raises(ConfigError, match="another process"):
            async with file.open():
                pass


async def test_a_file_of_a_newer_version_is_left_alone(file: SpoolFile) -> None:
    await file.left()
    with sqlite3.connect(file.path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ConfigError, match="newer version"):
        await file.left()
    assert file.asides() == []


async def test_gauges_show_what_is_in_the_spool(file: SpoolFile) -> None:
    async with file.open() as spool:
        await spool.append(file.record(b"1"))
        await spool.append(file.record(b"2"))
        assert file.value("ragmonitor_spool_records") == 2
        assert file.value("ragmonitor_spool_bytes") > 0


async def test_from_the_replay_on_the_gauge_counts_what_was_left(file: SpoolFile) -> None:
    async with file.open() as spool:
        await spool.append(file.record(b"1"))
    async with file.open() as spool:
        assert len([one async for one in spool.replay()]) == 1
        assert file.value("ragmonitor_spool_records") == 1, "also while nothing new is written"
        await spool.append(file.record(b"2"))
        assert file.value("ragmonitor_spool_records") == 2


async def test_a_replay_holds_no_more_than_some_megabytes(file: SpoolFile, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    read = spool_queue.SpoolDatabase.read

    def measured(self: Any, after: int) -> Any:
        found = read(self, after)
        sizes.append(sum(len(record.payload) for _, record in found))
        return found

    monkeypatch.setattr(spool_queue.SpoolDatabase, "read", measured)
    async with file.open() as spool:
        for _ in range(20):
            await spool.append(file.record(bytes(1_000_000)))
    assert len(await file.left()) == 20
    assert max(sizes) <= 5_000_000


async def test_a_record_that_has_changed_on_disk_costs_itself_and_the_replay_goes_on(file: SpoolFile) -> None:
    async with file.open() as spool:
        for payload in (b"one", b"two", b"three"):
            await spool.append(file.record(payload))
    with sqlite3.connect(file.path) as db:
        db.execute("UPDATE records SET checksum = checksum + 1 WHERE id = (SELECT min(id) + 1 FROM records)")
    db.close()
    async with file.open() as spool:
        assert [one.payload for _, one in spool._store.read(0)] == [b"one", b"three"], "read again after the repair"
    assert await file.left() == [b"one", b"three"]
    assert file.value("ragmonitor_spool_damaged_records_total") == 1
    assert len(file.asides()) == 1


async def test_a_file_of_some_megabytes_is_checked_when_it_is_opened(file: SpoolFile) -> None:
    async with file.open() as spool:
        for _ in range(4):
            await spool.append(file.record(os.urandom(1024 * 1024)))
    image = bytearray(file.path.read_bytes())
    assert len(image) > 2 * 1024**2
    image[PAGE : 2 * PAGE] = bytes(PAGE)
    file.path.write_bytes(image)
    async with file.open():
        assert len(file.asides()) == 1, "before anything is read"


async def test_opening_a_path_that_is_a_folder_names_the_path(file: SpoolFile) -> None:
    file.path.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"spool\.db"):
        async with file.open():
            pass
