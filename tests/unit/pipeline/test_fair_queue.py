from __future__ import annotations

import math
import random
from collections import defaultdict

import anyio
import anyio.lowlevel
import pytest

from monitor.clock import ManualClock
from monitor.pipeline.fair_queue import BACKFILL, FairQueue, QueueClient
from tests.support.pipeline import settled

pytestmark = pytest.mark.anyio

SHOP, LOUD = QueueClient("shop"), QueueClient("loud")


class Bench:
    """A judge in virtual time: in each tick it finishes all that hold a turn. Remembers how many ticks each waited."""

    def __init__(self, queue: FairQueue):
        self.queue = queue
        self.ticks = 0
        self.tick = anyio.Event()
        self.lags = defaultdict(list)
        self.shed = defaultdict(int)
        self.served = []

    async def judgement(self, client, size=1, judge=""):
        came = self.ticks
        async with self.queue.turn(judge, client, size) as granted:
            if not granted:
                self.shed[client.app] += 1
                return
            self.served.append(client.app)
            await self.tick.wait()
            self.lags[client.app].append(self.ticks - came)

    async def run(self, arrivals):
        async with anyio.create_task_group() as tasks:
            for coming in arrivals:
                for client, size in coming:
                    tasks.start_soon(self.judgement, client, size)
                await settled()
                await self.next()
            tasks.cancel_scope.cancel()

    async def next(self):
        self.ticks += 1
        self.tick.set()
        self.tick = anyio.Event()
        await settled()


def queue(slots=4, limit=10**9, clock=None, patience=math.inf, **shares):
    return FairQueue({"": slots}, limit=limit, shares=shares, clock=clock or ManualClock(), patience=patience)


async def test_an_app_a_hundred_times_louder_moves_nobody_elses_lag():
    quiet = [[(SHOP, 1)] if tick % 2 == 0 else [] for tick in range(60)]
    alone = Bench(queue())
    await alone.run(quiet)
    beside = Bench(queue())
    await beside.run([[(LOUD, 1)] * 100 + mine for mine in quiet])
    assert set(alone.lags["shop"]) == {1}
    assert len(beside.lags["shop"]) >= 29
    assert max(beside.lags["shop"]) <= 2  # its own judgement, and the rest of one that had begun
    assert max(beside.lags["loud"]) > 20


async def test_apps_that_always_wait_get_turns_by_their_weights():
    bench = Bench(queue(slots=2, shop=3))
    await bench.run([[(LOUD, 1), (SHOP, 1)] * 200] + [[]] * 100)
    assert bench.served[:160].count("shop") == pytest.approx(120, abs=2)


async def test_who_was_idle_saves_up_no_turns():
    bench = Bench(queue(slots=1))
    await bench.run([[(LOUD, 1)] * 100] + [[]] * 40 + [[(SHOP, 1)] * 50] + [[]] * 20)
    after = bench.served[42:60]
    assert 8 <= after.count("shop") <= 10


async def test_what_is_too_much_is_taken_from_the_app_that_holds_most():
    bench = Bench(queue(slots=1, limit=50))
    await bench.run([[(LOUD, 1)] * 49, [(SHOP, 1)] * 10, [(SHOP, 1)] * 5])
    assert bench.shed["shop"] == 0
    assert bench.shed["loud"] >= 8
    assert bench.queue.size == 0


async def test_the_weight_of_an_app_counts_when_something_is_given_up():
    bench = Bench(queue(slots=1, limit=40, loud=9))
    await bench.run([[(SHOP, 1)] * 20 + [(LOUD, 1)] * 30])
    assert bench.shed["shop"] > 0
    assert bench.shed["loud"] == 0


async def test_one_that_is_larger_than_the_limit_is_let_in_alone():
    bench = Bench(queue(limit=10))
    await bench.run([[(SHOP, 500)], [], [(SHOP, 500), (LOUD, 1)]])
    assert bench.lags["shop"][0] == 1
    assert bench.shed in ({"loud": 1}, {"shop": 1})


