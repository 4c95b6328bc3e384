"""The event loop's side of the producer: bounded, many at a time, and never left waiting. The thread is a fake."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from monitor.errors import InvalidData, MonitorError
from monitor.transport.kafka import producer as module
from monitor.transport.kafka.connection import KafkaConnection
from monitor.transport.kafka.producer import Producer, Sending, open_producer
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio

CONNECTION = KafkaConnection(brokers=("127.0.0.1:1",))


class Thread:
    """Takes records and ends them when told to."""

    made: list[Thread]

    def __init__(self, connection: Any, sending: Any, events: Any, clock: Any, ended: Any) -> None:
        self.ended, self.records, self.renewed, self.stopped = ended, [], 0, False
        Thread.made.append(self)

    def send(self, record: Any) -> None:
        self.records.append(record)

    def renew(self) -> None:
        self.renewed += 1

    def stop(self, seconds: float) -> None:
        self.stopped = True


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> list[Thread]:
    Thread.made = []
    monkeypatch.setattr(module, "SendingThread", Thread)
    monkeypatch.setattr(module, "_FLUSH", 0.05)
    monkeypatch.setattr(module, "_GRACE", 0.05)
    return Thread.made


async def settled() -> None:
    for _ in range(5):
        await anyio.lowlevel.checkpoint()


async def test_a_record_is_sent_when_it_has_ended_and_never_before() -> None:
    lent = runtime()
    async with open_producer(CONNECTION, Sending(), lent, ["t"]) as producer, anyio.create_task_group() as tasks:
        assert total(lent.metrics, "ragmonitor_producer_records_total", topic="t") == 0
        tasks.start_soon(producer.send, "t", b"key", b"value")
        await settled()
        (record,) = Thread.made[0].records
        assert total(lent.metrics, "ragmonitor_producer_records_total", topic="t") == 0
        Thread.made[0].ended(record, None)
    assert total(lent.metrics, "ragmonitor_producer_records_total", topic="t", outcome="delivered") == 1
    assert Thread.made[0].stopped


@pytest.mark.parametrize(
    ("error", "outcome"), [(InvalidData("too large"), "refused"), (MonitorError("in time"), "failed")]
)
async def test_a_record_that_was_not_sent_raises_why_and_is_counted(error: MonitorError, outcome: str) -> None:
    lent = runtime()
    async with open_producer(CONNECTION, Sending(), lent) as producer, anyio.create_task_group() as tasks:

        async def send() -> None:
            with pytest.raises(type(error), match=str(error)):
                await producer.send("t", None, b"value")

        tasks.start_soon(send)
        await settled()
        Thread.made[0].ended(Thread.made[0].records[0], error)
    assert total(lent.metrics, "ragmonitor_producer_records_total", topic="t", outcome=outcome) == 1


async def test_beyond_the_bound_senders_wait_in_their_order_until_others_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_BYTES", 5000)
    async with open_producer(CONNECTION, Sending(), runtime()) as producer, anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(producer.send, "t", None, bytes([number]) * 1936)  # 2,000 with what else a record takes
            await settled()
        thread = Thread.made[0]
        assert len(thread.records) == 2
        for done in range(6):
            assert len(thread.records) == min(done + 2, 6)
            thread.ended(thread.records[done], None)
            await settled()
        assert [record.value[0] for record in thread.records] == list(range(6))


async def test_one_record_beyond_the_bound_is_sent_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_BYTES", 100)
    async with open_producer(CONNECTION, Sending(), runtime()) as producer, anyio.create_task_group() as tasks:
        tasks.start_soon(producer.send, "t", None, b"x" * 500)
        await settled()
        Thread.made[0].ended(Thread.made[0].records[0], None)


async def test_a_sender_that_is_cancelled_takes_no_room_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IN_FLIGHT_BYTES", 1000)
    async with open_producer(CONNECTION, Sending(), runtime()) as producer:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(producer.send, "t", None, b"x" * 900)
            await settled()
            tasks.cancel_scope.cancel()
        (under_way,) = Thread.made[0].records
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.send, "t", None, b"y" * 900)
            await settled()
            assert Thread.made[0].records == [under_way]  # what is under way takes room until it has ended
            Thread.made[0].ended(under_way, None)
            await settled()
            Thread.made[0].ended(Thread.made[0].records[1], None)


async def test_a_client_that_says_nothing_is_given_up_and_nobody_waits_for_ever() -> None:
    async with open_producer(CONNECTION, Sending(delivery_timeout=0.05), runtime()) as producer:
        with pytest.raises(MonitorError, match="no response from the client"), anyio.fail_after(120):
            await producer.send("t", None, b"value")
        assert Thread.made[0].renewed == 1


async def test_leaving_ends_what_is_under_way_after_a_while() -> None:
    failed: list[str] = []

    async def send(producer: Producer) -> None:
        try:
            await producer.send("t", None, b"value")
        except MonitorError as error:
            failed.append(str(error))

    async with anyio.create_task_group() as tasks, open_producer(CONNECTION, Sending(), runtime()) as producer:
        tasks.start_soon(send, producer)
        await settled()
    assert failed == ["the monitor is stopping"]
