"""Results on their way to the sinks: side by side, bounded, and an ack that waits for all of them."""

from __future__ import annotations

import anyio
import pytest

from monitor.pipeline import read
from monitor.pipeline.publish import Publisher
from tests.support.evaluators import LocalEvaluator, Memory, configured
from tests.support.pipeline import At, pipeline
from tests.support.results import judged
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio


class Slow(At):
    """A pipeline with one local evaluator, whose sink waits for the gate."""

    async def deliver(self, results):
        self.results.extend(one.case.request_id for one in results)
        await self.gate.wait()


async def test_a_sink_that_takes_its_time_has_many_results_at_once_and_reading_waits_beyond_the_bound(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(read, "_DELIVERING", 20)
    async with pipeline(tmp_path, [configured(LocalEvaluator())], made=Slow) as at:
        names = [f"r{number}" for number in range(40)]
        for name in names:
            await at.rows(name, ack=at.ack(name))
        await until(lambda: len(at.results) == 20)
        await anyio.sleep(0.05)
        assert len(at.results) == 20
        assert at.settled == []
        at.gate.set()
        await until(lambda: len(at.settled) == 40)
        assert sorted(at.results) == sorted(at.settled) == sorted(names)
        assert at.request_outcome("evaluated") == at.balanced() == 40


async def test_a_sink_that_fails_keeps_no_result_from_the_others_and_is_counted():
    lent, taken, memory = runtime(), [], Memory()

    async def broken(_):
        raise OSError("gone")

    async def takes(some):
        taken.extend(one.id for one in some)

    results = [judged(1), judged(2)]
    await Publisher({"broken": broken, "takes": takes}, memory, lent).all(results)
    assert sorted(taken) == sorted(memory.ids) == sorted(one.id for one in results)
    assert total(lent.metrics, "ragmonitor_sink_failures_total", sink="broken") == 2
    assert total(lent.metrics, "ragmonitor_sink_failures_total", sink="takes") == 0


async def test_a_listener_hears_a_result_before_a_slow_sink_has_it_and_one_that_fails_keeps_it_from_nobody():
    lent, heard, taken = runtime(), [], []
    one = judged(1)

    async def slow(results):
        assert heard == [one.id]
        taken.extend(result.id for result in results)

    def broken(_):
        raise ValueError("a fault of ours")

    listeners = [broken, lambda result: heard.append(result.id)]
    await Publisher({"slow": slow}, Memory(), lent, listeners=listeners).one(one)
    assert taken == [one.id]
    assert total(lent.metrics, "ragmonitor_sink_failures_total", sink="listeners") == 1
