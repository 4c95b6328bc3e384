"""The owner thread and its watch, over a client of kafka-python's shape that does as it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import pytest
from kafka import TopicPartition
from kafka.errors import FencedInstanceIdError, InconsistentGroupProtocolError, KafkaTimeoutError

from monitor.clock import Clock, ManualClock, SystemClock
from monitor.stages import Runtime, stop_deadline
from monitor.transport.kafka import consumer as under_test
from monitor.transport.kafka import poll_thread
from monitor.transport.kafka.client import ConsumerSettings
from monitor.transport.kafka.consumer import Consumer, Partition
from tests.support.intakes import RecordingIntake
from tests.support.kafka_source import Record
from tests.support.runtime import runtime, total
from tests.support.tools import until

pytestmark = pytest.mark.anyio
_REVOKE = 0.3  # seconds


class _Fetcher:
    """Nothing is parked, nothing went wrong."""

    _next_partition_records = None
    _next_in_line_exception_metadata = None

    def close(self) -> None:
        pass


class _Cluster:
    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def partitions_for_topic(self, _topic: str) -> set[int]:
        return set(range(self._partitions))

    def request_update(self) -> None:
        pass


class _Future:
    is_done = True


class _Generation(NamedTuple):
    generation_id: int


class Client:
    """A consumer that is assigned partition 0 of `spans` at its first poll. `faults`: what polls raise or do."""

    def __init__(self, records: int = 3, faults: Iterator[Any] | None = None) -> None:
        self._fetcher, self._cluster = _Fetcher(), _Cluster(2)
        self.at = TopicPartition("spans", 0)
        self.records = [Record("spans", 0, number, b"x") for number in range(records)]
        self.faults = faults if faults is not None else iter(())
        self.given = 0
        self.polls = 0
        self.held: set[Any] = set()
        self.commits: list[dict[Any, int]] = []
        self.listener: Any = None
        self.closed = threading.Event()
        self.placed = False
        self.end: int | None = None
        self.earliest: Iterator[int | Exception] = iter(())
        """What the broker says to questions for the first offset, one after the other; then 0."""
        self.questions = 0

    def subscribe(self, _topics: list[str], listener: Any) -> None:
        self.listener = listener

    def poll(self, timeout_ms: int) -> dict[Any, list[Any]]:
        self.polls += 1
        fault = next(self.faults, None)
        if isinstance(fault, BaseException):
            raise fault
        if callable(fault):
            fault()
        if self.closed.is_set():
            raise RuntimeError("closed")
        if not self.placed:
            self.placed = True
            drive(self.listener.on_partitions_assigned({self.at}))
            return {}
        if self.at in self.held or self.given == len(self.records):
            time.sleep(min(timeout_ms, 20) / 1000)
            return {}
        found, self.given = self.records[self.given :], len(self.records)
        return {self.at: found}

    def assignment(self) -> set[Any]:
        return {self.at} if self.placed else set()

    def paused(self) -> set[Any]:
        return set(self.held)

    def pause(self, *places: Any) -> None:
        self.held.update(places)

    def resume(self, *places: Any) -> None:
        self.held.difference_update(places)

    def seek(self, _at: Any, _offset: int) -> None:
        pass

    def beginning_offsets(self, places: list[Any], timeout_ms: int) -> dict[Any, int]:
        assert timeout_ms
        self.questions += 1
        found = next(self.earliest, 0)
        if isinstance(found, Exception):
            raise found
        return dict.fromkeys(places, found)

    def end_offsets(self, places: list[Any], timeout_ms: int) -> dict[Any, int]:
        assert timeout_ms
        return dict.fromkeys(places, len(self.records) if self.end is None else self.end)

    def committed(self, _at: Any, timeout_ms: int) -> None:
        assert timeout_ms

    def highwater(self, _at: Any) -> None:
        return None

    def position(self, _at: Any, timeout_ms: int) -> int:
        assert timeout_ms is not None
        return self.given

    def group_metadata(self) -> _Generation:
        return _Generation(1)

    def commit_async(self, offsets: dict[Any, Any], callback: Any) -> _Future:
        self.commit(offsets, 0)
        callback(offsets, None)
        return _Future()

    def commit(self, offsets: dict[Any, Any], timeout_ms: int) -> None:
        assert timeout_ms is not None
        self.commits.append({at: one.offset for at, one in offsets.items()})

    def close(self, timeout_ms: int) -> None:
        assert timeout_ms
        self.closed.set()


def drive(coroutine: Any) -> None:
    """What kafka-python's loop does with a listener: here its waits are real."""
    try:
        while True:
            coroutine.send(None)
            time.sleep(0.01)
    except StopIteration:
        pass


