"""What the spool keeps of what is done with: for its time, within its room, and never taken up again."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.storage.spool import SpoolRecord, open_spool, retained
from monitor.storage.spool.retained import Retained
from monitor.storage.spool.table import encode
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio


def record(number: int, size: int = 100) -> SpoolRecord:
    payload = (b"%d" % number) + bytes(number % 251 for _ in range(size))
    return SpoolRecord("otlp_http", "traces", 1000.0 + number, payload, b'{"rate": 0.5}')


class Bench:
    def __init__(self, folder: Path, **options: float) -> None:
        self.path = folder / retained.NAME
        self.clock = ManualClock()
        self.runtime = runtime(self.clock)
        chosen = {"keep": 60.0, "at_most": 10**6, **options}
        self.kept = Retained(
            self.path,
            keep=chosen["keep"],
            at_most=int(chosen["at_most"]),
            clock=self.clock,
            metrics=self.runtime.metrics,
            events=self.runtime.events,
        )

    def take(self, *numbers: int) -> None:
        self.kept.take([encode(number, record(number)) for number in numbers])

    def read(self, since: float = 0.0) -> list[float]:
        return [one.received_at - 1000 for one in retained.read(self.path, since)]


def test_what_is_kept_comes_back_as_it_was_and_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(1, 2)
    bench.take(2, 3)
    assert list(retained.read(bench.path, 0)) == [record(1), record(2), record(3)]
    assert bench.read(since=1002) == [2, 3]
    assert stat.S_IMODE(bench.path.stat().st_mode) == 0o600
    assert total(bench.runtime.metrics, "ragmonitor_spool_retained_bytes") > 0


def test_it_goes_when_its_time_is_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.take(1)
    bench.clock.advance(61)
    bench.take(2)
    assert bench.read() == [2]
    assert total(bench.runtime.metrics, "ragmonitor_spool_retained_dropped_total") == 0


def test_the_oldest_make_room_and_are_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, at_most=1200)
    bench.take(*range(1, 20))
    left = bench.read()
    assert left == list(range(20 - len(left), 20))
    assert 1 <= len(left) < 19
    assert total(bench.runtime.metrics, "ragmonitor_spool_retained_dropped_total") == 19 - len(left)


def test_a_file_that_cannot_be_written_costs_what_would_be_kept_and_is_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.path.mkdir()
    bench.take(1, 2)
    assert total(bench.runtime.metrics, "ragmonitor_spool_retained_dropped_total") == 2


def test_a_damaged_file_is_put_aside_and_a_damaged_record_passed_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.path.write_bytes(b"no database" * 1000)
    bench.take(1, 2)
    with sqlite3.connect(bench.path) as db:
        db.execute("UPDATE records SET body = x'00' WHERE id = 1")
    assert bench.read() == [2]
    with pytest.raises(MonitorError, match="cannot be read"):
        list(retained.read(tmp_path / "none.db", 0))


async def spooled(folder: Path, retain: float, numbers: tuple[int, ...]) -> list[SpoolRecord]:
    """Spool and settle records; those that the spool took up when it was opened."""
    made = runtime(ManualClock())
    options = {"at_most": 10**7, "keep": 3600.0, "clock": made.clock, "metrics": made.metrics, "events": made.events}
    async with open_spool(folder / "spool.db", retain=retain, **options) as spool:
        taken_up = [found.record async for found in spool.replay()]
        for number in numbers:
            (await spool.append(record(number))).settle()
    return taken_up


async def test_the_spool_keeps_what_is_settled_apart_and_takes_none_of_it_up(tmp_path: Path) -> None:
    assert await spooled(tmp_path, 3600, (1, 2)) == []
    assert await spooled(tmp_path, 3600, ()) == []
    assert sorted(one.received_at for one in retained.read(tmp_path / retained.NAME, 0)) == [1001, 1002]


async def test_where_nothing_is_to_be_kept_any_more_the_file_goes(tmp_path: Path) -> None:
    await spooled(tmp_path, 3600, (1,))
    await spooled(tmp_path, 0, (2,))
    assert "retained" not in "".join(os.listdir(tmp_path))  # noqa: PTH208 - nothing is waited for
