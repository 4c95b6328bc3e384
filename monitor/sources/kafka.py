"""Apache Kafka: traces, logs and rows out of topics, at least once, as a member of a consumer group."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal, Self

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
    """Reads traces, logs and rows from Apache Kafka. More replicas with the same `group` share the partitions.

    At least once, to the end: an offset is committed when every result of its message, and of all before it, has
    reached every sink. Kafka is the durable store; what a replica leaves behind, another one takes up. Topics are never
    created: those that are read, and the one for dead letters, must be there before the source is ready.
    """

    group: str = Field(default="rag-monitor", min_length=1)
    """The consumer group. It begins at the oldest message when it is new."""

    topics: dict[str, Topic] = Field(default_factory=lambda: {"otlp_spans": Topic(encoding="otlp_proto")}, min_length=1)
    """What is read, as `{name: encoding}`: `otlp_proto` or `otlp_json` as the OpenTelemetry Collector's Kafka exporter
    writes them, `case` for rows (JSON, one or several lines a message). In full: `{name: {encoding, signal, app}}`,
    where `signal` is `traces` or `logs` and `app` stands for rows that name none. `{otlp_spans: otlp_proto}` unless
    given."""

    group_instance_id: str | None = None
    """A name of this replica that stays the same over restarts, such as `${HOSTNAME}` (static membership): a restart
    within `session_timeout` moves no partition. No two replicas may have the same."""

    assignment: Literal["auto", "cooperative", "range"] = "auto"
    """How the group divides partitions. `cooperative` moves only those that change hands. `range` gives partitions of
    the same number, of all topics, to one replica, so that spans and logs of a trace meet; all stop for a moment when
    a replica comes or goes. `auto` is `range` where more than one topic holds traces or logs, else `cooperative`."""

    session_timeout: Duration = Field(default=30.0, ge=1, le=1800)
    """After how long without a sign of life the group gives a replica's partitions to others."""

    revoke_timeout: Duration = Field(default=2.0, ge=0, le=15)
    """How long a partition that is given up in order may take to finish what is in hand; the next replica takes up the
    rest."""

    dead_letters: str | None = "rag-monitor-dead-letters"
    """The topic for messages that cannot be read: as they came, with headers that say from where and why. `null`: they
    are counted and passed over."""

    fetch_max_bytes: Size = Field(default=16 * 1024**2, gt=0)
    """The most that is fetched from one broker at a time."""

    max_partition_fetch_bytes: Size = Field(default=1024**2, gt=0)
    """The most that is fetched from one partition at a time; a larger message still comes."""

    max_in_flight: int = Field(default=2_000, gt=0)
    """Messages fetched and not yet taken by the pipeline. Beyond, partitions are paused."""

    max_in_flight_bytes: Size = Field(default=32 * 1024**2, gt=0)
    """Bytes of messages fetched and not yet taken by the pipeline. Beyond, partitions are paused."""

    max_unfinished: int = Field(default=200_000, gt=0)
    """Messages taken whose offsets cannot be committed yet, because they, or one before them, are not done with.
    Beyond, partitions are paused."""

    max_spans: int = Field(default=10_000, gt=0)
    """The most spans, log records or rows in one message. A message with more cannot be read."""

    max_span_bytes: Size = Field(default=4 * 1024**2, gt=0)
    """The largest single span, log record or row, encoded. A larger one is rejected and counted, its neighbours are
    kept."""

    @field_validator("topics", mode="before")
    @classmethod
    def _written_out(cls, topics: object) -> object:
        return in_full(topics)

    @field_validator("group", "group_instance_id")
    @classmethod
    def _printable(cls, name: str | None) -> str | None:
        if name is not None and not _TOPIC.fullmatch(name):
            raise ValueError(f"{name!r} must be letters, digits, `.`, `_` and `-`, 249 at most")
        return name

    @model_validator(mode="after")
    def _names(self) -> Self:
        for name in (*self.topics, *([self.dead_letters] if self.dead_letters is not None else [])):
            if not _TOPIC.fullmatch(name) or name in (".", ".."):
                raise ValueError(f"{name!r} is not the name of a topic: letters, digits, `.`, `_` and `-`, 249 at most")
        if self.dead_letters in self.topics:
            raise ValueError(f"dead letters cannot be written to {self.dead_letters!r}, which is read")
        return self

    @property
    def assignor(self) -> Literal["cooperative", "range"]:
        """How partitions are divided, decided."""
        if self.assignment != "auto":
            return self.assignment
        return "range" if sum(topic.encoding != "case" for topic in self.topics.values()) > 1 else "cooperative"

    def external_copies(self) -> str:
        """The topics that it reads, and that of dead letters."""
        topics = [*self.topics, *([self.dead_letters] if self.dead_letters is not None else [])]
        return f"kafka {self.address} {', '.join(topics)}: the telemetry itself"

    async def run(self, intake: Intake, runtime: Runtime, listening: Callable[[str], None]) -> None:
        """Read until cancelled, then hand over: finish, commit and leave the group, within six seconds."""
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
        """All of it, until `stop`; being cancelled does not cut it short."""
        from monitor.sources._kafka_messages import Bounds, Messages  # noqa: PLC0415
        from monitor.transport.kafka.consumer import Consumer  # noqa: PLC0415 - kafka-python is slow to import
        from monitor.transport.kafka.dead_letters import DeadLetters  # noqa: PLC0415

        quiet_client()
        with anyio.CancelScope(shield=True):
            async with self._letter_sender(runtime) as sender, anyio.create_task_group() as sending:
                letters = DeadLetters(sender, self.dead_letters, tuple(self.topics), runtime, sending)
                address = f"{', '.join(self.topics)} at {self.address}"
                consumer = Consumer(_NAME, self._settings(), runtime, intake.hand_over, lambda: listening(address))
                bounds = Bounds(self.max_spans, self.max_span_bytes, self.max_unfinished)
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
        """A producer for dead letters, connected with the first of them."""
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
