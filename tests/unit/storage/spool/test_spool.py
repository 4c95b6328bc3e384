"""The spool's promises, on real files."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.errors import ConfigError, Overloaded, TooLarge
from monitor.storage.spool import Spool, SpoolRecord, open_spool
from monitor.storage.spool import queue as spool_queue
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio


class House:
    """A spool's surroundings, kept over its restarts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.events = Events(self.metrics, logging.getLogger("monitor.test"))

    def open(self, **options: Any) -> AbstractAsyncContextManager[Spool]:
        chosen: dict[str, Any] = {"at_most": 64 * 1024 * 1024, "keep": 3600.0, **options}
        return open_spool(self.path, clock=self.clock, metrics=self.metrics, events=self.events, **chosen)

    def record(self, payload: bytes, **fields: Any) -> SpoolRecord:
        return SpoolRecord(
            **{"source": "otlp_http", "signal": "traces", "received_at": self.clock.now(), **fields}, payload=payload
        )

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    async def left(self) -> list[bytes]:
        async with self.open() as spool:
            return [one.record.payload async for one in spool.replay()]

    def asides(self) -> list[Path]:
        return sorted(self.path.parent.glob("*damaged-*"))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "storage" / "spool.db")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_queue, "_IDLE", 0.01)


@asynccontextmanager
async def killed(house: House) -> AsyncIterator[Spool]:
    """A spool whose process ends without closing: its files are put back as they were when the body ended."""
    async with house.open() as spool:
        yield spool
        images = {path: path.read_bytes() for path in house.path.parent.iterdir()}
    for path in house.path.parent.iterdir():
        path.unlink()
    for path, image in images.items():
        path.write_bytes(image)


async def test_an_unsettled_record_comes_back_whole_after_a_restart(house: House) -> None:
    record = house.record(b"payload " * 1000, meta=b'{"probability":0.1}', signal="logs", source="otlp_grpc")
    async with house.open() as spool:
        await spool.append(record)
    async with house.open() as spool:
        assert [one.record async for one in spool.replay()] == [record]


async def test_a_settled_record_does_not_come_back(house: House) -> None:
    async with house.open() as spool:
        receipts = [await spool.append(house.record(b"%d" % n)) for n in range(3)]
        receipts[1].settle()
    assert await house.left() == [b"0", b"2"]


async def test_settling_a_replayed_record_deletes_it(house: House) -> None:
    async with house.open() as spool:
        for n in range(3):
            await spool.append(house.record(b"%d" % n))
    async with house.open() as spool:
        async for one in spool.replay():
            if one.record.payload != b"2":
                one.receipt.settle()
    assert await house.left() == [b"2"]


async def test_replay_is_oldest_first_and_has_nothing_of_this_process(house: House) -> None:
    async with house.open() as spool:
        for n in range(40):
            await spool.append(house.record(b"%d" % n))
    async with house.open() as spool:
        await spool.append(house.record(b"new"))
        seen = [one.record.payload async for one in spool.replay()]
    assert seen == [b"%d" % n for n in range(40)]


async def test_records_are_on_disk_when_append_returns(house: House) -> None:
    async with killed(house) as spool:
        for n in range(5):
            await spool.append(house.record(b"%d" % n))
    assert await house.left() == [b"%d" % n for n in range(5)]