class Bench:
    def __init__(self, consumer: Consumer, intake: RecordingIntake, made: Runtime) -> None:
        self.consumer, self.intake, self.runtime = consumer, intake, made
        self.ready = 0

    def count(self, name: str, **labels: str) -> float:
        return total(self.runtime.metrics, f"ragmonitor_consumer_{name}", **labels)


@asynccontextmanager
async def consuming(
    monkeypatch: pytest.MonkeyPatch, *clients: Client | Exception, clock: Clock | None = None
) -> AsyncIterator[Bench]:
    """A consumer over these clients, one after the other."""
    waiting = list(clients)

    def make(_settings: ConsumerSettings, _clock: Clock) -> Client:
        found = waiting.pop(0) if waiting else KafkaTimeoutError("no more")
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(poll_thread, "make_consumer", make)
    monkeypatch.setattr(stop_deadline, "_OVER", {"requests": 0.2, "sinks": 60.0})
    monkeypatch.setattr(under_test, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(under_test, "_WATCH_EVERY", 0.05)
    made, intake = runtime(clock or SystemClock()), RecordingIntake()
    settings = ConsumerSettings(client={}, group="g", topics=("spans",), revoke_timeout=_REVOKE, max_in_flight=10)

    def ready() -> None:
        bench.ready += 1

    bench = Bench(Consumer("kafka", settings, made, intake.hand_over, ready), intake, made)
    async with anyio.create_task_group() as work:
        work.start_soon(bench.consumer.run)
        try:
            yield bench
        finally:
            work.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await bench.consumer.stop()


async def take(bench: Bench, number: int) -> list[Any]:
    """The acks of the next messages."""
    found = []
    with anyio.fail_after(120):
        while len(found) < number:
            partition, record = await bench.consumer.next()
            found.append(partition.offsets.take(record.offset))
    return found


async def test_messages_come_in_order_and_their_mark_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    async with consuming(monkeypatch, client) as bench:
        first, second, third = await take(bench, 3)
        await until(lambda: bench.ready == 1, "readiness", 5)
        second.settle()
        first.settle()
        await until(lambda: {client.at: 2} in client.commits, "a commit", 5)
        assert bench.runtime.share.value == 0.5
        await until(lambda: bench.count("unfinished_messages") == 1, "a look at what is left", 5)
        third.settle()
    assert client.commits[-1] == {client.at: 3}
    assert client.closed.is_set()
    assert not bench.intake.void


async def test_a_poll_that_does_not_return_is_given_up_with_its_acks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "_STUCK_AFTER", 0.3)
    stuck = threading.Event()
    first = Client(faults=iter([None, None, stuck.wait]))
    second = Client()
    async with consuming(monkeypatch, first, second) as bench:
        old = await take(bench, 3)
        new = await take(bench, 3)
        assert bench.intake.void == old
        assert bench.count("rebuilds_total", reason="poll_stuck") == 1
        assert total(bench.runtime.metrics, "ragmonitor_events_total", event="kafka_poll_stuck") == 1
        await until(first.closed.is_set, "the end of the old client", 5)
        stuck.set()
        for ack in (*old, *new):
            ack.settle()
        await until(lambda: {second.at: 3} in second.commits, "a commit by the new one", 5)
        assert not first.commits


async def test_a_partition_that_does_not_move_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_thread, "_STUCK_AFTER", 0.3)
    monkeypatch.setattr(poll_thread, "_LOOK_EVERY", 0.1)
    monkeypatch.setattr(poll_thread, "_ASK_EVERY", 0.1)
    first, second = Client(), Client()
    first.end = 9
    async with consuming(monkeypatch, first, second) as bench:
        await take(bench, 6)
        assert bench.count("rebuilds_total", reason="partition_stuck") == 1
        assert total(bench.runtime.metrics, "ragmonitor_events_total", event="kafka_partition_stuck") == 1


