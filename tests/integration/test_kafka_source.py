"""The source `kafka` on a real Apache Kafka: at least once, through rebalances, outages and what cannot be read."""

from __future__ import annotations

import gc
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from kafka import TopicPartition
from kafka.record.util import calc_crc32c
from kafka.structs import OffsetAndMetadata

from monitor.model.row import RowBatch
from monitor.model.span import SpanBatch
from tests.support.certificates import Authority
from tests.support.intakes import RecordingIntake
from tests.support.kafka import PASSWORD, USER, Broker
from tests.support.kafka_source import export, key, produce, produce_traces, reading
from tests.support.kafka_traces import batches, rag_trace, trace_id
from tests.support.monitor import MonitorProcess, assert_balanced
from tests.support.runtime import total
from tests.support.tools import PATIENCE, until, wait_until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(900),
    # kafka-python 3.0.12 leaves the sockets of connections that were refused to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

LETTERS = "rag-monitor-dead-letters"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        running.create_topics(LETTERS, partitions=1)
        yield running


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What the client left is collected while its test still says that this is no fault."""
    yield
    gc.collect()


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of its own with four partitions; the group of a test is called as its topic."""
    name = f"spans-{next(_numbers)}"
    broker.create_topics(name, partitions=4)
    return name


def options(topic: str, **more: Any) -> dict[str, Any]:
    return {"group": topic, "topics": {topic: "otlp_proto"}, **more}


def committed(broker: Broker, group: str) -> int:
    return sum(broker.group_offsets(group).values())


