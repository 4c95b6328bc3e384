"""Results on their way to the sinks: side by side, bounded, and a receipt that waits for all of them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest

from monitor import registry
from monitor.assembly import Assembly, AssemblySettings
from monitor.clock import SystemClock
from monitor.content.settings import ReadingSettings
from monitor.pipeline import readers
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.counting import Counting
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.publish import Publisher
from monitor.pipeline.run import Pipeline
from monitor.pipeline.traffic import TrafficRules, TrafficSettings
from monitor.samplers.uniform import Uniform
from monitor.storage.spool import open_spool
from tests.support.pipeline import At, Handed, Nothing, until
from tests.support.runtime import runtime, total
from tests.unit.pipeline.test_evaluate import Local, Memory
from tests.unit.sinks.results import judged

pytestmark = pytest.mark.anyio


class Slow(At):
    """A pipeline with one local evaluator, whose sink waits for the gate."""

    async def deliver(self, result):
        self.results.append(result.case.request_id)
        await self.gate.wait()


@asynccontextmanager
async def pipeline(tmp_path):
    lent = runtime(SystemClock())
    at, evaluator = Slow(lent), Local()
    async with open_spool(
        tmp_path / "spool.db", at_most=2**20, keep=3600.0, clock=lent.clock, metrics=lent.metrics, events=lent.events
    ) as spool:
        evaluation = Evaluation(
            [Assignment(evaluator, Uniform(rate=1.0), evaluator.default_defect)], judges={}, sinks={"test": at.deliver},
            counting=Counting(lent.metrics), delivered=Nothing(), runtime=lent, salt="s", waiting_limit=1000, repeat={},
        )  # fmt: skip
        made = Pipeline(
            sources=[Handed()], conventions=registry.conventions(), reading=ReadingSettings(),
            assembly=Assembly(AssemblySettings()), evaluation=evaluation, spool=spool, runtime=lent,
            rate=1.0, traffic=TrafficRules(TrafficSettings(), "s", lent), drain=1.0,
        )  # fmt: skip
        stop, listening = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.run, stop, lambda *_: listening.set())
            await listening.wait()
            yield at
            at.gate.set()
            stop.set()


async def test_a_sink_that_takes_its_time_has_many_results_at_once_and_reading_waits_beyond_the_bound(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(readers, "_DELIVERING", 20)
    async with pipeline(tmp_path) as at:
        names = [f"r{number}" for number in range(40)]
        for name in names:
            await at.rows(name, receipt=at.receipt(name))
        await until(lambda: len(at.results) == 20)
        await anyio.sleep(0.05)
        assert len(at.results) == 20
        assert at.settled == []
        at.gate.set()
        await until(lambda: len(at.settled) == 40)
        assert sorted(at.results) == sorted(at.settled) == sorted(names)
        assert at.outcome("evaluated") == at.balanced() == 40


async def test_a_sink_that_fails_keeps_no_result_from_the_others_and_is_counted():
    lent, taken, memory = runtime(), [], Memory()

    async def broken(_):
        raise OSError("gone")

    async def takes(one):
        taken.append(one.id)

    results = [judged(1), judged(2)]
    await Publisher({"broken": broken, "takes": takes}, memory, lent).all(results)
    assert sorted(taken) == sorted(memory.ids) == sorted(one.id for one in results)
    assert total(lent.metrics, "ragmonitor_sink_failures_total", sink="broken") == 2
    assert total(lent.metrics, "ragmonitor_sink_failures_total", sink="takes") == 0