async def test_a_backlog_does_not_hold_up_what_is_fresh():
    """A judge was down for an hour: after that, fresh judgements do not wait until all of the hour is worked off."""
    clock = ManualClock()
    bench = Bench(queue(slots=0, clock=clock, patience=900.0))
    async with anyio.create_task_group() as tasks:
        for _ in range(100):
            tasks.start_soon(bench.judgement, SHOP)
        await settled()
        clock.advance(3600)
        bench.queue._lanes[""].free = 2
        for _ in range(20):
            tasks.start_soon(bench.judgement, SHOP)
            await settled()
            await bench.next()
        fresh = [lag for lag in bench.lags["shop"] if lag <= 2]
        assert len(fresh) >= 18
        assert len(bench.lags["shop"]) >= 36
        tasks.cancel_scope.cancel()
    assert bench.queue.size == 0


async def test_judges_have_lanes_of_their_own():
    bench = Bench(FairQueue({"slow": 1, "fast": 1}, limit=10**9, shares={}, clock=ManualClock()))
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(bench.judgement, LOUD, 1, "slow")
        await settled()
        tasks.start_soon(bench.judgement, SHOP, 1, "fast")
        await settled()
        assert bench.served == ["loud", "shop"]
        tasks.cancel_scope.cancel()


async def test_a_judge_without_a_bound_lets_everybody_in():
    bench = Bench(FairQueue({}, limit=10**9, shares={}, clock=ManualClock()))
    await bench.run([[(LOUD, 1)] * 300])
    assert bench.lags["loud"] == [1] * 300


async def test_who_goes_away_leaves_no_trace_whatever_it_was_doing():
    """Cancelled while waiting, while judged, after being given up: the room and the turns come back."""
    rng = random.Random(3)
    bench = Bench(queue(slots=3, limit=60))

    async def impatient(client):
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await bench.judgement(client, rng.randrange(4))

    scopes: list[anyio.CancelScope] = []
    async with anyio.create_task_group() as tasks:
        for _ in range(200):
            tasks.start_soon(impatient, QueueClient(rng.choice("abc"), rng.choice(["", "synthetic"])))
            await settled()
            if rng.random() < 0.3:
                rng.choice(scopes).cancel()
            if rng.random() < 0.2:
                await bench.next()
        while bench.queue.size:
            await bench.next()
    assert bench.queue.size == 0
    again = Bench(bench.queue)
    await again.run([[(SHOP, 1)] * 3])
    assert again.lags["shop"] == [1, 1, 1]


async def test_names_without_end_do_not_grow_the_queue():
    bench = Bench(queue(slots=1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.judgement, LOUD)
        tasks.start_soon(bench.judgement, LOUD)
        for number in range(3000):
            tasks.start_soon(bench.judgement, QueueClient(f"app{number}"))
            await bench.next()
            assert len(bench.queue._lanes[""].starts) <= 1001
        tasks.cancel_scope.cancel()
    assert bench.queue._held == {}


async def test_what_is_judged_afterwards_has_its_turn_only_when_nobody_else_waits():
    bench = Bench(FairQueue({"": 1}, limit=1000, shares={}, clock=ManualClock()))
    spare = QueueClient("", BACKFILL)
    await bench.run([[(SHOP, 1), (spare, 0), (spare, 0), (LOUD, 1)], [(SHOP, 1)], [], [], [(LOUD, 1)], [], []])
    assert bench.served == ["shop", "loud", "shop", "", "", "loud"]


async def test_what_is_judged_afterwards_makes_room_for_nobody_and_takes_none():
    queue = FairQueue({"": 0}, limit=2, shares={}, clock=ManualClock())
    bench = Bench(queue)
    async with anyio.create_task_group() as tasks:
        for client, size in ((QueueClient("", BACKFILL), 0), (SHOP, 1), (SHOP, 1), (SHOP, 1)):
            tasks.start_soon(bench.judgement, client, size)
        await settled()
        assert dict(bench.shed) == {"shop": 1}
        assert queue.size == 2
        tasks.cancel_scope.cancel()