def letters(broker: Broker, since: int = 0) -> list[Any]:
    """The dead letters from offset `since` on."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=broker.address, group_id=None)
    try:
        at = TopicPartition(LETTERS, 0)
        consumer.assign([at])
        consumer.seek(at, since)
        end, found = consumer.end_offsets([at])[at], []
        while consumer.position(at) < end:
            for records in consumer.poll(timeout_ms=200).values():
                found += records
    finally:
        consumer.close()
    return found


def headers(record: Any) -> dict[str, str]:
    return {name.removeprefix("ragmonitor."): value.decode() for name, value in record.headers}


async def test_every_message_is_taken_once_and_committed_when_all_of_it_is_done(broker: Broker, topic: str) -> None:
    produce_traces(broker, topic, range(1, 501))
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic)) as running:
        assert running.address == f"{topic} at {broker.address}"
        await until(lambda: len(intake.batches) == 500, "all messages")
        await until(lambda: committed(broker, topic) == 500, "the commit of all", 5)
        assert sorted(intake.traces) == list(range(1, 501))
        assert all(one.source == "kafka" for one in intake.batches)
        assert running.runtime.share.value == 1
        metrics = running.runtime.metrics
        await until(lambda: not total(metrics, "ragmonitor_consumer_lag_messages", topic=topic), "no lag", 5)
        assert total(metrics, "ragmonitor_consumer_assigned_partitions", topic=topic) == 4
        assert total(metrics, "ragmonitor_consumer_messages_total", topic=topic, outcome="taken") == 500
    assert not [one for one in metrics.consumer_lag.collect()[0].samples if one.labels["topic"] == topic]


async def test_the_offset_stays_before_the_first_message_that_is_not_done_with(broker: Broker, topic: str) -> None:
    produce_traces(broker, topic, range(1, 21), partition=2)
    intake = RecordingIntake(hold=True)
    async with reading(broker, intake, **options(topic)):
        await until(lambda: len(intake.held) == 20, "all messages")
        first = intake.held.pop(3)
        intake.settle()
        await until(lambda: committed(broker, topic) == 3, "a commit of what is before it", 5)
        produce_traces(broker, topic, range(21, 26), partition=1)
        await until(lambda: len(intake.held) == 5, "messages of another partition")
        intake.settle()
        await until(lambda: committed(broker, topic) == 3 + 5, "a later commit, of those alone", 5)
        first.settle()
        await until(lambda: committed(broker, topic) == 25, "a commit of all", 5)


async def test_what_the_collector_writes_is_read_in_every_encoding_and_rows_too(broker: Broker, topic: str) -> None:
    names = {"json": f"{topic}-json", "otlp_logs": f"{topic}.otlp_logs", "rows": f"{topic}-rows"}
    broker.create_topics(*names.values(), partitions=1)
    span = {"traceId": f"{7:032x}", "spanId": f"{1:016x}", "name": "answer"}
    record = {"traceId": f"{8:032x}", "spanId": f"{1:016x}", "body": {"stringValue": "said"}}
    as_json = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    row = {"request": "why?", "response": "because", "retrieved_context": [{"content": "a reason"}], "mood": 1}
    produce_traces(broker, topic, [9])
    produce(broker, names["json"], [(None, json.dumps(as_json).encode())])
    produce(broker, names["otlp_logs"], [(None, json.dumps(logs).encode())])
    produce(broker, names["rows"], [(None, b"\n".join([json.dumps(row).encode()] * 2))])
    intake = RecordingIntake()
    topics = {
        topic: "otlp_proto",
        names["json"]: "otlp_json",
        names["otlp_logs"]: "otlp_json",
        names["rows"]: {"encoding": "case", "app": "shop"},
    }
    async with reading(broker, intake, group=topic, topics=topics) as running:
        await until(lambda: len(intake.batches) == 4, "four messages")
        spans = [one for one in intake.batches if isinstance(one, SpanBatch)]
        assert sorted(intake.traces) == [7, 9]
        assert [one.signal for one in spans].count("logs") == 1
        (delivered,) = (one for one in intake.batches if isinstance(one, RowBatch))
        assert [one.app for one in delivered.rows] == ["shop", "shop"]
        unread = "ragmonitor_consumer_rows_with_unread_fields_total"
        await until(lambda: total(running.runtime.metrics, unread, topic=names["rows"]) == 2, "the fields not read", 5)
        await until(lambda: committed(broker, topic) == 4, "the commit of all", 5)


async def test_without_room_nothing_is_lost_and_the_member_stays_in_its_group(broker: Broker, topic: str) -> None:
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic, session_timeout="4s", max_in_flight=50)) as running:
        before = members(broker, topic)
        intake.busy = True
        produce_traces(broker, topic, range(1, 1001))
        metrics = running.runtime.metrics
        await until(lambda: total(metrics, "ragmonitor_consumer_lag_messages", topic=topic) >= 999, "the lag", 15)
        await anyio.sleep(8)  # twice the session timeout, however busy the machine is
        assert members(broker, topic) == before
        assert not intake.batches
        intake.busy = False
        await until(lambda: len(intake.batches) == 1000, "all messages")
        assert sorted(intake.traces) == list(range(1, 1001))
        assert total(metrics, "ragmonitor_consumer_rebalances_total") == 1


def members(broker: Broker, group: str) -> dict[str, int]:
    """How many partitions each member has, as the broker knows it."""
    with broker.admin() as admin:
        described = admin.describe_groups([group])[group]
    found = {}
    for one in described["members"]:
        assignment = one["member_assignment"]
        topics = assignment["assigned_partitions"] if assignment else ()
        found[one["member_id"]] = sum(len(each["partitions"]) for each in topics)
    return found


@pytest.mark.parametrize("assignment", ["cooperative", "range"])
async def test_partitions_that_are_given_up_are_committed_and_the_rest_of_them_is_read_by_their_next_owner(
    broker: Broker, topic: str, assignment: str
) -> None:
    produce_traces(broker, topic, range(1, 101))
    first, second = RecordingIntake(hold=True), RecordingIntake()
    async with reading(broker, first, **options(topic, assignment=assignment, revoke_timeout="1s")) as one:
        await until(lambda: len(first.held) == 100, "all messages")
        first.settle(15)  # fewer than any two partitions hold: something is left of those that are given up
        await until(lambda: committed(broker, topic) > 0, "a commit", 5)
        async with reading(broker, second, **options(topic, assignment=assignment)) as other:
            await until(lambda: other.runtime.share.value == one.runtime.share.value == 0.5, "both with a half")
            first.hold = False
            first.settle()
            done = set(first.traces[:15]) | set(second.traces)
            await until(lambda: committed(broker, topic) == 100, "the commit of all", 15)
            done |= set(first.traces) | set(second.traces)
            assert done == set(range(1, 101))
            assert first.void
            assert not any(ack in first.held for ack in first.void)
            assert total(one.runtime.metrics, "ragmonitor_consumer_assigned_partitions") == 2
            lags = one.runtime.metrics.consumer_lag.collect()[0].samples
            assert len(lags) <= 2
        await until(lambda: one.runtime.share.value == 1, "all partitions again")
    with_gaps = [
        partition
        for partition, offset in broker.group_offsets(topic).items()
        if offset != broker.end_offsets(topic)[partition[1]]
    ]
    assert not with_gaps


def expel(broker: Broker, group: str) -> None:
    """Take all members out of the group, as when their heartbeats had not come."""
    from kafka.admin import MemberToRemove

    with broker.admin() as admin:
        admin.remove_group_members(group, [MemberToRemove(member_id=one) for one in members(broker, group)])


async def test_a_partition_that_was_paused_in_the_middle_of_a_fetch_goes_on_beside_others(
    broker: Broker, topic: str
) -> None:
    produce_traces(broker, topic, range(1, 3001), partition=0)
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic, max_in_flight=20)):
        for round_ in range(6):  # each pauses a few times, with other partitions empty or not
            intake.busy, refused = True, intake.refused
            if len(intake.traces) < 3000:
                await until(lambda refused=refused: intake.refused >= refused + 5, "a pause")
            intake.busy = False
            produce_traces(broker, topic, [10_000 + round_], partition=1 + round_ % 3)
        await until(lambda: len(set(intake.traces)) == 3006, "all messages", 20)


async def test_what_was_lost_is_void_and_comes_again(broker: Broker, topic: str) -> None:
    produce_traces(broker, topic, range(1, 11), partition=0)
    intake = RecordingIntake(hold=True)
    async with reading(broker, intake, **options(topic)) as running:
        await until(lambda: len(intake.held) == 10, "all messages")
        intake.settle(2)
        await until(lambda: committed(broker, topic) == 2, "a commit", 5)
        expel(broker, topic)
        await until(lambda: intake.void, "void acks")
        held = list(intake.held)
        await until(lambda: len(intake.batches) >= 18, "the messages again", 40)
        for ack in held[:8]:
            ack.settle()  # too late: nothing is committed for it
        assert len(intake.void) >= 8
        del intake.held[:8]
        intake.settle()
        await until(lambda: committed(broker, topic) == 10, "the commit of all", 10)
        assert total(running.runtime.metrics, "ragmonitor_consumer_rebalances_total", kind="lost") == 1


async def test_what_cannot_be_read_is_kept_with_where_it_was_and_why_and_only_then_passed(
    broker: Broker, topic: str
) -> None:
    before = broker.end_offsets(LETTERS)[0]
    produce_traces(broker, topic, [1], partition=0)
    produce(
        broker,
        topic,
        [(key(0xABCDEF << 100), b"\xff garbage"), (b"k", b"\n\x03abc"), (b"k", None), (None, export(2) * 3)],
        partition=0,
    )
    produce_traces(broker, topic, [3], partition=0)
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic, max_spans=2)) as running:
        await until(lambda: committed(broker, topic) == 6, "the commit of all")
        assert intake.traces == [1, 3]
        # A broker that is slow to answer is sent a letter again, which then stands behind a later one.
        found = sorted(letters(broker, before), key=lambda one: int(headers(one)["offset"]))
        assert [headers(one)["offset"] for one in found] == ["1", "2", "4"]
        assert [headers(one)["reason"] for one in found] == ["invalid", "invalid", "too_large"]
        assert {headers(one)["topic"] for one in found} == {topic}
        assert {headers(one)["partition"] for one in found} == {"0"}
        assert found[0].value == b"\xff garbage"
        assert headers(found[0])["trace_id"] == f"{0xABCDEF << 100:032x}"[:16]
        assert [one.value for one in found[1:]] == [b"\n\x03abc", export(2) * 3]
        metrics = running.runtime.metrics
        assert total(metrics, "ragmonitor_dead_letters_total", topic=topic) == 3
        assert total(metrics, "ragmonitor_consumer_messages_total", topic=topic, outcome="empty") == 1


async def test_a_message_of_which_all_is_invalid_is_kept_and_so_is_one_that_brings_out_a_fault(
    broker: Broker, topic: str
) -> None:
    before = broker.end_offsets(LETTERS)[0]
    intake = RecordingIntake()
    intake.reject = 1
    async with reading(broker, intake, **options(topic)):
        produce_traces(broker, topic, [1], partition=0)
        await until(lambda: committed(broker, topic) == 1, "the commit")
        intake.reject, intake.fault = 0, RuntimeError("a fault of ours")
        produce_traces(broker, topic, [2], partition=0)
        await until(lambda: committed(broker, topic) == 2, "the commit")
        assert [headers(one)["reason"] for one in letters(broker, before)] == ["rejected", "fault"]


async def test_a_batch_whose_checksum_fails_is_stepped_over_as_a_whole_and_noted(broker: Broker, topic: str) -> None:
    before = broker.end_offsets(LETTERS)[0]
    for batch in ((1, 2, 3), (11, 12, 13, 14, 15), (21, 22)):
        produce_traces(broker, topic, batch, partition=0, linger_ms=30_000)
    produce_traces(broker, topic, range(31, 34), partition=1)
    broker.stop()
    segment = broker.segment(topic)
    content = segment.read_bytes()
    assert content.count(key(13)) == 1
    segment.write_bytes(content.replace(key(13), b"x" * 32))
    broker.start()
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic)) as running:
        await until(lambda: committed(broker, topic) == 13, "the commit of all")
        assert sorted(intake.traces) == [1, 2, 3, 21, 22, 31, 32, 33]
        (letter,) = letters(broker, before)
        told = headers(letter)
        assert (told["offset"], told["last_offset"], told["reason"]) == ("3", "7", "checksum")
        assert letter.value == b""
        assert not total(running.runtime.metrics, "ragmonitor_consumer_rebuilds_total")


async def test_batches_with_a_right_checksum_that_no_one_can_read_are_told_apart(broker: Broker, topic: str) -> None:
    """One with a compression that is not installed, one whose records are nonsense, a good one between them."""
    before = broker.end_offsets(LETTERS)[0]
    for first in (1, 11, 21, 31):
        produce_traces(broker, topic, range(first, first + 4), partition=0, linger_ms=30_000)
    broker.stop()
    path = broker.segment(topic)
    segment = bytearray(path.read_bytes())
    first, _, third, _ = (batch.at for batch in batches(bytes(segment)))
    segment[first + 22] |= 2  # the low bits of the attributes: snappy
    segment[third + 61 : third + 66] = b"\xff" * 5  # the length of the first record
    for position in (first, third):
        length = int.from_bytes(segment[position + 8 : position + 12])
        checksum = calc_crc32c(bytes(segment[position + 21 : position + 12 + length]))
        segment[position + 17 : position + 21] = checksum.to_bytes(4)
    path.write_bytes(segment)
    broker.start()
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic)) as running:
        await until(lambda: committed(broker, topic) == 16, "the commit of all")
        assert sorted(intake.traces) == [*range(11, 15), *range(31, 35)]
        told = [headers(one) for one in letters(broker, before)]
        assert [(one["offset"], one["last_offset"]) for one in told] == [("0", "3"), ("8", "11")]
        assert told[0]["reason"] == "codec"
        assert told[1]["reason"] in ("checksum", "batch")
        assert not total(running.runtime.metrics, "ragmonitor_consumer_rebuilds_total")


async def test_a_damaged_batch_at_the_end_of_a_topic_holds_nothing_up(broker: Broker, topic: str) -> None:
    produce_traces(broker, topic, (1, 2), partition=0, linger_ms=30_000)
    broker.stop()
    segment = broker.segment(topic)
    segment.write_bytes(segment.read_bytes().replace(key(2), b"x" * 32))
    broker.start()
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic)):
        await until(lambda: committed(broker, topic) == 2, "the commit of all")
        produce_traces(broker, topic, [3], partition=0)
        await until(lambda: intake.traces == [3], "what comes after it")


async def test_while_dead_letters_cannot_be_written_reading_goes_on_and_the_offset_waits(
    broker: Broker, topic: str
) -> None:
    produce(broker, topic, [(None, b"\xff")], partition=0)
    produce_traces(broker, topic, range(1, 51), partition=0)
    intake, own = RecordingIntake(), f"{topic}-letters"
    async with reading(broker, intake, **options(topic, dead_letters=own), ready=False) as running:
        await until(lambda: len(intake.batches) == 50, "the others")
        missing = {"event": "kafka_topic_missing"}
        await until(lambda: total(running.runtime.metrics, "ragmonitor_events_total", **missing), "a failed attempt")
        assert committed(broker, topic) == 0
        assert not running.address
        broker.create_topics(own, partitions=1)
        await until(lambda: committed(broker, topic) == 51, "the commit of all")
        await until(lambda: running.address, "readiness")
    assert broker.end_offsets(own) == {0: 1}


async def test_topics_that_are_not_there_are_waited_for_and_never_made(broker: Broker) -> None:
    name = f"later-{next(_numbers)}"
    intake = RecordingIntake()
    async with reading(broker, intake, **options(name), ready=False) as running:
        missing = "ragmonitor_events_total"
        metrics = running.runtime.metrics
        await until(lambda: total(metrics, missing, event="kafka_topic_missing") == 1, "the event")
        assert not running.address
        with broker.admin() as admin:
            assert name not in admin.list_topics()
        broker.create_topics(name, partitions=2)
        produce_traces(broker, name, [1, 2])
        await until(lambda: running.address, "readiness")
        await until(lambda: len(intake.batches) == 2, "the messages")
        assert total(metrics, missing, event="kafka_topic_missing") == 1


async def test_an_outage_is_said_once_and_loses_nothing(broker: Broker, topic: str) -> None:
    produce_traces(broker, topic, range(1, 51))
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic)) as running:
        await until(lambda: len(intake.batches) == 50, "the first messages")
        await anyio.to_thread.run_sync(broker.stop)
        metrics, events = running.runtime.metrics, "ragmonitor_events_total"
        await until(lambda: total(metrics, events, event="kafka_unreachable") == 1, "the event", 60)
        await anyio.to_thread.run_sync(broker.start)
        produce_traces(broker, topic, range(51, 101))
        await until(lambda: set(intake.traces) == set(range(1, 101)), "all messages", 60)
        await until(lambda: committed(broker, topic) == 100, "the commit of all", 20)
        await until(lambda: total(metrics, events, event="kafka_back") == 1, "the end of the outage")
        assert total(metrics, events, event="kafka_unreachable") == 1


async def test_what_retention_deleted_unread_is_counted(broker: Broker, topic: str) -> None:
    produce_traces(broker, topic, range(1, 11), partition=0)
    at = TopicPartition(topic, 0)
    with broker.admin() as admin:
        admin.alter_group_offsets(topic, {at: OffsetAndMetadata(2, "", -1)})
        admin.delete_records({at: 5})
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic)) as running:
        await until(lambda: committed(broker, topic) == 10, "the commit of all")
        assert intake.traces == [6, 7, 8, 9, 10]
        assert total(running.runtime.metrics, "ragmonitor_consumer_expired_messages_total", topic=topic) == 3


async def test_a_topic_that_was_made_anew_is_read_from_its_begin(broker: Broker, topic: str) -> None:
    produce_traces(broker, topic, range(1, 11), partition=0)
    with broker.admin() as admin:
        admin.alter_group_offsets(topic, {TopicPartition(topic, 0): OffsetAndMetadata(1_000, "", -1)})
    intake = RecordingIntake()
    async with reading(broker, intake, **options(topic)):
        await until(lambda: committed(broker, topic) == 10, "the commit of all")
        assert intake.traces == list(range(1, 11))


async def test_a_restart_of_a_static_member_moves_no_partition(broker: Broker, topic: str) -> None:
    stays, restarts = RecordingIntake(), RecordingIntake()
    more = options(topic, session_timeout="20s")
    async with reading(broker, stays, **more, group_instance_id="stays") as one:
        async with reading(broker, restarts, **more, group_instance_id="restarts"):
            await until(lambda: one.runtime.share.value == 0.5, "a half each")
        produce_traces(broker, topic, range(1, 101))
        before = total(one.runtime.metrics, "ragmonitor_consumer_rebalances_total")
        async with reading(broker, restarts, **more, group_instance_id="restarts") as again:
            await until(lambda: again.runtime.share.value == 0.5, "its half again")
            await until(lambda: set(stays.traces) | set(restarts.traces) == set(range(1, 101)), "all messages")
            assert one.runtime.share.value == 0.5
            assert total(one.runtime.metrics, "ragmonitor_consumer_rebalances_total") == before


async def test_two_replicas_with_one_instance_name_say_so(broker: Broker, topic: str) -> None:
    intakes = RecordingIntake(), RecordingIntake()
    same = options(topic, group_instance_id="same")
    async with reading(broker, intakes[0], **same) as one, reading(broker, intakes[1], **same):
        rebuilds = "ragmonitor_consumer_rebuilds_total"
        for traces in itertools.count():
            produce_traces(broker, topic, [traces + 1])
            await anyio.sleep(0.5)
            if total(one.runtime.metrics, rebuilds, reason="fenced"):
                break
            assert traces < 60 * PATIENCE


async def test_stopping_commits_what_is_done_and_leaves_though_some_is_not(broker: Broker, topic: str) -> None:
    produce_traces(broker, topic, range(1, 41), partition=1)
    intake = RecordingIntake(hold=True)
    async with reading(broker, intake, **options(topic)) as running:
        await until(lambda: len(intake.held) == 40, "all messages")
        intake.settle(25)
        running.stop.set()
        with anyio.fail_after(120):
            await running.stopped.wait()
    assert committed(broker, topic) == 25
    assert len(intake.void) == 15
    assert not members(broker, topic)


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
async def test_a_name_and_a_password_over_tls(secure: Broker, mechanism: str, request: pytest.FixtureRequest) -> None:
    name = f"secure-{next(_numbers)}"
    secure.create_topics(name, partitions=1)
    produce_traces(secure, name, [1])
    intake = RecordingIntake()
    authority: Authority = request.getfixturevalue("authority")
    sasl = {"mechanism": mechanism, "username": USER, "password": PASSWORD}
    tls = {"ca_file": str(authority.ca)}
    async with reading(secure, intake, **options(name, brokers=secure.secure, sasl=sasl, tls=tls)):
        await until(lambda: intake.traces == [1], "the message")


async def test_a_wrong_password_is_said_and_nothing_is_read(
    secure: Broker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the broker hangs up before the client has read its answer, it is said as a possibility."""
    name = f"secure-{next(_numbers)}"
    secure.create_topics(name, partitions=1)
    sasl = {"mechanism": "scram-sha-512", "username": USER, "password": "wrong"}
    tls = {"ca_file": str(authority.ca)}
    more = options(name, brokers=secure.secure, sasl=sasl, tls=tls)
    async with reading(secure, RecordingIntake(), **more, ready=False) as running:
        rebuilds = "ragmonitor_consumer_rebuilds_total"
        await until(lambda: total(running.runtime.metrics, rebuilds), "the count", 40)
        assert re.search("invalid credentials|a wrong password", caplog.text)
        assert not running.address


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("secure"), authority=authority) as running:
        running.create_topics(LETTERS, partitions=1)
        yield running


