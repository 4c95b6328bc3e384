"""The recorder: never in the way, bounded, and honest about what it did not keep."""

from __future__ import annotations

import stat

import pytest

from monitor.model.request_log import RequestStep
from monitor.storage.request_log import RequestLogReader, recorder, recording
from tests.support.results import request_record
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio

LIMITS = {"retention": 3600.0, "sums_retention": 7200.0, "at_most": 10**9}
FATE = RequestStep("shop", "otlp_http", "", "evaluated")


def outcomes(lent) -> dict[str, float]:
    return {
        one: total(lent.metrics, "ragmonitor_request_log_records_total", outcome=one)
        for one in ("kept", "dropped", "failed")
    }


async def test_what_is_kept_is_on_disk_when_it_ends_readable_by_its_owner_only(tmp_path):
    lent, path = runtime(), tmp_path / "state" / "request_log.db"
    async with recording(path, lent, **LIMITS) as keeper:
        keeper.keep(request_record(1, lent.clock.now()))
        keeper.count(FATE, 3)
        keeper.count(FATE)
    assert len(RequestLogReader(path).of(f"{1:032x}")) == 1
    assert RequestLogReader(path).sums(0, 2e9)[0].number == 4
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert outcomes(lent) == {"kept": 1, "dropped": 0, "failed": 0}


async def test_where_too_many_wait_further_ones_are_shed_and_counted_and_the_sums_stay_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "_WAITING", 10)
    lent = runtime()
    async with recording(tmp_path / "request_log.db", lent, **LIMITS, every=3600.0) as keeper:
        for number in range(25):
            keeper.keep(request_record(number, lent.clock.now()))
            keeper.count(FATE)
    assert outcomes(lent) == {"kept": 10, "dropped": 15, "failed": 0}
    assert RequestLogReader(tmp_path / "request_log.db").sums(0, 2e9)[0].number == 25


async def test_a_disk_that_takes_nothing_costs_trails_and_nothing_else(tmp_path):
    (tmp_path / "request_log.db").mkdir()
    lent = runtime()
    async with recording(tmp_path / "request_log.db", lent, **LIMITS) as keeper:
        keeper.keep(request_record(1))
    assert outcomes(lent) == {"kept": 0, "dropped": 0, "failed": 1}
    assert total(lent.metrics, "ragmonitor_events_total", event="request_log_failed") == 1


@pytest.mark.parametrize("damage", ["nonsense", "broken page"])
async def test_a_damaged_file_is_kept_aside_and_a_new_one_begun(tmp_path, damage):
    lent, path = runtime(), tmp_path / "request_log.db"
    if damage == "nonsense":
        path.write_bytes(b"nonsense" * 1000)
    else:
        async with recording(path, lent, **LIMITS) as keeper:
            for number in range(400):
                keeper.keep(request_record(number, lent.clock.now(), detail="x" * 400))
        whole = bytearray(path.read_bytes())
        whole[4096:] = b"\xff" * (len(whole) - 4096)
        path.write_bytes(whole)
    async with recording(path, lent, **LIMITS) as keeper:
        keeper.keep(request_record(7777, lent.clock.now()))
    assert len(RequestLogReader(path).of(f"{7777:032x}")) == 1
    assert any(".damaged-" in one.name for one in tmp_path.iterdir())
    assert total(lent.metrics, "ragmonitor_events_total", event="database_damaged") == 1
    assert total(lent.metrics, "ragmonitor_database_damaged_total", database="request_log") == 1


async def test_old_trails_go_while_it_runs(tmp_path):
    lent, path = runtime(), tmp_path / "request_log.db"
    async with recording(path, lent, **LIMITS) as keeper:
        keeper.keep(request_record(1, lent.clock.now()))
    lent.clock.advance(4000)
    async with recording(path, lent, **LIMITS) as keeper:
        keeper.keep(request_record(2, lent.clock.now()))
    assert RequestLogReader(path).of(f"{1:032x}") == []
    assert len(RequestLogReader(path).of(f"{2:032x}")) == 1


async def test_what_comes_after_a_quiet_time_is_written_while_it_runs(tmp_path):
    lent, path = runtime(), tmp_path / "request_log.db"
    async with recording(path, lent, **LIMITS, every=0.001) as keeper:
        await until(path.exists)
        for number in range(2):
            keeper.keep(request_record(number, lent.clock.now()))
            await until(lambda number=number: outcomes(lent)["kept"] == number + 1)
        keeper.count(FATE, 3)
        await until(lambda: [one.number for one in RequestLogReader(path).sums(0, 2e9)] == [3])


async def test_what_the_disk_refuses_is_written_when_it_takes_it_again(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "_WAITING", 10)
    lent, path = runtime(), tmp_path / "request_log.db"
    path.mkdir()
    async with recording(path, lent, **LIMITS, every=0.001) as keeper:
        for number in range(12):
            keeper.keep(request_record(number, lent.clock.now()))
            keeper.count(FATE, expected=0.25)
            await until(lambda: total(lent.metrics, "ragmonitor_database_failing", database="request_log") == 1)
        await until(lambda: outcomes(lent)["dropped"] == 2)
        assert outcomes(lent) == {"kept": 0, "dropped": 2, "failed": 0}
        path.rmdir()
        await until(lambda: outcomes(lent)["kept"] == 10)
        await until(lambda: total(lent.metrics, "ragmonitor_database_failing", database="request_log") == 0)
    assert [len(RequestLogReader(path).of(f"{number:032x}")) for number in range(12)] == [1] * 10 + [0] * 2
    (sums,) = RequestLogReader(path).sums(0, 2e9)
    assert (sums.number, sums.expected) == (12, 3.0)
    assert outcomes(lent) == {"kept": 10, "dropped": 2, "failed": 0}
    assert total(lent.metrics, "ragmonitor_database_unwritten_records_total", database="request_log") == 2
    assert total(lent.metrics, "ragmonitor_events_total", event="request_log_failed") == 1
    assert total(lent.metrics, "ragmonitor_events_total", event="request_log_recovered") == 1
