"""Pass the spans, log records or rows in Kafka messages to the intake; unreadable messages become dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import anyio
import anyio.lowlevel

from monitor.errors import InvalidData, Overloaded, TooLarge
from monitor.extraction import rows
from monitor.model.ack import Ack
from monitor.model.row import SOURCE, Row, RowBatch
from monitor.model.span import EncodedGroup, RefusedGroup, SpanBatch
from monitor.sources._kafka_topics import Topic
from monitor.stages import Intake, Runtime
from monitor.telemetry.events import Event
from monitor.transport.kafka.consumer import Consumer, Partition, Unreadable
from monitor.transport.kafka.dead_letters import DeadLetters, Letter
from monitor.transport.otlp import json_mapping, limits, wire

_NAME: Final = "kafka"
_LARGE: Final = 256 * 1024  # reading more than this would keep other tasks on the event loop waiting
_AGAIN: Final = 0.2
_MESSAGES_AT_ONCE: Final = 32
_BYTES_AT_ONCE: Final = 512 * 1024
_MOST_NAMES: Final = 50
"""Maximum names of unread fields logged per topic."""
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")


class Bounds(NamedTuple):
    """The maximum number of items (spans, log records, rows) in a message, size of an item, size of a resource or
    scope, and number of unfinished messages.
    """

    items: int
    item_bytes: int
    resource_bytes: int
    unfinished: int


class _CutMessage(NamedTuple):
    """The groups of a message, and its spans or log records that are too large."""

    groups: Sequence[EncodedGroup]
    oversized: Sequence[RefusedGroup]


class _DroppedMessage(NamedTuple):
    """A message of which head sampling keeps nothing: its groups, and the ack of its offset."""

    record: Any
    groups: Sequence[EncodedGroup]
    ack: Ack


class Messages:
    """Passes messages from a consumer to the intake, in order, each with the ack of its offset.

    Consecutive messages of which head sampling keeps nothing are passed on together, because most of their cost is
    counting them.
    """

    def __init__(
        self,
        consumer: Consumer,
        intake: Intake,
        *,
        letters: DeadLetters,
        topics: Mapping[str, Topic],
        bounds: Bounds,
        runtime: Runtime,
    ) -> None:
        metrics = runtime.metrics
        self._consumer = consumer
        self._intake = intake
        self._letters = letters
        self._topics = topics
        self._signals = {name: topic.signal_of(name) for name, topic in topics.items()}
        self._bounds = bounds
        self._runtime = runtime
        self._taken = {name: metrics.consumer_messages.labels(name, "taken") for name in topics}
        self._empty = {name: metrics.consumer_messages.labels(name, "empty") for name in topics}
        self._since: dict[str, tuple[int, int]] = {}
        self._dropped: list[_DroppedMessage] = []
        self._unkeyed: set[str] = set()
        self._unread = {name: set[str]() for name in topics}
        self._with_unread = {
            name: metrics.consumer_unread_fields.labels(name)
            for name, topic in topics.items()
            if topic.encoding == "case"
        }
        self._bytes = metrics.received_bytes.labels(_NAME)
        self._too_large = {
            "traces": metrics.spans.labels(_NAME, "too_large"),
            "logs": metrics.log_records.labels(_NAME, "too_large"),
        }

    async def run(self) -> None:
        """Take messages until cancelled. Waits while too many are unfinished or the pipeline has no room."""
        try:
            await self._run()
        finally:
            self._count()

    async def _run(self) -> None:
        messages = size = 0
        while True:
            found = self._consumer.pop()
            if found is None or messages >= _MESSAGES_AT_ONCE or size >= _BYTES_AT_ONCE:
                messages = size = 0
                await self._pass_dropped()
                self._count()
                while self._consumer.unfinished >= self._bounds.unfinished:  # noqa: ASYNC110 - settled in many places
                    await anyio.sleep(_AGAIN)
                if found is None:
                    found = await self._consumer.next()
                else:
                    await anyio.lowlevel.checkpoint()
            partition, item = found
            messages += 1
            if type(item) is Unreadable:
                await self._pass_dropped()
                await self._put_aside_unread(partition, item)
            elif not partition.closed:
                await self._take(partition, item)
                size += len(item.value or b"")

    def _count(self) -> None:
        """Count the messages taken since the last call: counting each one would cost as much as splitting it."""
        for topic, (messages, size) in self._since.items():
            self._taken[topic].inc(messages)
            self._bytes.inc(size)
        self._since.clear()

    async def _take(self, partition: Partition, record: Any) -> None:
        ack = partition.offsets.take(record.offset, timestamp=max(record.timestamp, 0) / 1000)
        if record.value is None:
            self._empty[record.topic].inc()
            ack.settle()
            return
        if record.key is None and record.topic not in self._unkeyed:
            self._warn_of_scattering(record.topic)
        parts = self._parts(record)
        if parts is not None and not parts.oversized and self._drops_all(parts.groups):
            self._dropped.append(_DroppedMessage(record, parts.groups, ack))
            return
        await self._pass_dropped()
        await self._take_alone(record, ack, parts)

    def _parts(self, record: Any) -> _CutMessage | None:
        """Split a small message of spans; return None for any other message, and for one that cannot be read."""
        topic = record.topic
        if self._topics[topic].encoding == "case" or self._signals[topic] != "traces" or len(record.value) > _LARGE:
            return None
        try:
            return self._cut(topic, record.value)
        except InvalidData:
            return None

    def _drops_all(self, groups: Sequence[EncodedGroup]) -> bool:
        """Return whether head sampling keeps none of these spans, by trace id; False if any span has a tracestate."""
        last, drops = b"", self._intake.drops
        for group in groups:
            for span in group.items:
                if last and span.startswith(last):
                    continue
                trace_id = wire.plain_trace_id_of(span)
                if not trace_id or not drops(trace_id):
                    return False
                last = wire.beginning(trace_id)
        return bool(last)

    async def _pass_dropped(self) -> None:
        """Pass on the messages of which nothing is kept, in one batch, to be counted."""
        while self._dropped:
            dropped, self._dropped = self._dropped, []
            groups = [group for one in dropped for group in one.groups]
            ack = Ack(partial(_settle, [one.ack for one in dropped]))
            try:
                await self._intake.accept(SpanBatch(_NAME, "traces", groups, ack))
            except Overloaded:
                self._dropped = dropped
                await anyio.sleep(_AGAIN)
                self._dropped = [one for one in dropped if not one.ack.void]
            except Exception:  # noqa: BLE001 - passing them on one by one shows which message is at fault
                for one in dropped:
                    await self._take_alone(one.record, one.ack, None)
            else:
                for one in dropped:
                    self._note_taken(one.record)

    async def _take_alone(self, record: Any, ack: Ack, parts: _CutMessage | None) -> None:
        ack.share()  # one share for the intake, one for us
        while True:
            try:
                await self._deliver(record, ack, parts)
            except Overloaded:
                await anyio.sleep(_AGAIN)
                if ack.void:
                    return
                continue
            except _AllRejected as error:
                await self._put_aside(record, error.reason, str(error), ack)
            except InvalidData as error:
                ack.settle()  # the share that the intake did not take
                await self._put_aside(
                    record, "too_large" if isinstance(error, TooLarge) else "invalid", str(error), ack
                )
            except Exception as error:  # noqa: BLE001 - a message that triggers a bug here must not stop the others
                self._say(record, error)
                ack.settle()
                await self._put_aside(record, "fault", type(error).__name__, ack)
            else:
                self._note_taken(record)
                ack.settle()
            return

    def _note_taken(self, record: Any) -> None:
        messages, size = self._since.get(record.topic, (0, 0))
        self._since[record.topic] = messages + 1, size + len(record.value)

    def _warn_of_scattering(self, topic: str) -> None:
        """Warn once that spans of a trace may go to several replicas, except for rows and with a single replica."""
        if self._topics[topic].encoding == "case" or self._runtime.share.value >= 1:
            return
        self._unkeyed.add(topic)
        self._runtime.events.warning(
            Event.KAFKA_UNKEYED,
            "messages have no key: spans of one trace may reach several replicas and be evaluated as separate"
            " traces; let the Collector partition by trace id",
            source=_NAME,
            topic=topic,
        )

    async def _deliver(self, record: Any, ack: Ack, parts: _CutMessage | None) -> None:
        topic, body = self._topics[record.topic], record.value
        if topic.encoding == "case":
            await self._deliver_rows(record.topic, body, topic.app, ack)
            return
        signal, bounds = self._signals[record.topic], self._bounds
        if parts is None:
            if topic.encoding == "otlp_json" and len(body) > _LARGE:
                body = await asyncio.to_thread(self._to_protobuf, record.topic, body)
                parts = self._cut_protobuf(body)
            else:
                parts = self._cut(record.topic, body)
        groups, refused = parts
        # Even if all are too large: other spans of their traces may have arrived, or may still arrive.
        accepted = await self._intake.accept(SpanBatch(_NAME, signal, groups, ack, refused))
        if refused:
            oversized = sum(len(group.items) for group in refused)
            self._too_large[signal].inc(oversized)
            if not any(group.items for group in groups):
                raise _AllRejected(
                    f"all {oversized} are larger than {bounds.item_bytes} bytes, have too many attributes, or belong to"
                    f" a resource or scope of more than {bounds.resource_bytes} bytes or with too many attributes",
                    "too_large",
                )
        if accepted.rejected and accepted.rejected >= sum(len(group.items) for group in groups):
            raise _AllRejected(accepted.message)

    def _cut(self, topic: str, body: bytes) -> _CutMessage:
        return self._cut_protobuf(
            self._to_protobuf(topic, body) if self._topics[topic].encoding == "otlp_json" else body
        )

    def _to_protobuf(self, topic: str, body: bytes) -> bytes:
        signal = self._signals[topic]
        drops = self._intake.drops if signal == "traces" else None
        return json_mapping.to_protobuf(signal, body, self._bounds.items, drops)

    def _cut_protobuf(self, body: bytes) -> _CutMessage:
        bounds = self._bounds
        return _CutMessage(
            *limits.without_oversized(limits.cut(body, bounds.items), bounds.item_bytes, bounds.resource_bytes)
        )

    async def _deliver_rows(self, topic: str, body: bytes, app: str, ack: Ack) -> None:
        large = len(body) > _LARGE
        found = await asyncio.to_thread(self._read_rows, body, app) if large else self._read_rows(body, app)
        await self._intake.accept(RowBatch(SOURCE, found.rows, len(found.faults), app, ack))
        self._note_unread(topic, found.rows)
        if found.faults and not found.rows:
            raise _AllRejected(found.faults[0].error)

    def _note_unread(self, topic: str, found: Sequence[Row]) -> None:
        """Count the rows with unread fields, and log each name once."""
        rows_with_unread = sum(bool(row.unused) for row in found)
        if not rows_with_unread:
            return
        self._with_unread[topic].inc(rows_with_unread)
        seen = self._unread[topic]
        new = [name for name in dict.fromkeys(name for row in found for name in row.unused) if name not in seen]
        new = new[: _MOST_NAMES - len(seen)]
        if new:
            seen.update(new)
            self._runtime.events.warning(
                Event.KAFKA_FIELDS_UNREAD,
                "rows have fields that are not read; docs/rows.md lists those that are",
                source=_NAME,
                topic=topic,
                fields=", ".join(new),
            )

    def _read_rows(self, body: bytes, app: str) -> rows.ParsedRows:
        json_mapping.check_values(body)
        return rows.take(body, app=app, max_rows=self._bounds.items, max_row_bytes=self._bounds.item_bytes)

    async def _put_aside(self, record: Any, reason: str, error: str, ack: Ack) -> None:
        letter = Letter(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            reason=reason,
            error=error,
            key=record.key,
            value=record.value,
            headers=record.headers or (),
            trace_id=self._trace_id(record),
            timestamp=record.timestamp,
        )
        await self._letters.put(letter, ack)

    async def _put_aside_unread(self, partition: Partition, fault: Unreadable) -> None:
        ack = partition.offsets.take(fault.offset, fault.following)
        letter = Letter(
            topic=partition.topic,
            partition=partition.number,
            offset=fault.offset,
            last_offset=fault.following - 1,
            reason=fault.reason,
            error=fault.error,
        )
        await self._letters.put(letter, ack)

    def _trace_id(self, record: Any) -> str:
        """Return the trace id in hex: the key, if the Collector set it, else the first span's; empty if unknown."""
        key = record.key or b""
        if len(key) == 32 and _HEX.issuperset(key):  # noqa: PLR2004
            return str(key, "ascii").lower()
        if self._topics[record.topic].encoding != "otlp_proto" or self._signals[record.topic] != "traces":
            return ""
        try:
            groups = limits.cut(record.value, self._bounds.items)
        except InvalidData:
            return ""
        return next((wire.trace_id_of(item).hex() for group in groups for item in group.items), "")

    def _say(self, record: Any, error: Exception) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}" if trace is not None else ""
        self._runtime.events.error(
            Event.RECEIVER_FAILED,
            f"a message failed because of an internal error: {type(error).__name__}",
            source=_NAME,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            where=where,
        )


def _settle(acks: Sequence[Ack]) -> None:
    for ack in acks:
        ack.settle()


class _AllRejected(Exception):  # noqa: N818 - never leaves this module
    """The intake has taken and counted a message but kept none of it; `reason` is for its dead letter."""

    def __init__(self, message: str, reason: str = "rejected") -> None:
        super().__init__(message)
        self.reason = reason