async def test_a_killed_monitor_whose_disk_is_gone_loses_no_trace(broker: Broker, topic: str, tmp_path: Path) -> None:
    """SIGKILL in the middle; the next process knows only what the group has committed."""
    sent = [trace_id(7, number) for number in range(150)]

    def send(traces: list[str]) -> None:
        produce(broker, topic, [(one.encode(), rag_trace(one).SerializeToString()) for one in traces])

    send(sent[:75])
    monitors = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        monitors.append(
            MonitorProcess(
                folder,
                {
                    "sources": [{"type": "kafka", "brokers": broker.address, **options(topic, session_timeout="6s")}],
                    # The first one is killed before any of the second half is complete.
                    "assembly": {"grace_period": "6s" if number == 1 else "1s", "idle_timeout": "8s"},
                },
            )
        )
        monitors[-1].config["sinks"].append({"type": "jsonl", "path": str(folder / "results.jsonl")})

    def judged() -> set[str]:
        files = [one.folder / "results.jsonl" for one in monitors]
        return {json.loads(line)["trace_id"] for one in files if one.exists() for line in one.read_text().splitlines()}

    def kill_amid_and_go_on() -> None:
        with monitors[0] as first:
            wait_until(lambda: committed(broker, topic) == 75, 20, "the commit of the first half")
            wait_until(lambda: len(judged()) == 75, 20, "their results in the file, which follows the history")
            send(sent[75:])
            wait_until(lambda: first.total("ragmonitor_traces_received_total") > 75, 20, "more traces")
            first.kill()
        assert 75 <= committed(broker, topic) < len(sent)
        with monitors[1] as second:
            send(late)
            wait_until(lambda: judged() == {*sent, *late}, 40, "a verdict for each trace")
            wait_until(lambda: committed(broker, topic) == len(sent) + len(late), 10, "the commit of all")
            assert_balanced(second.samples())
            assert second.terminate() == 0

    late = [trace_id(8, number) for number in range(20)]
    await anyio.to_thread.run_sync(kill_amid_and_go_on)


