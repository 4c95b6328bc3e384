"""What is written of the state: only what has changed, and for how long it is kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from monitor.clock import ManualClock
from monitor.errors import MonitorError
from monitor.stages import Runtime
from monitor.storage.sqlite import open_database
from monitor.storage.state_file import FORMAT, kept_value, open_state
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio

DAY = 86_400.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def opened(path: Path, lent: Runtime):
    return open_state(path, clock=lent.clock, metrics=lent.metrics, events=lent.events, every=3600.0)


def rows(path: Path) -> dict[str, float]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT name, at FROM state"))


async def test_only_the_value_that_is_asked_for_is_written_and_only_when_it_has_changed(path: Path) -> None:
    clock, values = ManualClock(0.0), {"a": {"n": 1}, "b": {"n": 1}}
    async with opened(path, runtime(clock)) as kept:
        kept.follow("a", lambda: values["a"])
        kept.follow("b", lambda: values["b"])
        await kept.flush("a")
        assert rows(path) == {"a": 0.0}
        clock.advance(10.0)
        await kept.flush("a")
        assert rows(path) == {"a": 0.0}
        values["a"] = {"n": 2}
        await kept.flush("a")
        assert rows(path) == {"a": 10.0}
    assert rows(path) == {"a": 10.0, "b": 10.0}
    assert kept_value(path, "a") == {"n": 2}


async def test_a_value_that_is_followed_is_the_present_one_and_others_those_of_the_file(path: Path) -> None:
    async with opened(path, runtime()) as kept:
        kept.follow("a", lambda: {"n": 1})
        kept.follow("b", lambda: {"n": 2})
    async with opened(path, runtime()) as kept:
        kept.follow("a", lambda: {"n": 7})
        assert (kept.load("a"), kept.load("b"), kept.load("c")) == ({"n": 7}, {"n": 2}, None)


async def test_a_value_that_nothing_follows_stays_for_fourteen_days(path: Path) -> None:
    clock = ManualClock(0.0)
    for name, at in (("old", 0.0), ("edge", 1.0)):
        clock.jump(at - clock.now())
        async with opened(path, runtime(clock)) as kept:
            kept.follow(name, lambda: {"n": 1})
    clock.jump(14 * DAY)
    async with opened(path, runtime(clock)) as kept:
        kept.follow("new", lambda: {"n": 1})
    assert set(rows(path)) == {"edge", "new"}


async def test_a_reservation_outlives_a_power_cut(path: Path) -> None:
    with closing(open_database(path, FORMAT)) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)


async def test_a_value_is_read_beside_the_monitor_and_what_is_none_is_none(path: Path) -> None:
    with pytest.raises(MonitorError, match=r"the state .*state\.db cannot be read"):
        kept_value(path, "a")
    with closing(open_database(path, FORMAT)) as db:
        db.execute("INSERT INTO state VALUES ('a', '{\"n\": 1}', 0), ('list', '[]', 0), ('broken', '{', 0)")
    assert [kept_value(path, name) for name in ("a", "list", "broken", "none")] == [{"n": 1}, None, None, None]
    async with opened(path, runtime()) as kept:
        assert [kept.load(name) for name in ("a", "list", "broken")] == [{"n": 1}, None, None]


async def test_trouble_shows_in_the_metrics_until_it_ends(path: Path) -> None:
    lent = runtime()
    gauge = "ragmonitor_database_failing"
    async with opened(path, lent) as kept:
        kept.follow("a", lambda: {"n": 1})
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TRIGGER refuse BEFORE INSERT ON state BEGIN SELECT RAISE(ABORT, 'refused'); END")
            await kept.flush("a")
            assert total(lent.metrics, gauge, database="state") == 1
            other.execute("DROP TRIGGER refuse")
        await kept.flush("a")
        assert total(lent.metrics, gauge, database="state") == 0
    assert kept_value(path, "a") == {"n": 1}
