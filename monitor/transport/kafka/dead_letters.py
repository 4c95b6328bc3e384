"""Send unreadable messages to a dead-letter topic, unchanged, with their origin and the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import anyio
from anyio.abc import TaskGroup
from prometheus_client import Counter

from monitor.errors import InvalidData, MonitorError
from monitor.model.ack import Ack
from monitor.stages import Runtime
from monitor.telemetry.events import Event
from monitor.transport.kafka.producer import Producer

REASONS: Final = ("invalid", "too_large", "rejected", "checksum", "codec", "batch", "fault")

_AT_ONCE: Final = 200
_AGAIN: Final = 1.0
_LOG_EVERY: Final = 10.0
_LONGEST_TEXT: Final = 500


class Letter(NamedTuple):
    """A message, or the messages from `offset` to `last_offset`, and why they cannot be read.

    `value` is empty if not even its bytes could be fetched. `trace_id` is hex, empty if unknown; `timestamp` is the
    message's, in milliseconds since 1970.
    """

    topic: str
    partition: int
    offset: int
    reason: str
    error: str = ""
    last_offset: int | None = None
    key: bytes | None = None
    value: bytes = b""
    headers: Sequence[tuple[str, bytes]] = ()
    trace_id: str = ""
    timestamp: int = -1

    def record(self) -> list[tuple[str, bytes]]:
        """Return the headers of the dead letter: those of the message, then its origin and the reason, as text."""
        known = {
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "last_offset": "" if self.last_offset is None else str(self.last_offset),
            "reason": self.reason,
            "error": self.error[:_LONGEST_TEXT],
            "trace_id": self.trace_id[:16],
            "timestamp": "" if self.timestamp < 0 else str(self.timestamp),
        }
        own = [(f"ragmonitor.{name}", text.encode("utf-8", "replace")) for name, text in known.items() if text]
        return [*self.headers, *own]


class DeadLetters:
    """Writes dead letters; a message is settled once its letter is acknowledged.

    While the topic cannot be written, letters wait, and so do the offsets to commit; beyond two hundred letters the
    caller waits too. Without `sender` and `topic`, dead letters are only counted. `sending` runs the tasks that wait
    for acknowledgements.
    """

    def __init__(
        self, sender: Producer | None, topic: str | None, topics: Sequence[str], runtime: Runtime, sending: TaskGroup
    ) -> None:
        self._sender = sender
        self._topic = topic
        self._runtime = runtime
        self._sending = sending
        self._room = anyio.Semaphore(_AT_ONCE)
        self._quiet_until = float("-inf")
        self._unsaid = 0
        metrics = runtime.metrics
        self._reasons = {
            (name, reason): metrics.dead_letters.labels(name, reason) for name in topics for reason in REASONS
        }
        self._kept = {name: metrics.consumer_messages.labels(name, "dead_letter") for name in topics}
        self._discarded = {name: metrics.consumer_messages.labels(name, "discarded") for name in topics}

    async def put(self, letter: Letter, ack: Ack) -> None:
        """Send `letter` in the background, then settle its ack. Waits while too many letters wait."""
        if self._sender is None or self._topic is None:
            self._end(letter, self._discarded[letter.topic], ack)
            return
        await self._room.acquire()
        self._sending.start_soon(self._send, self._sender, self._topic, letter, ack)

    async def _send(self, sender: Producer, topic: str, letter: Letter, ack: Ack) -> None:
        value, headers = letter.value, letter.record()
        ended = self._kept[letter.topic]
        try:
            while not ack.void:  # if it is void, the partition has moved, and its next reader finds the message too
                try:
                    await sender.send(topic, letter.key, value, headers)
                except InvalidData:  # larger than this topic accepts
                    if not value:
                        ended = self._discarded[letter.topic]
                        break
                    value = b""  # no value at all would delete the key in a compacted topic
                    headers = [*letter.record(), ("ragmonitor.body", b"omitted: too large")]
                except MonitorError:
                    await anyio.sleep(_AGAIN)
                else:
                    break
            else:
                return
            self._end(letter, ended, ack)
        finally:
            self._room.release()

    def _end(self, letter: Letter, ended: Counter, ack: Ack) -> None:
        self._reasons[letter.topic, letter.reason].inc()
        ended.inc()
        ack.settle()
        now = self._runtime.clock.monotonic()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        self._quiet_until = now + _LOG_EVERY
        self._runtime.events.warning(
            Event.KAFKA_REFUSED,
            "a message could not be read"
            + ("; it was sent to the dead letters" if ended is self._kept[letter.topic] else ""),
            topic=letter.topic,
            partition=letter.partition,
            offset=letter.offset,
            reason=letter.reason,
            not_logged_before=self._unsaid,
        )
        self._unsaid = 0
