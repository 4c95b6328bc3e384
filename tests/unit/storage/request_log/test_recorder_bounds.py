"""What waits to be written to the request log: added up, bounded, and put back in order."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import InvalidData, MonitorError
from monitor.model.request_log import RequestStep
from monitor.stages import Runtime
from monitor.storage.request_log import recorder, store
from monitor.storage.request_log.recorder import Recorder
from tests.support.results import request_record
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio

FATE = RequestStep("shop", "otlp_http", "", "evaluated")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000.0)


@pytest.fixture
def lent(clock: ManualClock) -> Runtime:
    return runtime(clock)


@pytest.fixture
def made(tmp_path: Path, lent: Runtime) -> Recorder:
    return Recorder(tmp_path / "request_log.db", lent, retention=3600.0, sums_retention=7200.0, at_most=10**9)


def outcome_of(made: Recorder, outcome: str) -> float:
    return made._counters[outcome]._value.get()


async def test_steps_are_added_up_by_the_minute(made: Recorder, clock: ManualClock) -> None:
    made.count(FATE, 2, 0.5)
    clock.advance(39.0)
    made.count(FATE)
    clock.advance(1.0)
    made.count(FATE, expected=0.25)
    assert made._sums == {
        1_699_999_980: {FATE: [3, 0.5, 1_700_000_039.0]},
        1_700_000_040: {FATE: [1, 0.25, 1_700_000_040.0]},
    }


async def test_of_too_many_steps_further_ones_are_left_out_and_known_ones_count(
    made: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_STEPS_WAITING", 2)
    for name in ("a", "b", "c", "a"):
        made.count(RequestStep("shop", "", "", name))
    ((_, steps),) = made._sums.items()
    assert {step.step: known[0] for step, known in steps.items()} == {"a": 2, "b": 1}


async def test_of_too_many_minutes_the_newest_are_left_out(
    made: Recorder, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_MINUTES_WAITING", 3)
    for _ in range(4):
        made.count(FATE)
        clock.advance(60.0)
    assert [len(steps) for steps in made._sums.values()] == [1, 1, 0, 0]


async def test_a_full_batch_wakes_the_writer(made: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_AT_ONCE", 2)
    made._some.clear()
    made.keep(request_record(1))
    assert (made._some.is_set(), made._wake.is_set()) == (True, False)
    made.keep(request_record(2))
    assert made._wake.is_set()


async def test_what_could_not_be_written_comes_first_again(made: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_WAITING", 3)
    made.keep(request_record(3))
    made.keep(request_record(4))
    made.count(FATE, 2, 0.5)
    now = 1_699_999_980
    sums = {now: {FATE: [1.0, 0.25, 5.0]}, 0: {FATE: [7.0, 0.0, 1.0]}}
    made._settle([request_record(1), request_record(2)], sums, MonitorError("full"))
    assert [int(one.request_id, 16) for one in made._records] == [1, 2, 3]
    assert made._sums == {now: {FATE: [3.0, 0.75, 1_700_000_000.0]}, 0: {FATE: [7.0, 0.0, 1.0]}}
    assert (outcome_of(made, "dropped"), outcome_of(made, "failed"), made._failures) == (1, 0, 1)
    made.count(FATE)
    assert made._sums[now][FATE][0] == 4.0


async def test_of_too_many_waiting_minutes_the_oldest_are_given_up(
    made: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_MINUTES_WAITING", 2)
    sums = {at: {FATE: [1.0, 0.0, float(at)]} for at in (0, 60, 120)}
    made._settle([], sums, MonitorError("full"))
    assert sorted(made._sums) == [60, 120]
    monkeypatch.setattr(recorder, "_STEPS_WAITING", 1)
    made._settle([], made._sums, MonitorError("full"))
    assert sorted(made._sums) == [120]


async def test_what_can_never_be_written_is_given_up_and_counted(made: Recorder) -> None:
    made._settle([request_record(1)], {}, InvalidData("never"))
    assert (outcome_of(made, "failed"), made._records, made._failures) == (1, [], 0)


async def test_an_end_of_trouble_is_said_once(made: Recorder, lent: Runtime) -> None:
    for error in (MonitorError("full"), MonitorError("full"), None, None):
        made._settle([], {}, error)
    assert made._failures == 0
    said = [
        total(lent.metrics, "ragmonitor_events_total", event=f"request_log_{one}") for one in ("failed", "recovered")
    ]
    assert said == [1, 1]


async def test_while_old_records_are_left_each_transaction_deletes_some_and_then_one_a_minute(
    made: Recorder, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_PRUNE_AT_ONCE", 2)

    def left() -> int:
        with closing(sqlite3.connect(tmp_path / "request_log.db")) as db:
            (number,) = db.execute("SELECT count(*) FROM requests").fetchone()
            return int(number)

    old = [request_record(number, clock.now() - 4000) for number in range(1, 6)]
    assert made._write(old[:0], {}) is None
    clock.advance(60.0)
    with made._file.transaction() as db:
        store.insert(db, old, {})
    found = [left()]
    for _ in range(4):
        assert made._write([], {}) is None
        found.append(left())
    assert found == [5, 3, 1, 0, 0]
    with made._file.transaction() as db:
        store.insert(db, old, {})
    assert (made._write([], {}), left()) == (None, 5)
    clock.advance(60.0)
    assert (made._write([], {}), left()) == (None, 3)