async def test_a_pause_is_no_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_thread, "_STUCK_AFTER", 0.3)
    monkeypatch.setattr(poll_thread, "_LOOK_EVERY", 0.1)
    monkeypatch.setattr(poll_thread, "_ASK_EVERY", 0.1)
    client = Client(records=50)
    client.end = 99
    async with consuming(monkeypatch, client) as bench:  # fifty wait, ten may
        await until(lambda: client.held, "the pause", 5)
        polls = client.polls
        await until(lambda: client.polls >= polls + 60, "many polls of at least 10 ms", 30)  # longer than it may stand
        assert not bench.count("rebuilds_total")
        await take(bench, 46)
        await until(lambda: not client.held, "the end of the pause", 5)


async def test_whatever_a_poll_raises_a_new_consumer_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = (
        Client(faults=iter([None, RuntimeError("any")])),
        Client(faults=iter([None, FencedInstanceIdError()])),
        KafkaTimeoutError("no broker"),
        Client(),
    )
    async with consuming(monkeypatch, *clients) as bench:
        await until(lambda: bench.count("rebuilds_total") == 3, "three new consumers", 10)
        assert [bench.count("rebuilds_total", reason=one) for one in ("error", "fenced", "unreachable")] == [1, 1, 1]
        events = "ragmonitor_events_total"
        assert total(bench.runtime.metrics, events, event="kafka_unreachable") == 1
        await until(lambda: total(bench.runtime.metrics, events, event="kafka_back") == 1, "the end of it", 5)


