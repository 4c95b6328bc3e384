"""Connect and close kafka-python's producer clients and look up topics; each outage is logged once."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from monitor.clock import Clock
from monitor.telemetry.events import Event, Events
from monitor.transport.kafka.connection import KafkaConnection, describe, open_client

_CONNECT_AGAIN = 1.0  # seconds
_TOPIC_AGAIN = 2.0
_BOOTSTRAP = 3.0
_ASKING_FOR_A_TOPIC = 0.5
_LINGER = 0.01
_REQUEST = 30.0
_BATCH_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Sending:
    """Options for sending records. Durations in seconds, sizes in bytes.

    `compression` is None for no compression. `largest` is the maximum size of a record before compression.
    """

    delivery_timeout: float = 120.0
    compression: str | None = None
    largest: int = 1024**2


class Clients:
    """Creates kafka-python producers, for use in one thread. No method raises."""

    def __init__(self, connection: KafkaConnection, sending: Sending, events: Events, clock: Clock) -> None:
        self._connection = connection
        self._sending = sending
        self._events = events
        self._clock = clock
        self._connect_at = 0.0
        self._ask_at: dict[str, float] = {}
        self._there: set[str] = set()
        self._told: set[str] = set()

    def connect(self, *, idempotent: bool) -> Any:
        """Create a client; None if no broker can be reached. Tries at most once a second, for up to three seconds."""
        if self._clock.monotonic() < self._connect_at:
            return None
        from kafka import KafkaProducer  # noqa: PLC0415 - a monitor without Kafka does not pay for it

        timeout = self._sending.delivery_timeout
        try:
            client = open_client(
                KafkaProducer,
                **self._connection.client_options(),
                acks="all",
                enable_idempotence=idempotent,
                compression_type=self._sending.compression,
                max_request_size=self._sending.largest,
                batch_size=_BATCH_BYTES,
                linger_ms=int(1000 * _LINGER),
                delivery_timeout_ms=int(1000 * timeout),
                request_timeout_ms=int(1000 * min(_REQUEST, timeout - 2 * _LINGER)),
                max_block_ms=int(1000 * _ASKING_FOR_A_TOPIC),
                bootstrap_timeout_ms=int(1000 * _BOOTSTRAP),
                reconnect_backoff_max_ms=1000,
                allow_auto_create_topics=False,
            )
        except Exception as error:  # noqa: BLE001 - any error is retried
            self._connect_at = self._clock.monotonic() + _CONNECT_AGAIN
            self._say("", "cannot reach any broker; records wait", error)
            return None
        self._there.clear()
        self._good("")
        return client

    def is_there(self, client: Any, topic: str) -> bool:
        """Return whether the topic has partitions. Asks the brokers at most every two seconds."""
        if topic in self._there:
            return True
        if self._clock.monotonic() < self._ask_at.get(topic, 0.0):
            return False
        from kafka.errors import KafkaError  # noqa: PLC0415

        try:
            client.partitions_for(topic)
        except KafkaError as error:
            self._ask_at[topic] = self._clock.monotonic() + _TOPIC_AGAIN
            message = "topic not found: does it exist, and may this user write to it? Records wait"
            self._say(topic, message, error)
            return False
        self._there.add(topic)
        self._good(topic)
        return True

    def missing(self, client: Any, topic: str) -> tuple[str, float]:
        """Return why a record for `topic` cannot be sent now, and how many seconds until an attempt may succeed."""
        now = self._clock.monotonic()
        if client is None:
            return "cannot reach any broker", self._connect_at - now
        return "topic not found", self._ask_at.get(topic, 0.0) - now

    @staticmethod
    def close(client: Any) -> None:
        """Close a client; its unsent records fail. Takes at most about two seconds."""
        if client is None:
            return
        try:
            client.close(timeout=0.5)
        except Exception:  # noqa: BLE001 - it raises if it cannot flush, and then has not ended
            with contextlib.suppress(Exception):
                client._sender.force_close()  # noqa: SLF001 - there is no public way
                client._sender.join(1.0)  # noqa: SLF001

    def _say(self, what: str, message: str, error: Exception) -> None:
        if what not in self._told:
            self._told.add(what)
            fields = {
                "brokers": self._connection.address,
                "error": describe(error),
                **({"topic": what} if what else {}),
            }
            self._events.error(Event.KAFKA_TOPIC_MISSING if what else Event.KAFKA_UNREACHABLE, message, **fields)

    def _good(self, what: str) -> None:
        if what in self._told:
            self._told.discard(what)
            fields = {"brokers": self._connection.address, **({"topic": what} if what else {})}
            self._events.info(Event.KAFKA_BACK, "connected again; waiting records are sent", **fields)
