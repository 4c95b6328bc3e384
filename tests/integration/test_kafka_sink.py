"""Results on a real Apache Kafka: acknowledged, through outages, and what can never be sent among the dead letters."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from monitor.clock import SystemClock
from monitor.errors import MonitorError
from monitor.model.outcome import Selection
from monitor.sinks.kafka import KafkaSink
from monitor.stages import PastResult
from monitor.statistics.defect_model import INPUTS_VERSION
from monitor.transport.kafka.connection import KafkaConnection
from monitor.transport.kafka.producer import Sending, open_producer
from tests.support.kafka import Broker
from tests.support.kafka_source import produce
from tests.support.results import judged
from tests.support.runtime import runtime, total
from tests.support.tools import PATIENCE, until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(900),
    # kafka-python 3.0.12 leaves the sockets of connections that were refused to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

INPUTS = (0.5, -1.0, 0.25, 0.0, 1.5, 0.0, -0.75)


@pytest.fixture
def broker(kafka: Broker) -> Broker:
    """The one that tests share: topics here have names that begin with `sink`."""
    return kafka


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What the client left is collected while its test still says that this is no fault."""
    yield
    gc.collect()


def sink(broker: Broker, topic: str, **options: Any) -> KafkaSink:
    return KafkaSink(**{"brokers": broker.address, "topic": topic, "delivery_timeout": 60, **options})