async def test_replicas_share_the_traces_and_each_ledger_balances(broker: Broker, topic: str, tmp_path: Path) -> None:
    """A second replica comes, the first one goes, in order: both can be asked what became of each trace."""
    monitors = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = {
            "type": "kafka",
            "brokers": broker.address,
            **options(topic, session_timeout="6s", revoke_timeout="500ms"),
        }
        monitors.append(
            MonitorProcess(folder, {"sources": [source], "assembly": {"grace_period": "1s", "idle_timeout": "2s"}})
        )
        monitors[-1].config["sinks"].append({"type": "jsonl", "path": str(folder / "results.jsonl")})
    sent = [trace_id(9, number) for number in range(240)]

    def send(traces: list[str]) -> None:
        produce(broker, topic, [(one.encode(), rag_trace(one).SerializeToString()) for one in traces])

    def judged() -> set[str]:
        files = [one.folder / "results.jsonl" for one in monitors]
        return {json.loads(line)["trace_id"] for one in files if one.exists() for line in one.read_text().splitlines()}

    def come_and_go() -> None:
        with monitors[0] as first:
            send(sent[:80])
            wait_until(lambda: first.total("ragmonitor_traces_received_total"), 20, "the first traces")
            with monitors[1] as second:
                send(sent[80:160])
                partitions = "ragmonitor_consumer_assigned_partitions"
                wait_until(lambda: first.total(partitions) == second.total(partitions) == 2, 20, "two partitions each")
                wait_until(lambda: judged() == set(sent[:160]), 30, "a verdict for each trace")
                assert_balanced(first.samples())
                send(sent[160:])
                assert first.terminate(12) == 0
                wait_until(lambda: judged() == set(sent), 30, "a verdict for each trace")
                wait_until(lambda: committed(broker, topic) == len(sent), 10, "the commit of all")
                wait_until(lambda: second.total(partitions) == 4, 20, "all partitions at the one that stayed")
                assert_balanced(second.samples())
                assert second.terminate(12) == 0

    await anyio.to_thread.run_sync(come_and_go)
