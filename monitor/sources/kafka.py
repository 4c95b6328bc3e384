"""Source `kafka`: reads traces, logs and rows from topics, at least once, as a member of a consumer group."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Self

import anyio
from pydantic import Field, field_validator, model_validator

from monitor.quantities import Duration, Size
from monitor.sources._kafka_topics import Topic, in_full
from monitor.stages import Intake, Runtime, Source
from monitor.transport.kafka.connection import KafkaConnection, quiet_client

_NAME: Final = "kafka"
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LETTER_LIMIT: Final = 32 * 1024**2


class KafkaSource(KafkaConnection, Source):
    """Read traces, logs and rows from Apache Kafka. Replicas with the same `group` share the partitions.

    Delivery is at least once: an offset is committed when every result of its message, and of all messages before it,
    is in the history and in the topic of a `kafka` sink. If a replica stops, another continues where it left off. All
    topics must exist; the monitor never creates them.
    """

    group: str = Field(default="rag-monitor", min_length=1)
    """Consumer group. A new group starts at the oldest message."""

    topics: dict[str, Topic] = Field(default_factory=lambda: {"otlp_spans": Topic(encoding="otlp_proto")}, min_length=1)
    """Topics to read, as `{name: encoding}`: `otlp_proto` or `otlp_json` as written by the OpenTelemetry Collector's
    Kafka exporter, `case` for rows (one or more lines of JSON per message). Long form: `{name: {encoding, signal,
    app}}`, where `signal` is `traces` or `logs` and `app` applies to rows without one. Default: `{otlp_spans:
    otlp_proto}`."""

    group_instance_id: str | None = None
    """Name of this replica that survives restarts, such as `${HOSTNAME}` (static membership): a restart within
    `session_timeout` moves no partitions. Must be unique in the group."""

    assignment: Literal["auto", "cooperative", "range"] = "auto"
    """How the group assigns partitions. `cooperative` moves as few as possible. `range` assigns the same partition
    number of all topics to one replica, so that spans and logs of a trace meet; all replicas pause briefly when one
    joins or leaves. `auto` means `range` if more than one topic has traces or logs, else `cooperative`."""

    session_timeout: Duration = Field(default=30.0, ge=1, le=1800)
    """How long a replica may go without a heartbeat before the group reassigns its partitions."""

    revoke_timeout: Duration = Field(default=2.0, ge=0, le=15)
    """How long to finish the messages in progress of a revoked partition; the next replica takes the rest."""

    dead_letters: str | None = "rag-monitor-dead-letters"
    """Topic for messages that cannot be read. They are sent unchanged, with headers for origin and reason. `null`: only
    count and skip them."""

    fetch_max_bytes: Size = Field(default=16 * 1024**2, gt=0, lt=2 * 1024**3)
    """Maximum bytes of one fetch from a broker, below 2 GiB."""

    max_partition_fetch_bytes: Size = Field(default=1024**2, gt=0, lt=2 * 1024**3)
    """Maximum bytes of one fetch from a partition, below 2 GiB. A larger message is still fetched."""

    max_in_flight: int = Field(default=2_000, gt=0)
    """Maximum messages fetched but not yet in the pipeline. Above it, partitions are paused."""

    max_in_flight_bytes: Annotated[Size, Field(gt=0)] = Field(default_factory=lambda: 32 * 1024**2)
    """Maximum bytes of messages fetched but not yet in the pipeline. Above it, partitions are paused. Default: its
    share of `limits.memory`."""

    max_unfinished: int = Field(default=200_000, gt=0)
    """Maximum messages whose offsets cannot be committed yet, because they or earlier ones are unfinished. Above it,
    reading stops until some are finished."""

    max_spans: int = Field(default=10_000, gt=0)
    """Maximum spans, log records or rows in one message. A message with more becomes a dead letter."""

    max_span_bytes: Size = Field(default=4 * 1024**2, gt=0)
    """Maximum encoded size of a span, log record or row. Larger ones are rejected and counted; the rest of the message
    is kept. The trace of a rejected span is incomplete."""

    max_resource_bytes: Size = Field(default=1024**2, gt=0)
    """Maximum encoded size of a resource or a scope. The spans or log records of larger ones are rejected and counted;
    the rest of the message is kept."""

    @field_validator("topics", mode="before")
    @classmethod
    def _written_out(cls, topics: object) -> object:
        return in_full(topics)

    @field_validator("group", "group_instance_id")
    @classmethod
    def _printable(cls, name: str | None) -> str | None:
        if name is not None and not _TOPIC.fullmatch(name):
            raise ValueError(f"{name!r} must be at most 249 letters, digits, `.`, `_` and `-`")
        return name

    @model_validator(mode="after")
    def _names(self) -> Self:
        for name in (*self.topics, *([self.dead_letters] if self.dead_letters is not None else [])):
            if not _TOPIC.fullmatch(name) or name in (".", ".."):
                raise ValueError(f"{name!r} is not a topic name: at most 249 letters, digits, `.`, `_` and `-`")
        if self.dead_letters in self.topics:
            raise ValueError(f"dead_letters: {self.dead_letters!r} is also in `topics`; use another topic")
        return self

    @property
    def assignor(self) -> Literal["cooperative", "range"]:
        """The value of `assignment`, with `auto` resolved."""
        if self.assignment != "auto":
            return self.assignment
        return "range" if sum(topic.encoding != "case" for topic in self.topics.values()) > 1 else "cooperative"

    def reads_at_once(self) -> int:
        """Return the size of a fetch."""
        return self.fetch_max_bytes

    def external_copies(self) -> str:
        """Name the topics that are read, and the dead-letter topic."""
        topics = [*self.topics, *([self.dead_letters] if self.dead_letters is not None else [])]
        return f"kafka {self.address} {', '.join(topics)}: the telemetry itself"

    async def run(self, intake: Intake, runtime: Runtime, listening: Callable[[str], None]) -> None:
        """Read until cancelled, then hand over: finish, commit and leave the group, within five seconds."""
        stop = anyio.Event()
        async with anyio.create_task_group() as work:
            work.start_soon(self._serve, intake, runtime, listening, stop)
            try:
                await anyio.sleep_forever()
            finally:
                stop.set()

    async def _serve(
        self, intake: Intake, runtime: Runtime, listening: Callable[[str], None], stop: anyio.Event
    ) -> None:
        """Run until `stop`; cancellation does not interrupt it."""
        from monitor.sources._kafka_messages import Bounds, Messages  # noqa: PLC0415
        from monitor.transport.kafka.consumer import Consumer  # noqa: PLC0415 - kafka-python is slow to import
        from monitor.transport.kafka.dead_letters import DeadLetters  # noqa: PLC0415

        quiet_client()
        with anyio.CancelScope(shield=True):
            async with self._letter_sender(runtime) as sender, anyio.create_task_group() as sending:
                letters = DeadLetters(sender, self.dead_letters, tuple(self.topics), runtime, sending)
                address = f"{', '.join(self.topics)} at {self.address}"
                consumer = Consumer(_NAME, self._settings(), runtime, intake.hand_over, lambda: listening(address))
                bounds = Bounds(self.max_spans, self.max_span_bytes, self.max_resource_bytes, self.max_unfinished)
                messages = Messages(
                    consumer, intake, letters=letters, topics=self.topics, bounds=bounds, runtime=runtime
                )
                try:
                    async with anyio.create_task_group() as reading:
                        reading.start_soon(consumer.run)
                        reading.start_soon(messages.run)
                        await stop.wait()
                        reading.cancel_scope.cancel()
                finally:
                    await consumer.stop()
                    sending.cancel_scope.cancel()

    def _letter_sender(self, runtime: Runtime) -> Any:
        """Return a producer for dead letters, which connects at the first letter."""
        from contextlib import nullcontext  # noqa: PLC0415

        from monitor.transport.kafka.producer import Sending, open_producer  # noqa: PLC0415

        if self.dead_letters is None:
            return nullcontext()
        return open_producer(self, Sending(delivery_timeout=30.0, largest=_LETTER_LIMIT), runtime, [self.dead_letters])

    def _settings(self) -> Any:
        from monitor.transport.kafka.client import ConsumerSettings  # noqa: PLC0415

        return ConsumerSettings(
            client=self.client_options(),
            group=self.group,
            topics=tuple(self.topics),
            needed=(self.dead_letters,) if self.dead_letters is not None else (),
            group_instance_id=self.group_instance_id,
            assignor=self.assignor,
            session_timeout=self.session_timeout,
            revoke_timeout=self.revoke_timeout,
            fetch_max_bytes=self.fetch_max_bytes,
            max_partition_fetch_bytes=self.max_partition_fetch_bytes,
            max_in_flight=self.max_in_flight,
            max_in_flight_bytes=self.max_in_flight_bytes,
        )
