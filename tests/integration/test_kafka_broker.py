"""The real Kafka and the real Collector that the other tests stand on: they do what those tests take for granted."""

from __future__ import annotations

import gc
import urllib.request
from collections import defaultdict

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, KafkaTimeoutError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from monitor.transport.otlp import json_mapping, wire
from tests.support.certificates import Authority
from tests.support.collector import Collector
from tests.support.kafka import PASSWORD, USER, Broker
from tests.support.kafka_traces import Traffic, break_checksum, rag_trace, trace_id
from tests.support.otlp import log_request
from tests.support.tools import wait_until

# kafka-python leaves the socket of a refused connection, and those of a client that could not be made, to the garbage
# collector: it is called while this holds, not in the next test.
pytestmark = pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def swept():
    yield
    gc.collect()


def messages(broker, topic, count, **options):
    """The first `count` messages of all partitions."""
    client = {"bootstrap_servers": broker.address, **options}
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **client)
    try:
        return [message for _, message in zip(range(count), consumer, strict=False)]
    finally:
        consumer.close()


def post(collector, path, request):
    sent = urllib.request.Request(
        f"http://127.0.0.1:{collector.http}/v1/{path}",
        request.SerializeToString(),
        {"Content-Type": "application/x-protobuf"},
    )
    with urllib.request.urlopen(sent, timeout=60) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("compression", [None, "lz4", "zstd", "gzip"])
def test_what_is_produced_is_consumed(kafka, compression):
    topic = f"produced-{compression}"
    kafka.create_topics(topic)
    with Traffic(kafka.address, compression_type=compression) as traffic:
        traffic.traces(topic, 10)
        sent = {(one.partition, one.offset): one.value for one in traffic.sent}
    assert {(one.partition, one.offset): one.value for one in messages(kafka, topic, 10)} == sent
    assert sum(kafka.end_offsets(topic).values()) == 10


def test_topics_are_not_created_by_accident(kafka):
    producer = KafkaProducer(bootstrap_servers=kafka.address, max_block_ms=500)
    with pytest.raises(KafkaError):
        producer.send("nobody-made-this", b"x").get(2)
    producer.close()
    with kafka.admin() as admin:
        assert "nobody-made-this" not in admin.list_topics()