def read(broker: Broker, topic: str, expected: int, seconds: float = 20.0) -> list[Any]:
    """The records of `topic`, at least `expected` of them."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None, auto_offset_reset="earliest")
    try:
        partitions = [TopicPartition(topic, number) for number in broker.end_offsets(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        found: list[Any] = []
        deadline = time.monotonic() + seconds * PATIENCE
        while len(found) < expected and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200).values():
                found += records
    finally:
        consumer.close()
    assert len(found) >= expected
    return found


def rows(records: list[Any]) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in (json.loads(one.value) for one in records)}


async def test_a_result_is_there_when_it_is_delivered_keyed_by_its_trace_many_at_a_time(broker: Broker) -> None:
    broker.create_topics("sink.plain")
    lent, results = runtime(SystemClock()), [judged(number) for number in range(2000)]
    async with sink(broker, "sink.plain").open(lent) as deliver:
        began = time.monotonic()
        for one in results[:20]:
            await deliver([one])
        alone = (time.monotonic() - began) / 20
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for one in results[20:]:
                tasks.start_soon(deliver, [one])
        seconds = time.monotonic() - began
    found = read(broker, "sink.plain", 2000)
    assert rows(found).keys() == {one.id for one in results}
    assert len(found) == 2000
    for one in found:
        assert one.key.decode() == json.loads(one.value)["trace_id"]
    assert all("request" not in row for row in rows(found).values())
    assert seconds < alone * 1980 / 2  # what they would take one at a time
    assert total(lent.metrics, "ragmonitor_producer_records_total", topic="sink.plain", outcome="delivered") == 2000


async def test_texts_go_along_where_that_is_asked_for(broker: Broker) -> None:
    broker.create_topics("sink.texts")
    async with sink(broker, "sink.texts", include_texts=True).open(runtime(SystemClock())) as deliver:
        await deliver([judged(1)])
    (row,) = rows(read(broker, "sink.texts", 1)).values()
    assert row["response"] == "It is two years."


@pytest.mark.parametrize("how", ["killed", "suspended"])
async def test_nothing_is_lost_or_unheard_while_the_broker_is_away_for_ten_seconds(mortal: Broker, how: str) -> None:
    topic = f"results-{how}"
    mortal.create_topics(topic)
    lent, results = runtime(SystemClock()), [judged(number) for number in range(300)]

    async def away() -> None:
        await anyio.sleep(0.5)
        if how == "killed":
            await anyio.to_thread.run_sync(mortal.kill)
            await anyio.sleep(10)
            await anyio.to_thread.run_sync(mortal.start)
        else:
            mortal.suspend()
            await anyio.sleep(10)
            mortal.resume()

    heard: list[PastResult] = []
    options = sink(mortal, topic)
    async with anyio.create_task_group() as beside:
        beside.start_soon(options.replay_results, heard.append, lent)
        async with options.open(lent) as deliver, anyio.create_task_group() as tasks:
            tasks.start_soon(away)
            for one in results:
                tasks.start_soon(deliver, [one])
                await anyio.sleep(0.01)
        with anyio.fail_after(120):
            while {past.result for past in heard} != {one.id for one in results}:  # noqa: ASYNC110
                await anyio.sleep(0.1)
        beside.cancel_scope.cancel()
    assert rows(read(mortal, topic, 300)).keys() == {one.id for one in results}
    assert total(lent.metrics, "ragmonitor_producer_records_total", topic=topic, outcome="failed") == 0


async def test_what_is_too_large_goes_to_the_dead_letters_without_its_texts_and_harms_no_other(broker: Broker) -> None:
    broker.create_topics("sink.small", max_message_bytes="20000")
    broker.create_topics("sink.letters")
    large = {"explanation": "x" * 50_000}
    lent = runtime(SystemClock())
    options = {"dead_letters": "sink.letters", "compression": "none", "max_bytes": 200_000}
    async with sink(broker, "sink.small", **options).open(lent) as deliver, anyio.create_task_group() as tasks:
        for number in range(400):
            one = judged(number)
            if number % 50 == 25:  # too large for the topic
                one = judged(number, outcome=_score(**large))
            elif number % 50 == 26:  # too large for the client
                one = judged(number, outcome=_score(explanation="x" * 300_000))
            tasks.start_soon(deliver, [one])
            await anyio.sleep(0.002)
    found, letters = rows(read(broker, "sink.small", 384)), read(broker, "sink.letters", 16)
    assert len(found) == 384
    assert len(letters) == 16
    for letter in (json.loads(one.value) for one in letters):
        assert "MessageSizeTooLargeError" in letter["reason"]
        assert letter["topic"] == "sink.small"
        assert letter["result"]["id"] not in found
        assert "xxx" not in json.dumps(letter)
    assert total(lent.metrics, "ragmonitor_producer_records_total", topic="sink.small", outcome="refused") == 16
    assert total(lent.metrics, "ragmonitor_events_total", event="kafka_refused") == 16


async def test_without_dead_letters_what_is_too_large_is_a_failure_of_the_sink(broker: Broker) -> None:
    broker.create_topics("sink.bare")
    async with sink(broker, "sink.bare", max_bytes=2000).open(runtime(SystemClock())) as deliver:
        with pytest.raises(MonitorError, match="MessageSizeTooLargeError"):
            await deliver([judged(1, outcome=_score(explanation="x" * 3000))])


async def test_a_missing_topic_is_said_once_waited_for_and_never_made(broker: Broker) -> None:
    lent = runtime(SystemClock())
    async with sink(broker, "sink.missing", delivery_timeout=2).open(lent) as deliver:
        began = time.monotonic()
        for number in range(2):
            with pytest.raises(MonitorError, match="not delivered in time: topic not found"):
                await deliver([judged(number)])
        assert time.monotonic() - began >= 2 * 2, "each has waited for its delivery timeout"
    with broker.admin() as admin:
        assert "sink.missing" not in admin.list_topics()
    assert total(lent.metrics, "ragmonitor_events_total", event="kafka_topic_missing") == 1
    assert total(lent.metrics, "ragmonitor_producer_records_total", topic="sink.missing", outcome="failed") == 2


async def test_a_topic_that_is_made_late_gets_what_has_waited(broker: Broker) -> None:
    lent = runtime(SystemClock())
    async with sink(broker, "sink.late").open(lent) as deliver, anyio.create_task_group() as tasks:
        tasks.start_soon(deliver, [judged(1)])
        await until(lambda: total(lent.metrics, "ragmonitor_events_total", event="kafka_topic_missing"), "an attempt")
        await anyio.to_thread.run_sync(broker.create_topics, "sink.late")
    assert len(read(broker, "sink.late", 1)) == 1
    assert total(lent.metrics, "ragmonitor_events_total", event="kafka_back") == 1


async def test_leaving_without_a_broker_waits_for_none_and_says_what_was_not_sent(broker: Broker) -> None:
    nowhere = KafkaSink(brokers=("127.0.0.1:1",), topic="any")
    failed: list[MonitorError] = []
    lent = runtime(SystemClock())
    async with anyio.create_task_group() as tasks, nowhere.open(lent) as deliver:

        async def one() -> None:
            try:
                await deliver([judged(1)])
            except MonitorError as error:
                failed.append(error)

        tasks.start_soon(one)
        await until(lambda: total(lent.metrics, "ragmonitor_events_total", event="kafka_unreachable"), "an attempt")
    assert [str(error) for error in failed] == ["the monitor is stopping"]
    del broker


async def test_every_reader_hears_the_newest_results_in_order_and_then_each_that_comes(broker: Broker) -> None:
    broker.create_topics("sink.memory")
    heard: list[PastResult] = []
    options = sink(broker, "sink.memory", replay=60)

    def one(number: int) -> Any:
        return judged(number, value=number % 5, selection=Selection(0.1, 0.05, INPUTS, 0.5, INPUTS_VERSION))

    async with options.open(runtime(SystemClock())) as deliver:
        for number in range(100):
            await deliver([one(number)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(options.replay_results, heard.append, runtime(SystemClock()))
            with anyio.fail_after(120):
                while len(heard) < 50:  # noqa: ASYNC110 - another task fills it
                    await anyio.sleep(0.05)
            past = len(heard)
            assert [past.result for past in heard] == [
                judged(number).id for number in range(100) if judged(number).id in {one.result for one in heard}
            ]
            assert heard[-1].result == one(99).id
            nested = [(None, b"[" * 100_000)]  # as anybody with access to the topic may write: it costs only itself
            await anyio.to_thread.run_sync(produce, broker, "sink.memory", nested)
            await deliver([one(100)])
            with anyio.fail_after(120):
                while len(heard) < past + 1:  # noqa: ASYNC110
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
    last = heard[-1]
    assert (last.result, last.defect, last.inputs, last.shift) == (one(100).id, True, INPUTS, 0.5)
    assert last.emphasis == pytest.approx(0.5)


async def test_a_producer_says_whether_a_topic_is_there_and_makes_none(broker: Broker) -> None:
    broker.create_topics("sink.known")
    async with open_producer(sink(broker, "sink.known"), Sending(), runtime(SystemClock())) as producer:
        assert await producer.knows("sink.known")
        assert not await producer.knows("sink.unknown")
    async with open_producer(KafkaConnection(brokers=("127.0.0.1:1",)), Sending(), runtime(SystemClock())) as producer:
        assert not await producer.knows("sink.known")


def _score(**fields: Any) -> Any:
    from dataclasses import replace

    return replace(judged(0).outcome, **fields)
