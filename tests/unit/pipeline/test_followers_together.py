"""All sinks of a monitor follow its history side by side, and what was received is acknowledged when a fleet has it."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from monitor.clock import ManualClock
from monitor.errors import ResultsRefused
from monitor.model.outcome import Score
from monitor.pipeline import followers as followers_module
from monitor.pipeline.followers import Followers
from monitor.sinks.history import HistorySink
from monitor.stages import Deliver, Runtime
from monitor.storage.history.feed import Feed
from monitor.telemetry.events import Event
from tests.support.following import Receiver, ids
from tests.support.results import judged
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio


def sink(memory: str = "process") -> Any:
    return SimpleNamespace(at_once=10, in_flight=1, memory=memory)


class Together:
    """A history, and the sinks that follow it."""

    def __init__(self, lent: Runtime, followers: Followers, store: Deliver) -> None:
        self.lent = lent
        self.followers = followers
        self.store = store
        self.called: list[str] = []

    def when_sent(self, name: str) -> None:
        self.followers.when_sent(lambda: self.called.append(name))

    def series(self, name: str, of: str) -> float:
        return total(self.lent.metrics, f"ragmonitor_sink_{name}", sink=of)


@asynccontextmanager
async def together(
    folder: Path, *, runs: bool = True, clock: ManualClock | None = None, **sinks: tuple[Any, Receiver]
) -> AsyncIterator[Together]:
    lent, path = runtime(clock), folder / "history.db"
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(HistorySink(path=path).open(lent))
        opened = {name: (one, receiver.deliver) for name, (one, receiver) in sinks.items()}
        followers = Followers(Feed(path), opened, lent, rng=random.Random(1))
        await followers.begin()
        tasks = await stack.enter_async_context(anyio.create_task_group())
        if runs:
            tasks.start_soon(followers.run)
        yield Together(lent, followers, followers.after(store))
        tasks.cancel_scope.cancel()


async def test_each_sink_gets_what_is_stored_at_once(tmp_path: Path) -> None:
    one, other = Receiver(), Receiver()
    async with together(tmp_path, one=(sink(), one), other=(sink(), other)) as at:
        await at.store([judged(1), judged(2)])
        await until(lambda: one.taken == other.taken == ids([1, 2]), "the results")


async def test_sinks_get_what_is_stored_at_once_also_beside_a_result_that_can_never_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers_module, "_LOOK_EVERY", 10**6)
    one = Receiver()
    async with together(tmp_path, one=(sink(), one)) as at:
        await at.store([judged(1)])
        await until(lambda: one.taken == ids([1]), "the first result")
        with pytest.raises(ResultsRefused):
            await at.store([judged(2, outcome=Score(4.0, "x", evidence=("a quote",))), judged(3)])  # type: ignore[arg-type]
        await until(lambda: one.taken == ids([1, 3]), "the neighbour of the one that cannot be stored")


async def test_a_new_sink_is_announced_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with together(tmp_path, runs=False, one=(sink(), Receiver())) as at:
            await at.followers.begin()
    said = [vars(one)["fields"] for one in caplog.records if vars(one).get("event") == Event.SINK_BEGINS]
    assert said == [{"sink": "one"}]


async def test_a_history_that_cannot_be_read_at_the_start_is_logged_and_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    followers = Followers(Feed(tmp_path / "folder"), {}, runtime(), rng=random.Random(1))
    with caplog.at_level(logging.ERROR):
        await followers.begin()
    assert [vars(one)["event"] for one in caplog.records] == [Event.SINK_FAILED]


async def test_without_a_fleet_nothing_waits_for_a_sink(tmp_path: Path) -> None:
    async with together(tmp_path, one=(sink(), Receiver(down=OSError("gone")))) as at:
        at.when_sent("a")
        assert at.called == ["a"]


async def test_what_came_is_acknowledged_when_every_sink_of_the_fleet_has_it(tmp_path: Path) -> None:
    quick, late = Receiver(), Receiver(gate=anyio.Event())
    async with together(tmp_path, quick=(sink("fleet"), quick), late=(sink("fleet"), late)) as at:
        await at.store([judged(1)])
        at.when_sent("a")
        await until(lambda: quick.taken and late.batches, "the batches")
        assert at.called == []
        assert late.gate is not None
        late.gate.set()
        await until(lambda: at.called == ["a"], "the acknowledgement")


async def test_a_sink_of_the_fleet_that_fails_holds_up_acknowledgements_for_two_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.pipeline.followers._LOOK_EVERY", 0.01)
    clock, fails = ManualClock(), Receiver(down=OSError("gone"))
    async with together(tmp_path, clock=clock, one=(sink("fleet"), fails)) as at:
        await at.store([judged(1)])
        at.when_sent("a")
        await until(lambda: fails.batches, "an attempt")
        assert at.called == []
        clock.advance(121)
        await until(lambda: at.called == ["a"], "the acknowledgement")


async def test_where_a_sink_stands_and_how_far_it_is_behind_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.pipeline.followers._LOOK_EVERY", 0.01)
    clock, works, hangs = ManualClock(), Receiver(), Receiver(gate=anyio.Event())
    async with together(tmp_path, clock=clock, works=(sink(), works), hangs=(sink(), hangs)) as at:
        assert at.series("lag_seconds", "hangs") == 0
        clock.advance(judged(1).evaluated_at - clock.now())
        await at.store([judged(1), judged(2)])
        await until(lambda: at.series("position", "works") == 2, "the position")
        await until(lambda: at.series("lag_results", "hangs") == 2, "the results behind")
        clock.advance(7)
        assert at.series("lag_seconds", "hangs") == 7
        assert (at.series("lag_seconds", "works"), at.series("lag_results", "works")) == (0, 0)
        assert hangs.gate is not None
        hangs.gate.set()
        await until(lambda: at.series("lag_results", "hangs") == 0, "the results")
        assert at.series("position", "hangs") == 2


async def test_a_result_evaluated_ahead_of_this_clock_is_no_negative_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.pipeline.followers._LOOK_EVERY", 0.01)
    clock, hangs = ManualClock(), Receiver(gate=anyio.Event())
    async with together(tmp_path, clock=clock, one=(sink(), hangs)) as at:
        assert clock.now() < judged(1).evaluated_at
        await at.store([judged(1)])
        await until(lambda: at.series("lag_results", "one") == 1, "the result behind")
        assert at.series("lag_seconds", "one") == 0


async def test_the_end_waits_for_all_sinks_that_work(tmp_path: Path) -> None:
    late = Receiver(gate=anyio.Event())
    async with together(tmp_path, late=(sink(), late)) as at:
        await at.store([judged(1)])
        await until(lambda: late.batches, "the batch")
        await at.followers.drain(0.01)
        assert late.taken == [], "no longer than asked"
        assert late.gate is not None
        late.gate.set()
        await at.followers.drain(600)
        assert late.taken == ids([1])
