"""The queue: what is refused at which byte, what one commit takes, and how often trouble is said."""

from __future__ import annotations

import asyncio

import pytest

from monitor.errors import Overloaded, TooLarge
from monitor.storage.spool import queue as spool_queue
from monitor.storage.spool.store import Batch, StoreFailed
from monitor.storage.spool.table import Room
from tests.support.spool import SpoolFile
from tests.support.tools import until

pytestmark = pytest.mark.anyio

OVERHEAD = 256


async def test_a_record_of_just_the_size_of_the_spool_is_no_reason_to_give_up(file: SpoolFile) -> None:
    async with file.open(at_most=100_000) as spool:
        with pytest.raises(TooLarge, match="a delivery of 100001 bytes does not fit into a spool of 100000"):
            await spool.append(file.record(bytes(100_000 - OVERHEAD - 3), meta=b"meta"))
        spool._room = Room(0, disk_has_room=True)
        await spool.append(file.record(bytes(100_000 - OVERHEAD - 4), meta=b"meta"))


async def test_the_last_byte_of_room_is_given_and_no_further_one(file: SpoolFile) -> None:
    async with file.open(at_most=10**6) as spool:
        spool._room = Room(10**6 - OVERHEAD - 10, disk_has_room=True)
        with pytest.raises(Overloaded, match="the spool is full: 999734 of 1000000 bytes"):
            await spool.append(file.record(bytes(11)))
        await spool.append(file.record(bytes(10)))


async def test_a_full_disk_refuses_and_is_looked_at_again(file: SpoolFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_queue, "_IDLE", 0.001)
    async with file.open() as spool:
        spool._room = Room(0, disk_has_room=False)
        with pytest.raises(Overloaded, match="the disk that the spool is on is nearly full"):
            await spool.append(file.record(b"x"))
        await until(lambda: spool._room.disk_has_room)
        await spool.append(file.record(b"x"))


async def test_one_record_may_always_wait_for_the_disk_and_others_within_their_bytes(file: SpoolFile) -> None:
    async with file.open(waiting_at_most=1000) as spool:
        tasks = [asyncio.create_task(spool.append(file.record(bytes(2000))))]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="2256 bytes are waiting for the disk"):
            await spool.append(file.record(b""))
        await asyncio.gather(*tasks)
        tasks = [asyncio.create_task(spool.append(file.record(bytes(one)))) for one in (500 - OVERHEAD,) * 2]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="1000 bytes are waiting"):
            await spool.append(file.record(b""))
        await asyncio.gather(*tasks)
        assert spool._waiting_bytes == 0


async def test_a_closing_spool_takes_nothing(file: SpoolFile) -> None:
    async with file.open() as spool:
        pass
    with pytest.raises(Overloaded, match="the spool is closing"):
        await spool.append(file.record(b"x"))


async def test_a_commit_takes_records_until_they_have_its_bytes(
    file: SpoolFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_queue, "_COMMIT_BYTES", 2 * (OVERHEAD + 10))
    taken: list[int] = []
    write = spool_queue.SpoolDatabase.write
    monkeypatch.setattr(
        spool_queue.SpoolDatabase, "write", lambda self, batch: taken.append(len(batch.records)) or write(self, batch)
    )
    async with file.open() as spool:
        await asyncio.gather(*[spool.append(file.record(bytes(10))) for _ in range(5)])
    assert taken == [2, 2, 1]


async def test_so_many_deletions_are_in_a_commit_and_few_in_trouble(
    file: SpoolFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_queue, "_DELETES", 3)
    monkeypatch.setattr(spool_queue, "_DELETES_IN_TROUBLE", 2)
    deleted: list[int] = []
    async with file.open() as spool:
        acks = [await spool.append(file.record(b"%d" % n)) for n in range(7)]
        write, fails = spool._store.write, [True]

        def failing(batch: Batch):
            deleted.append(len(batch.deletes))
            if fails:
                fails.pop()
                raise StoreFailed("full", "no space")
            return write(batch)

        monkeypatch.setattr(spool._store, "write", failing)
        for ack in acks:
            ack.settle()
        for _ in range(4):
            await spool._commit_once()
        assert deleted == [3, 2, 3, 2]
        assert spool._deletes == []
    assert await file.left() == []


async def test_what_a_failed_commit_held_comes_first_again(file: SpoolFile, monkeypatch: pytest.MonkeyPatch) -> None:
    async with file.open() as spool:
        write = spool._store.write
        monkeypatch.setattr(spool._store, "write", lambda _: (_ for _ in ()).throw(StoreFailed("failed", "an error")))
        spool.draws.keep_draw("a", 0.5, 0.5)
        spool.remember(["a", "b"])
        spool._deletes = [1, 2]
        assert not await spool._commit_once()
        assert (spool._deletes, list(spool._remembers), bool(spool.draws)) == ([1, 2], ["a", "b"], True)
        assert file.value("ragmonitor_database_failing", database="spool") == 1
        monkeypatch.setattr(spool._store, "write", write)
        assert await spool._commit_once()
        assert (spool._deletes, list(spool._remembers), bool(spool.draws)) == ([], [], False)
        assert file.value("ragmonitor_database_failing", database="spool") == 0
        assert file.value("ragmonitor_events_total", event="spool_recovered") == 1


@pytest.mark.parametrize(
    ("trouble", "event", "answer"),
    [("full", "spool_full", "is full"), ("failed", "spool_failed", "cannot be written")],
)
async def test_a_sender_is_told_whether_the_disk_is_full_or_fails(
    file: SpoolFile, monkeypatch: pytest.MonkeyPatch, trouble: str, event: str, answer: str
) -> None:
    async with file.open() as spool:
        monkeypatch.setattr(spool._store, "write", lambda _: (_ for _ in ()).throw(StoreFailed(trouble, "said")))
        with pytest.raises(Overloaded, match=answer):
            await spool.append(file.record(b"x"))
        assert spool._waiting_bytes == 0
        assert file.value("ragmonitor_events_total", event=event) == 1
        monkeypatch.undo()


async def test_trouble_is_said_again_after_half_a_minute(file: SpoolFile) -> None:
    async with file.open() as spool:
        for seconds, said in ((0.0, 1), (29.0, 1), (1.0, 2), (29.5, 2), (0.5, 3)):
            file.clock.advance(seconds)
            spool._say(spool_queue.Event.SPOOL_FULL, "full")
            assert file.value("ragmonitor_events_total", event="spool_full") == said
        spool._say(spool_queue.Event.SPOOL_FULL, "full", serious=True)
        assert file.value("ragmonitor_events_total", event="spool_full") == 4


async def test_a_record_of_just_its_time_is_not_too_old(file: SpoolFile) -> None:
    async with file.open() as spool:
        await spool.append(file.record(b"x"))
    file.clock.advance(3600.0)
    async with file.open() as spool:
        assert [one.expired async for one in spool.replay()] == [False]
    file.clock.advance(0.5)
    async with file.open() as spool:
        assert [one.expired async for one in spool.replay()] == [True]


async def test_the_gauge_of_records_follows_what_is_added_and_settled(file: SpoolFile) -> None:
    async with file.open() as spool:
        acks = [await spool.append(file.record(b"%d" % n)) for n in range(3)]
        assert file.value("ragmonitor_spool_records") == 3
        acks[0].settle()
        await spool._commit_once()
        assert file.value("ragmonitor_spool_records") == 2
        assert file.value("ragmonitor_spool_bytes") == spool._room.used
