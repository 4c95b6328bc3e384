"""Topics of Kafka once more, for `rag-monitor backfill --from kafka`: by time, outside of the group, from any offset.

Nothing is joined and nothing committed: the monitors of the group go on as if nobody had looked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from monitor import rows
from monitor.cli.backfill_traffic import Replay
from monitor.config import Config
from monitor.errors import ConfigError, InvalidData
from monitor.kafka.connection import quiet_client
from monitor.model.case import Case
from monitor.model.row import SOURCE
from monitor.model.span import SpanBatch
from monitor.otlp import json_mapping, limits
from monitor.sources.kafka import Kafka

_POLL_MS: Final = 500
_PATIENCE: Final = 30
"""Polls in a row that bring nothing before a partition is taken as read: what is left of it was deleted meanwhile."""
_MARGIN: Final = 60.0
"""Seconds beyond the time asked for in which the rest of a request may come."""


def of_kafka(config: Config, since: float, until: float, replay: Replay) -> Iterator[Case]:
    """The cases of all topics that are read. Raises `ConfigError` where there are none, or they cannot be read."""
    sources = [one for one in config.sources if isinstance(one, Kafka)]
    if not sources:
        raise ConfigError("--from kafka: no source of this configuration is of the type `kafka`")
    begin, end = since - config.assembly.max_age, until + _MARGIN
    for source in sources:
        for record in _records(source, begin, end):
            try:
                yield from _of_message(source, record, replay)
            except InvalidData:
                replay.unreadable += 1
    yield from replay.rest()


def _of_message(source: Kafka, record: Any, replay: Replay) -> Iterator[Case]:
    topic, at = source.topics[record.topic], max(record.timestamp, 0) / 1000
    if record.value is None:
        return
    if topic.encoding == "case":
        taken = rows.take(record.value, app=topic.app, at_most=source.max_spans, largest=source.max_span_bytes)
        replay.unreadable += len(taken.faults)
        yield from replay.rows(taken.rows, SOURCE, at)
        return
    signal = topic.signal_of(record.topic)
    body = record.value
    if topic.encoding == "otlp_json":
        body = json_mapping.to_protobuf(signal, body, source.max_spans)
    groups, _ = limits.without_oversized(limits.cut(body, source.max_spans), source.max_span_bytes)
    yield from replay.spans(SpanBatch("kafka", signal, groups), at)


def _records(source: Kafka, begin: float, end: float) -> Iterator[Any]:
    """The messages of all partitions written from `begin` to `end`, up to what is there now. Raises `ConfigError`."""
    from kafka import KafkaConsumer, TopicPartition  # noqa: PLC0415 - slow to import, and few need it
    from kafka.errors import KafkaError  # noqa: PLC0415

    quiet_client()
    try:
        consumer = KafkaConsumer(
            **source.client_options(),
            group_id=None,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            check_crcs=True,
            bootstrap_timeout_ms=10_000,
        )
    except KafkaError as error:
        raise ConfigError(f"--from kafka: {source.address} cannot be used: {type(error).__name__}") from None
    with closing(consumer):
        try:
            parts = []
            for topic in source.topics:
                numbers = consumer.partitions_for_topic(topic)
                if not numbers:
                    raise ConfigError(f"--from kafka: the topic {topic!r} is missing, or this user may not see it")
                parts += [TopicPartition(topic, number) for number in sorted(numbers)]
            yield from _read(consumer, parts, begin, end)
        except KafkaError as error:
            raise ConfigError(f"--from kafka: {source.address}: {type(error).__name__}: {error}") from None


def _read(consumer: Any, parts: list[Any], begin: float, end: float) -> Iterator[Any]:
    consumer.assign(parts)
    ends = consumer.end_offsets(parts)
    starts = consumer.offsets_for_times({part: max(int(begin * 1000), 0) for part in parts})
    left = {}
    for part in parts:
        found = starts.get(part)
        if found is not None and found.offset < ends[part]:
            consumer.seek(part, found.offset)
            left[part] = ends[part]
        else:
            consumer.pause(part)
    silent = 0
    while left and silent < _PATIENCE:
        found = consumer.poll(timeout_ms=_POLL_MS)
        silent = 0 if found else silent + 1
        taken = sorted((one for records in found.values() for one in records), key=lambda one: one.timestamp)
        for record in taken:
            if record.timestamp / 1000 <= end:
                yield record
        for part, records in found.items():
            last = records[-1]
            if part in left and (last.offset + 1 >= left[part] or last.timestamp / 1000 > end):
                del left[part]
                consumer.pause(part)
        for part in [one for one in left if consumer.position(one) >= left[one]]:
            del left[part]  # its last offsets hold no message: transactions, or compaction
            consumer.pause(part)
    if left:
        waited = _PATIENCE * _POLL_MS // 1000
        sys.stderr.write(f"{len(left)} partitions brought no message for {waited} s: the rest of them is not read\n")
