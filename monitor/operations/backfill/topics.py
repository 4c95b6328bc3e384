"""Past messages of Kafka topics, merged from all partitions in the order of their timestamps."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple

from monitor.errors import ConfigError
from monitor.operations.progress import Report
from monitor.sources.kafka import KafkaSource
from monitor.transport.kafka.connection import quiet_client

_POLL_MS: Final = 500
_MAX_EMPTY_POLLS: Final = 30
"""Empty polls in a row after which a partition counts as read: its remaining messages have been deleted."""
_AHEAD: Final = 500
"""Messages of a partition that are read ahead, so that one with a wrong timestamp among them is recognised."""
_AHEAD_BYTES: Final = 64 * 1024**2
"""Bytes of messages that are read ahead from all partitions together, in addition to the last fetch of each."""


class Dated(NamedTuple):
    """A message, and the time that all partitions have `reached` with it, in wall-clock seconds.

    No later message is older, unless it comes after the messages that were read ahead.
    """

    reached: float
    record: Any


def read(source: KafkaSource, begin: float, end: float, *, report: Report) -> Generator[Dated]:
    """Yield the messages of all partitions written from `begin` to `end`, up to the current end of each.

    Joins no group and commits no offset. Raises `ConfigError` if the topics cannot be read.
    """
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
        raise ConfigError(f"source: cannot connect to Kafka at {source.address}: {type(error).__name__}") from None
    with closing(consumer):
        try:
            parts = []
            for topic in source.topics:
                numbers = consumer.partitions_for_topic(topic)
                if not numbers:
                    raise ConfigError(f"source: the topic {topic!r} does not exist, or this user may not read it")
                parts += [TopicPartition(topic, number) for number in sorted(numbers)]
            yield from _Partitions(consumer, parts, begin, end, report).merged()
        except KafkaError as error:
            raise ConfigError(f"source: Kafka at {source.address}: {type(error).__name__}: {error}") from None


class _Ahead:
    """The messages of one partition that were read ahead. `size` is in bytes."""

    def __init__(self) -> None:
        self.records: deque[Any] = deque()
        self.size = 0
        self._least: deque[int] = deque()  # timestamps with no smaller one after them: the first is the minimum

    def push(self, record: Any) -> None:
        self.records.append(record)
        self.size += max(record.serialized_value_size, 0)
        while self._least and self._least[-1] > record.timestamp:
            self._least.pop()
        self._least.append(record.timestamp)

    def pop(self) -> Dated:
        record, least = self.records.popleft(), self._least[0]
        self.size -= max(record.serialized_value_size, 0)
        if record.timestamp == least:
            self._least.popleft()
        return Dated(max(least, 0) / 1000, record)


class _Partitions:
    """Reads partitions in step with their timestamps: one that is ahead is paused until the others catch up."""

    def __init__(self, consumer: Any, parts: list[Any], begin: float, end: float, report: Report) -> None:
        self._consumer, self._end, self._report = consumer, end, report
        self._empty = 0
        self._left: dict[Any, int] = {}  # the end offset of each partition that is not read completely
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        starts = consumer.offsets_for_times({part: max(int(begin * 1000), 0) for part in parts})
        for part in parts:
            found = starts.get(part)
            if found is not None and found.offset < ends[part]:
                consumer.seek(part, found.offset)
                self._left[part] = ends[part]
            else:
                consumer.pause(part)
        self._ahead = {part: _Ahead() for part in self._left}
        self._share = _AHEAD_BYTES // max(len(self._left), 1)

    def merged(self) -> Iterator[Dated]:
        """Yield the messages of all partitions, always the one with the earliest `reached` next."""
        return heapq.merge(*[self._messages(part) for part in self._left], key=lambda one: one.reached)

    def _messages(self, part: Any) -> Iterator[Dated]:
        ahead = self._ahead[part]
        while True:
            while self._short(part):
                self._poll()
            if not ahead.records:
                return
            yield ahead.pop()

    def _short(self, part: Any) -> bool:
        ahead = self._ahead[part]
        return part in self._left and len(ahead.records) < _AHEAD and (ahead.size < self._share or not ahead.records)

    def _poll(self) -> None:
        """Poll the partitions of which too little has been read ahead."""
        from monitor.transport.kafka.client import clear_slot  # noqa: PLC0415 - as above

        short = [part for part in self._left if self._short(part)]
        self._consumer.resume(*short)
        clear_slot(self._consumer)
        found = self._consumer.poll(timeout_ms=_POLL_MS)
        for part, records in found.items():
            for record in records:
                # a message beyond `end` does not end the reading: its producer's clock may be ahead
                if record.offset < self._left.get(part, 0) and record.timestamp / 1000 <= self._end:
                    self._ahead[part].push(record)
        for part in short:
            # its last offsets may have no message: transactions, or compaction
            if self._consumer.position(part) >= self._left[part]:
                self._finish(part)
            elif not self._short(part):
                self._consumer.pause(part)
        self._empty = 0 if found else self._empty + 1
        silent = [part for part in short if part in self._left]
        if self._empty >= _MAX_EMPTY_POLLS and silent:
            self._empty = 0
            for part in silent:
                self._finish(part)
            named = "1 partition" if len(silent) == 1 else f"{len(silent)} partitions"
            waited = _MAX_EMPTY_POLLS * _POLL_MS // 1000
            self._report(f"{named} sent no message for {waited} s; the rest was not read")

    def _finish(self, part: Any) -> None:
        del self._left[part]
        self._consumer.pause(part)
