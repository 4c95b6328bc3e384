"""What is spent and known outlives the process, whatever becomes of the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.errors import ConfigError, JudgeError
from monitor.judge.budget import BudgetTracker
from monitor.judge.settings import Budget
from monitor.stages import Runtime
from monitor.stages.kept_state import KeptState
from monitor.storage import damage, state_file
from monitor.storage.sqlite import SetAside
from monitor.storage.state_file import open_state
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio


def opened(path: Path, lent: Runtime, every: float = 1000.0) -> AbstractAsyncContextManager[KeptState]:
    return open_state(path, clock=lent.clock, metrics=lent.metrics, events=lent.events, every=every)


async def test_a_value_comes_back_after_an_orderly_end(tmp_path: Path) -> None:
    lent = runtime()
    async with opened(tmp_path / "state.db", lent) as kept:
        assert kept.load("one") is None
        value = {"a": 1}
        kept.follow("one", lambda: value)
        kept.part("of ").follow("two", lambda: {"b": [1, "x"]})
        value["a"] = 2
    async with opened(tmp_path / "state.db", lent) as kept:
        assert kept.load("one") == {"a": 2}
        assert kept.part("of ").load("two") == {"b": [1, "x"]}


async def test_a_flushed_value_is_on_the_disk_at_once(tmp_path: Path) -> None:
    lent = runtime()
    async with opened(tmp_path / "state.db", lent) as kept:
        kept.follow("one", lambda: {"a": 1})
        await kept.flush("one")
        async with opened(tmp_path / "state.db", runtime()) as another:
            assert another.load("one") == {"a": 1}


async def test_a_value_that_changes_is_written_soon(tmp_path: Path) -> None:
    lent = runtime()
    async with opened(tmp_path / "state.db", lent, every=0.01) as kept:
        kept.follow("one", lambda: {"a": 1})
        with anyio.fail_after(60):
            while True:
                async with opened(tmp_path / "state.db", runtime()) as another:
                    if another.load("one") is not None:
                        break
                await anyio.sleep(0.02)


async def test_a_disk_that_refuses_is_said_once_and_written_to_once_it_works(tmp_path: Path) -> None:
    lent, path = runtime(), tmp_path / "state.db"
    async with opened(path, lent) as kept:
        kept.follow("one", lambda: {"a": 1})
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TRIGGER refuse BEFORE INSERT ON state BEGIN SELECT RAISE(ABORT, 'refused'); END")
            for _ in range(3):
                await kept.flush("one")
            assert total(lent.metrics, "ragmonitor_events_total", event="state_failed") == 1
            other.execute("DROP TRIGGER refuse")
        await kept.flush("one")
        assert total(lent.metrics, "ragmonitor_events_total", event="state_recovered") == 1
    async with opened(path, lent) as kept:
        assert kept.load("one") == {"a": 1}


async def test_a_folder_in_its_place_keeps_nothing_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    lent = runtime()
    async with opened(tmp_path / "state.db", lent) as kept:
        kept.follow("one", lambda: {"a": 1})
        await kept.flush("one")
        assert kept.load("one") == {"a": 1}
    assert total(lent.metrics, "ragmonitor_events_total", event="state_failed") == 1


async def test_a_damaged_file_is_replaced_and_a_value_that_is_none_left_out(tmp_path: Path) -> None:
    lent, path = runtime(), tmp_path / "state.db"
    path.write_bytes(b"no database" * 1000)
    async with opened(path, lent) as kept:
        kept.follow("one", lambda: {"a": 1})
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO state (name, body, at) VALUES ('bad', x'7b', 0), ('list', '[]', 0), ('number', 7, 0)")
        db.commit()
    async with opened(path, lent) as kept:
        assert kept.load("one") == {"a": 1}
        assert [kept.load(name) for name in ("bad", "list", "number")] == [None] * 3
    assert len(damage.damaged_copies(path)) == 1


async def test_a_value_that_does_not_change_stays_as_long_as_it_is_followed_and_14_days_after(tmp_path: Path) -> None:
    clock = ManualClock()
    changing = {"a": 0}
    async with opened(tmp_path / "state.db", runtime(clock)) as kept:
        kept.follow("same", lambda: {"a": 1})
        kept.follow("changing", lambda: changing)
        for _ in range(3):
            await kept.flush("same")
            clock.advance(86_400 * 15.0)
            changing["a"] += 1
            await kept.flush("changing")
    for days, known in ((1.0, {"a": 1}), (1.0, None)):
        async with opened(tmp_path / "state.db", runtime(clock)) as kept:
            assert kept.load("same") == known
            kept.follow("changing", lambda days=days: {"a": clock.now()})  # type: ignore[misc]
        clock.advance(86_400 * days)


async def test_all_values_are_written_again_into_the_file_that_takes_the_place_of_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lent, changing = tmp_path / "state.db", runtime(), {"a": 0}
    real, damaged = state_file._StateDatabase._insert, [True]

    def insert(self: state_file._StateDatabase, bodies: Mapping[str, bytes], followed: Sequence[str]) -> None:
        if b'{"a":1}' in bodies.values() and damaged and damaged.pop():
            with closing(sqlite3.connect(path)) as db:
                db.execute("DELETE FROM state")
                db.commit()
            raise SetAside("damaged")
        real(self, bodies, followed)

    monkeypatch.setattr(state_file._StateDatabase, "_insert", insert)
    async with opened(path, lent) as kept:
        kept.follow("same", lambda: {"b": 1})
        kept.follow("changing", lambda: changing)
        await kept.flush("same")
        changing["a"] = 1
        await kept.flush("changing")
    async with opened(path, lent) as kept:
        assert (kept.load("same"), kept.load("changing")) == ({"b": 1}, {"a": 1})


async def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match=r"state\.db was written by a newer version"):
        async with opened(tmp_path / "state.db", runtime()):
            pass


# -- budgets in it


def judgements(tracker: BudgetTracker, at_most: int = 1000) -> int:
    for number in range(at_most):
        try:
            if tracker.reserve_judgement() is None:
                return number
        except JudgeError:
            return number
    return at_most


async def test_d10_lives_that_are_killed_spend_a_budget_once_together(tmp_path: Path) -> None:
    clock, spent = ManualClock(), 0
    for _ in range(6):
        lent = runtime(clock)
        async with opened(tmp_path / "state.db", lent) as kept:
            tracker = BudgetTracker(Budget(evaluations_per_day=3), clock, kept=kept)
            spent += judgements(tracker, 1)
            await tracker.claim()
            image = {one: one.read_bytes() for one in tmp_path.glob("*")}  # noqa: ASYNC240 - nothing else runs
        for one in list(tmp_path.glob("*")):  # noqa: ASYNC240 - as a kill would have left it
            one.unlink()
        for one, content in image.items():
            one.write_bytes(content)
    assert spent == 3
    clock.advance(86_400)
    async with opened(tmp_path / "state.db", runtime(clock)) as kept:
        assert judgements(BudgetTracker(Budget(evaluations_per_day=3), clock, kept=kept)) == 3


async def test_a_kill_costs_at_most_a_hundredth_of_the_budget_and_an_orderly_end_nothing(tmp_path: Path) -> None:
    lent = runtime()
    async with opened(tmp_path / "state.db", lent) as kept:
        tracker = BudgetTracker(Budget(dollars_per_day=10), lent.clock, kept=kept)
        tracker.settle(tracker.reserve_dollars(1.0), 0.5)
        await tracker.claim()
        async with opened(tmp_path / "state.db", runtime()) as another:
            assert another.load("budget of judge")["dollars_per_day"][1] == pytest.approx(0.6)
        tracker.close()
    async with opened(tmp_path / "state.db", lent) as kept:
        assert kept.load("budget of judge")["dollars_per_day"][1] == pytest.approx(0.5)
        again = BudgetTracker(Budget(dollars_per_day=10), lent.clock, kept=kept)
        again.settle(again.reserve_dollars(9.4), 9.4)
        with pytest.raises(JudgeError):
            again.reserve_dollars(0.2)


async def test_a_period_of_a_clock_that_was_wrong_is_not_gone_on_with(tmp_path: Path) -> None:
    clock = ManualClock()
    clock.advance(86_400 * 365.0)
    async with opened(tmp_path / "state.db", runtime(clock)) as kept:
        tracker = BudgetTracker(Budget(evaluations_per_day=3), clock, kept=kept)
        assert judgements(tracker) == 3
        tracker.close()
    now = ManualClock()
    async with opened(tmp_path / "state.db", runtime(now)) as kept:
        assert judgements(BudgetTracker(Budget(evaluations_per_day=3), now, kept=kept)) == 3
