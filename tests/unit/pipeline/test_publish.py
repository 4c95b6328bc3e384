"""Results on their way to the sinks: side by side, bounded, and an ack that waits for all of them."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from monitor.errors import InvalidData, MonitorError, ResultsRefused
from monitor.pipeline import publish, read
from monitor.pipeline.publish import Publisher
from monitor.stages import stop_deadline
from monitor.telemetry.events import Event
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


async def test_of_a_batch_only_the_results_that_can_never_be_written_are_given_up_and_the_log_names_them():
    lent, said = runtime(), []
    lent.events.also(lambda _level, event, _message, given: said.append((event, given)))
    results = [judged(1), judged(2, evaluator="tone"), judged(3)]

    async def history(_):
        raise ResultsRefused("AttributeError: no claim", [results[1].id])

    await Publisher({"storage": history}, Memory(), lent).all(results)
    assert total(lent.metrics, "ragmonitor_sink_failures_total", sink="storage") == 1
    assert total(lent.metrics, "ragmonitor_database_unwritten_records_total", database="history") == 1
    ((event, given),) = said
    assert event is Event.SINK_FAILED
    assert given["evaluator"] == "tone"
    assert given["request"] == results[1].case.request_id
    assert given["results"] == 1


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


class Full(At):
    """A pipeline whose history cannot be written until there is room."""

    room = False
    tries = 0

    async def deliver(self, results):
        self.tries += 1
        if not self.room:
            raise MonitorError("database or disk is full")
        await super().deliver(results)


@pytest.fixture
def no_pauses(monkeypatch):
    monkeypatch.setattr(publish, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(publish, "_LAST_PAUSE", 0.001)


async def test_while_the_history_cannot_be_written_nothing_is_acknowledged_and_reading_stops(tmp_path, no_pauses):
    async with pipeline(tmp_path, [configured(LocalEvaluator())], made=Full, sink="storage") as at:
        names = [f"r{number}" for number in range(40)]
        for name in names:
            await at.rows(name, ack=at.ack(name))
        await until(lambda: at.tries > 20)
        assert at.settled == at.results == []
        assert total(at.metrics, "ragmonitor_database_failing", database="history") == 1
        assert at.request_outcome("evaluated") == 0
        assert total(at.metrics, "ragmonitor_requests_found_total") < len(names), "the others wait unread"
        assert at.balanced() == len(names)
        at.room = True
        await until(lambda: len(at.settled) == len(names))
        assert sorted(at.results) == sorted(at.settled) == sorted(names)
        assert total(at.metrics, "ragmonitor_database_failing", database="history") == 0
        assert total(at.metrics, "ragmonitor_sink_failures_total", sink="storage") == 0
        assert at.request_outcome("evaluated") == at.balanced() == len(names)


async def test_one_caller_tries_to_write_the_history_and_one_line_says_that_it_cannot_be(no_pauses):
    lent, taken, at_once = runtime(), [], []
    trying = 0

    async def full(results):
        nonlocal trying
        trying += 1
        at_once.append(trying)
        try:
            await anyio.lowlevel.checkpoint()
            if len(at_once) < 100:
                raise MonitorError("disk I/O error")
            taken.extend(one.id for one in results)
        finally:
            trying -= 1

    publisher = Publisher({"storage": full}, Memory(), lent)
    async with anyio.create_task_group() as callers:
        callers.start_soon(publisher.one, judged(0))
        await until(lambda: len(at_once) > 3)
        for number in range(1, 20):
            callers.start_soon(publisher.one, judged(number))
        await until(lambda: len(at_once) > 50)
        assert max(at_once) == 1
    assert sorted(taken) == sorted(judged(number).id for number in range(20))
    with anyio.fail_after(60):
        await publisher.ready()
    for event in (Event.SINK_FAILED, Event.SINK_RECOVERED):
        assert total(lent.metrics, "ragmonitor_events_total", event=event.value) == 1


async def test_what_is_being_written_when_its_caller_is_cancelled_is_known_as_published():
    lent, memory, writing, written = runtime(), Memory(), anyio.Event(), anyio.Event()

    async def slow(_):
        writing.set()
        await written.wait()

    async def other(_):
        await anyio.lowlevel.checkpoint()

    publisher = Publisher({"storage": slow, "other": other}, memory, lent)
    async with anyio.create_task_group() as callers:
        callers.start_soon(publisher.one, judged(1))
        await writing.wait()
        callers.cancel_scope.cancel()
        assert not memory.ids
        written.set()
    assert publisher.has(judged(1).id)


async def test_a_caller_that_is_cancelled_while_the_history_cannot_be_written_gives_up_after_the_present_attempt():
    lent, memory, tries = runtime(), Memory(), []

    async def full(_):
        tries.append(True)
        raise MonitorError("database or disk is full")

    publisher = Publisher({"storage": full}, memory, lent)
    async with anyio.create_task_group() as callers:
        callers.start_soon(publisher.one, judged(1))
        await until(lambda: tries)
        callers.cancel_scope.cancel()
    assert not publisher.has(judged(1).id)


class CutOff(At):
    """A pipeline whose history is slow: it writes when the test is over, or the gate opens."""

    async def deliver(self, results):
        await self.gate.wait()
        await super().deliver(results)

    def counted(self):
        return total(self.metrics, "ragmonitor_evaluations_total")


async def test_of_what_was_counted_when_a_stop_cuts_the_pipeline_off_everything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "_DELIVERING", 3)
    monkeypatch.setattr(stop_deadline, "_OVER", {"requests": 0.0, "sinks": 0.0, "connections": 0.0})
    async with pipeline(tmp_path, [configured(LocalEvaluator())], made=CutOff, sink="storage") as at:
        for number in range(10):
            await at.rows(f"r{number}", ack=at.ack(number))
        await until(lambda: at.counted() == 3)
        await anyio.lowlevel.checkpoint()
    assert len(at.results) == len(at.settled) == at.counted() == at.request_outcome("evaluated")
    assert at.balanced() == 10


@pytest.mark.parametrize("error", [InvalidData("no such column"), ValueError("a fault of ours")])
async def test_what_can_never_be_written_is_given_up_at_once_and_counted(error):
    lent = runtime()

    async def refuses(_):
        raise error

    publisher = Publisher({"storage": refuses}, Memory(), lent)
    await publisher.all([judged(1), judged(2)])
    await publisher.ready()
    assert total(lent.metrics, "ragmonitor_sink_failures_total", sink="storage") == 2
    assert total(lent.metrics, "ragmonitor_database_unwritten_records_total", database="history") == 2
    assert total(lent.metrics, "ragmonitor_database_failing", database="history") == 0