async def test_a_group_with_another_assignment_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Old replicas of a rolling update that adds the topic of logs: it never ends by itself."""
    async with consuming(monkeypatch, Client(faults=iter([InconsistentGroupProtocolError()])), Client()) as bench:
        await until(lambda: bench.ready, "readiness", 30)
        assert bench.count("rebuilds_total", reason="other_assignment") == 1
    assert "stop all replicas" in caplog.text


async def test_readiness_says_why_the_group_or_the_brokers_refuse_until_it_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = threading.Event()
    faults = [InconsistentGroupProtocolError("at 10.0.0.1")]
    async with consuming(monkeypatch, Client(faults=iter(faults)), Client(faults=iter([later.wait]))) as bench:
        health = bench.runtime.health
        health.expect("kafka")
        try:
            await until(lambda: "different `assignment`" in "".join(health.reasons), "the reason", 30)
            assert "10.0.0.1" not in "".join(health.reasons)
        finally:
            later.set()
        await until(lambda: bench.ready, "readiness", 30)
        assert health.reasons == ("kafka: starting",)


async def test_readiness_names_the_topics_that_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_thread, "_LOOK_EVERY", 0.05)
    client = Client()
    client._cluster = _Cluster(0)
    async with consuming(monkeypatch, client) as bench:
        health = bench.runtime.health
        health.expect("kafka")
        await until(lambda: "kafka g: spans: topics do not exist: spans" in health.reasons, "the reason", 30)
        client._cluster = _Cluster(2)
        await until(lambda: bench.ready, "readiness", 30)
        assert health.reasons == ("kafka: starting",)


async def test_revoked_partitions_finish_for_a_while_then_commit_and_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = threading.Event()
    client, clock = Client(), ManualClock()

    def revoke() -> None:
        turn.wait()
        drive(client.listener.on_partitions_revoked({client.at}))

    client.faults = iter([None, None, revoke])
    monkeypatch.setattr("monitor.transport.kafka.group.KernelEvent", lambda *_: _Now())
    async with consuming(monkeypatch, client, clock=clock) as bench:
        first, second, third = await take(bench, 3)
        turn.set()
        await until(lambda: bench.count("rebalances_total", kind="revoked"), "the revocation", 5)
        assert not bench.intake.void
        first.settle()
        clock.advance(_REVOKE)
        await until(lambda: bench.intake.void, "void acks", 5)
        assert bench.intake.void == [second, third]
        await until(lambda: client.commits == [{client.at: 1}], "the commit", 5)
        assert bench.runtime.share.value == 0
        assert bench.count("rebalances_total", kind="revoked") == 1
        third.settle()
        second.settle()
    assert client.commits == [{client.at: 1}]


async def test_lost_partitions_are_let_go_at_once_without_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = threading.Event()
    client = Client()

    def lose() -> None:
        turn.wait()
        drive(client.listener.on_partitions_lost({client.at}))

    client.faults = iter([None, None, lose])
    async with consuming(monkeypatch, client) as bench:
        acks = await take(bench, 3)
        turn.set()
        await until(lambda: bench.intake.void == acks, "void acks", 5)
        acks[0].settle()
        assert bench.count("rebalances_total", kind="lost") == 1
        assert not bench.runtime.metrics.consumer_lag.collect()[0].samples
    assert not client.commits


def with_gaps(*offsets: int, earliest: list[int | Exception]) -> Client:
    """A client that has these offsets, each at a poll of its own; the partition began at 0."""
    client = Client(records=0)

    def more(offset: int) -> Callable[[], None]:
        return lambda: client.records.append(Record("spans", 0, offset, b"x"))

    client.faults = iter([None, *map(more, offsets)])
    client.earliest = iter([0, *earliest])
    return client


def expired(bench: Bench) -> float:
    return bench.count("expired_messages_total", topic="spans")


async def test_messages_that_are_deleted_while_it_reads_are_counted_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = with_gaps(0, 1, 9, earliest=[9])
    async with consuming(monkeypatch, client) as bench:
        await take(bench, 3)
        await until(lambda: expired(bench), "the count", 30)
        assert expired(bench) == 7
        assert total(bench.runtime.metrics, "ragmonitor_events_total", event="kafka_expired") == 1


async def test_only_what_was_not_read_counts_as_expired_however_late_the_broker_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = with_gaps(3, earliest=[50])
    async with consuming(monkeypatch, client) as bench:
        await take(bench, 1)
        await until(lambda: expired(bench), "the count", 30)
        assert expired(bench) == 3


async def test_gaps_of_a_compacted_topic_and_of_transactions_are_not_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll_thread, "_ASK_EVERY", 0.0)
    client = with_gaps(0, 5, 9, earliest=[0, 0, 10])
    async with consuming(monkeypatch, client) as bench:
        await take(bench, 3)
        await until(lambda: client.questions == 3, "a question for each gap", 30)
        with anyio.move_on_after(0.1):  # an answer is handed over at once
            await until(lambda: expired(bench), "nothing", 30)
        assert not expired(bench)


async def test_many_gaps_are_one_question_every_few_seconds_and_none_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poll_thread, "_LOOK_EVERY", 1e9)
    clock = ManualClock()
    client = with_gaps(*range(1, 20, 2), earliest=[0, 20])
    async with consuming(monkeypatch, client, clock=clock) as bench:
        await take(bench, 10)
        assert client.questions == 2  # at the start, and for the first gap
        clock.advance(10)
        await until(lambda: expired(bench), "the count", 30)
        assert (client.questions, expired(bench)) == (3, 9)


async def test_a_broker_that_does_not_say_what_it_deleted_stops_nothing_and_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poll_thread, "_ASK_AGAIN", 0.0)
    client = with_gaps(4, 5, 6, earliest=[KafkaTimeoutError("no answer"), AttributeError("no leader"), 4])
    async with consuming(monkeypatch, client) as bench:
        await take(bench, 3)
        await until(lambda: expired(bench), "the count", 30)
        assert expired(bench) == 4
        assert not bench.count("rebuilds_total")


async def test_a_partition_whose_messages_are_all_deleted_is_reported_without_a_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(poll_thread, "_LOOK_EVERY", 0.1)
    client = with_gaps(0, earliest=[6])
    client.position = lambda _at, timeout_ms: 6  # type: ignore[method-assign]  # where the client went on by itself
    client.end = 6
    async with consuming(monkeypatch, client) as bench:
        await take(bench, 1)
        await until(lambda: expired(bench), "the count", 30)
        assert expired(bench) == 5


class _Now:
    def __await__(self) -> Iterator[None]:
        yield


async def test_a_partition_that_comes_back_while_it_is_given_up_makes_void_what_was_taken_of_it_before() -> None:
    """A process that stood still: else what comes again would count as a repeat of what is dropped later."""
    lent = runtime(SystemClock())
    intake = RecordingIntake()
    settings = ConsumerSettings(client={}, group="g", topics=("spans",), revoke_timeout=_REVOKE)
    consumer = Consumer("kafka", settings, lent, intake.hand_over, lambda: None)
    before, again = Partition(TopicPartition("spans", 0), 0, 0.0), Partition(TopicPartition("spans", 0), 0, 0.0)
    consumer.assigned([before])
    ack = before.offsets.take(0)
    answered = threading.Event()
    consumer.give_up([before], answered)
    assert not ack.void
    consumer.assigned([again])
    assert ack.void
    assert not again.closed
    with anyio.fail_after(120):
        while not answered.is_set():  # noqa: ASYNC110 - a thread waits for it
            await anyio.sleep(0.01)
    assert not again.closed