def test_committed_offsets_are_told_by_group(kafka):
    kafka.create_topics("committed", partitions=2)
    with Traffic(kafka.address) as traffic:
        traffic.rows("committed", 20)
    consumer = KafkaConsumer(
        "committed",
        bootstrap_servers=kafka.address,
        group_id="g",
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    for _ in zip(range(20), consumer, strict=False):
        pass
    consumer.commit()
    consumer.close()
    assert kafka.group_offsets("g") == {("committed", at): end for at, end in kafka.end_offsets("committed").items()}
    assert kafka.group_offsets("stranger") == {}


def test_data_and_address_survive_a_stop_and_a_kill(tmp_path):
    with Broker(tmp_path / "kafka") as broker:
        broker.create_topics("kept")
        with Traffic(broker.address) as traffic:
            traffic.rows("kept", 6)
            address, ends = broker.address, broker.end_offsets("kept")
            broker.restart()
            assert broker.end_offsets("kept") == ends
            traffic.rows("kept", 6)
            broker.kill()
            broker.start()
        assert broker.address == address
        assert sum(broker.end_offsets("kept").values()) == 12


def test_a_suspended_broker_answers_again_when_it_is_resumed(tmp_path):
    with Broker(tmp_path / "kafka") as broker:
        broker.create_topics("t")
        producer = KafkaProducer(bootstrap_servers=broker.address)
        producer.send("t", b"before").get(60)
        broker.suspend()
        future = producer.send("t", b"meanwhile")
        with pytest.raises(KafkaTimeoutError):
            future.get(1)
        broker.resume()
        future.get(60)
        producer.close()
        assert sum(broker.end_offsets("t").values()) == 2


def test_a_broken_checksum_is_met_on_fetch_and_can_be_stepped_over(tmp_path):
    with Broker(tmp_path / "kafka") as broker:
        broker.create_topics("t", partitions=1)
        with Traffic(broker.address) as traffic:
            for _ in range(3):
                traffic.rows("t", 1)
        broker.stop()
        assert break_checksum(broker.segment("t"), 1) == range(1, 2)
        broker.start()

        consumer = KafkaConsumer(bootstrap_servers=broker.address, enable_auto_commit=False)
        partition = TopicPartition("t", 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        read, raised = [], []
        while len(read) < 2:
            try:
                read += [message.offset for got in consumer.poll(1000).values() for message in got]
            except CorruptRecordError as error:
                raised.append((consumer.position(partition), str(error)))
                consumer.seek(partition, consumer.position(partition) + 1)
        consumer.close()
        assert read == [0, 2]
        ((position, text),) = raised
        assert position == 1
        assert "TopicPartition(topic='t', partition=0) at offset 1 failed crc check" in text


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_secure_listener_takes_the_password_over_tls(secured, mechanism):
    broker, authority = secured
    options = {
        "bootstrap_servers": broker.secure,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "ssl_cafile": str(authority.ca),
    }
    producer = KafkaProducer(**options, sasl_plain_password=PASSWORD)
    assert producer.send("t", b"x").get(60).offset >= 0
    producer.close()
    with pytest.raises(KafkaError):
        KafkaProducer(**options, sasl_plain_password="wrong", bootstrap_timeout_ms=3000)


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    with Broker(folder / "kafka", authority=authority) as broker:
        broker.create_topics("t", partitions=1)
        yield broker, authority


@pytest.mark.parametrize("encoding", ["otlp_proto", "otlp_json"])
def test_the_collector_writes_a_message_for_each_resource_scope_and_trace_keyed_by_trace(kafka, tmp_path, encoding):
    spans, logs = f"{encoding}-spans", f"{encoding}-logs"
    kafka.create_topics(spans, logs, partitions=4)
    ids = [trace_id(3, number) for number in range(8)]
    export = ExportTraceServiceRequest()
    export.CopyFrom(rag_trace(ids[0]))
    for id_ in ids[1:]:
        export.resource_spans[0].scope_spans[0].spans.extend(rag_trace(id_).resource_spans[0].scope_spans[0].spans)
    # The first trace also has a span of another instrumentation.
    export.resource_spans[0].scope_spans.add().spans.add(trace_id=bytes.fromhex(ids[0]), span_id=b"another!", name="a")
    with Collector(tmp_path, kafka.address, spans=spans, logs=logs, encoding=encoding) as collector:
        post(collector, "traces", export)
        post(collector, "logs", log_request(3))
        wait_until(lambda: sum(kafka.end_offsets(spans).values()) >= 9, 20, "the spans in Kafka")
        wait_until(lambda: sum(kafka.end_offsets(logs).values()) >= 3, 20, "the log records in Kafka")

    partitions, sizes = defaultdict(set), defaultdict(list)
    for message in messages(kafka, spans, 9):
        value = message.value if encoding == "otlp_proto" else json_mapping.to_protobuf("traces", message.value)
        (group,) = wire.split(value)
        assert {wire.trace_id_of(item).hex() for item in group.items} == {message.key.decode()}
        assert message.headers == []
        partitions[message.key.decode()].add(message.partition)
        sizes[message.key.decode()].append(len(group.items))
    assert sizes == {id_: [6, 1] if id_ == ids[0] else [6] for id_ in ids}
    assert all(len(at) == 1 for at in partitions.values())

    for message in messages(kafka, logs, 3):
        value = message.value if encoding == "otlp_proto" else json_mapping.to_protobuf("logs", message.value)
        (resource,) = ExportLogsServiceRequest.FromString(value).resource_logs
        (record,) = resource.scope_logs[0].log_records
        assert message.key.decode() == record.trace_id.hex()


def test_the_collector_without_partitioning_mixes_traces_in_one_message(kafka, tmp_path):
    kafka.create_topics("mixed", "mixed-logs", partitions=2)
    export = rag_trace(trace_id(4, 0))
    export.MergeFrom(rag_trace(trace_id(4, 1)))
    options = {"partition_traces_by_id": False}
    with Collector(tmp_path, kafka.address, spans="mixed", logs="mixed-logs", options=options) as collector:
        post(collector, "traces", export)
        wait_until(lambda: sum(kafka.end_offsets("mixed").values()) == 1, 20, "the spans in Kafka")
    (message,) = messages(kafka, "mixed", 1)
    assert message.key is None
    found = {wire.trace_id_of(item).hex() for group in wire.split(message.value) for item in group.items}
    assert found == {trace_id(4, 0), trace_id(4, 1)}