async def test_many_waiting_appends_share_a_few_commits(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    commits = 0
    write = spool_queue.SpoolDatabase.write

    def counted(self: Any, batch: Any) -> Any:
        nonlocal commits
        commits += 1
        return write(self, batch)

    monkeypatch.setattr(spool_queue.SpoolDatabase, "write", counted)
    async with house.open() as spool, anyio.create_task_group() as group:
        for n in range(200):
            group.start_soon(spool.append, house.record(b"%d" % n))
    assert commits <= 4
    assert len(await house.left()) == 200


async def test_beyond_at_most_it_is_overloaded_until_records_are_settled(house: House, quick: None) -> None:
    async with house.open(at_most=1024 * 1024) as spool:
        receipts = []
        with pytest.raises(Overloaded, match="full") as refused:  # noqa: PT012 - which one is refused is not the point
            while True:
                receipt = await spool.append(house.record(os.urandom(50_000)))
                receipts.append(receipt)
        assert 1 <= refused.value.retry_after <= 2
        assert 10 < len(receipts) < 25
        assert house.value("ragmonitor_events_total", event="spool_full") == 1
        for receipt in receipts:
            receipt.settle()
        with anyio.fail_after(5):
            while True:
                try:
                    await spool.append(house.record(os.urandom(50_000)))
                    break
                except Overloaded:
                    await anyio.sleep(0.02)
    assert len(await house.left()) == 1


async def test_a_record_that_can_never_fit_is_too_large(house: House) -> None:
    async with house.open(at_most=100_000) as spool:
        with pytest.raises(TooLarge, match="100000"):
            await spool.append(house.record(bytes(200_000)))


async def test_a_cancelled_append_keeps_nothing(house: House) -> None:
    async with house.open() as spool:
        for delay in (0.0, 0.0005, 0.002, 0.01):
            with anyio.move_on_after(delay):
                receipt = await spool.append(house.record(b"cancelled"))
                receipt.settle()
        await spool.append(house.record(b"stays"))
    assert await house.left() == [b"stays"]


async def test_an_append_cancelled_in_the_moment_of_its_commit_keeps_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house.open() as spool:
        task = asyncio.create_task(spool.append(house.record(b"cancelled")))
        # the gauge is set in the same step of the loop as the result of the append
        monkeypatch.setattr(house.metrics.spool_bytes, "set", lambda _: task.cancel())
        with pytest.raises(asyncio.CancelledError):
            await task
        monkeypatch.undo()
    assert await house.left() == []


async def test_what_is_waiting_when_the_spool_closes_is_committed(house: House) -> None:
    async with house.open() as spool:
        tasks = [asyncio.create_task(spool.append(house.record(b"%d" % n))) for n in range(50)]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert len(await house.left()) == 50


async def test_a_record_older_than_keep_is_reported_as_expired(house: House) -> None:
    async with house.open() as spool:
        await spool.append(house.record(b"old"))
        house.clock.advance(3000)
        await spool.append(house.record(b"young"))
    house.clock.advance(700)
    async with house.open() as spool:
        assert [(one.record.payload, one.expired) async for one in spool.replay()] == [
            (b"old", True),
            (b"young", False),
        ]


async def test_remembered_results_survive_a_restart_until_they_are_too_old(house: House) -> None:
    async with house.open() as spool:
        spool.remember(["a", "b"])
        assert spool.remembered("a")
        assert not spool.remembered("c")
    house.clock.advance(3000)
    async with house.open() as spool:
        assert spool.remembered("b")
        spool.remember(["c"])
    house.clock.advance(3000)
    async with house.open() as spool:
        await spool.append(house.record(b"any commit prunes"))
    async with house.open() as spool:
        assert not spool.remembered("a")
        assert spool.remembered("c")


async def test_only_so_many_results_are_remembered_the_newest(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_queue, "MAX_RESULT_IDS", 3)
    async with house.open() as spool:
        spool.remember("abcde")
        assert [key for key in "abcde" if spool.remembered(key)] == ["c", "d", "e"]


async def test_a_result_is_remembered_no_later_than_its_record_is_deleted(house: House) -> None:
    async with killed(house) as spool:
        receipt = await spool.append(house.record(b"first"))
        spool.remember(["result of first"])
        receipt.settle()
        await spool.append(house.record(b"second"))  # its commit takes both along
    async with house.open() as spool:
        assert spool.remembered("result of first")
        assert [one.record.payload async for one in spool.replay()] == [b"second"]


async def test_only_the_owner_can_read_what_it_writes(house: House) -> None:
    async with house.open() as spool:
        await spool.append(house.record(b"secret"))
        assert house.path.parent.stat().st_mode & 0o777 == 0o700
        assert {path.stat().st_mode & 0o777 for path in house.path.parent.iterdir()} == {0o600}


async def test_a_planted_link_is_refused(house: House, tmp_path: Path) -> None:
    house.path.parent.mkdir()
    house.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"spool\.db"):
        async with house.open():
            pass
    assert not (tmp_path / "elsewhere").exists()


async def test_two_processes_cannot_share_a_spool(house: House) -> None:
    async with house.open():
        with pytest.raises(ConfigError, match="another process"):
            async with house.open():
                pass


async def test_a_file_of_a_newer_version_is_left_alone(house: House) -> None:
    await house.left()
    with sqlite3.connect(house.path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ConfigError, match="newer version"):
        await house.left()
    assert house.asides() == []


async def test_gauges_show_what_is_in_the_spool(house: House) -> None:
    async with house.open() as spool:
        await spool.append(house.record(b"1"))
        await spool.append(house.record(b"2"))
        assert house.value("ragmonitor_spool_records") == 2
        assert house.value("ragmonitor_spool_bytes") > 0


async def test_after_a_replay_the_gauge_counts_what_was_left_too(house: House) -> None:
    async with house.open() as spool:
        await spool.append(house.record(b"1"))
    async with house.open() as spool:
        assert len([one async for one in spool.replay()]) == 1
        await spool.append(house.record(b"2"))
        assert house.value("ragmonitor_spool_records") == 2


async def test_a_replay_holds_no_more_than_some_megabytes(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    read = spool_queue.SpoolDatabase.read

    def measured(self: Any, after: int) -> Any:
        found = read(self, after)
        sizes.append(sum(len(record.payload) for _, record in found))
        return found

    monkeypatch.setattr(spool_queue.SpoolDatabase, "read", measured)
    async with house.open() as spool:
        for _ in range(20):
            await spool.append(house.record(bytes(1_000_000)))
    assert len(await house.left()) == 20
    assert max(sizes) <= 5_000_000


async def test_opening_a_path_that_is_a_folder_names_the_path(house: House) -> None:
    house.path.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"spool\.db"):
        async with house.open():
            pass
