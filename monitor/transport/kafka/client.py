"""Create kafka-python consumers, and read the private state of them that this package depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import AuthorizationError, KafkaConnectionError, SaslAuthenticationFailedError
from kafka.net.compat import KafkaNetClient

from monitor.clock import Clock

_ASK_MS: Final = 3_000
_ASK_TIMES: Final = 4
_ASK_AT_MOST: Final = 5.0
_ASSIGNORS: Final = {"cooperative": CooperativeStickyAssignor, "range": RangePartitionAssignor}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings of a consumer. Durations in seconds. `client`: brokers, encryption, authentication."""

    client: Mapping[str, Any]
    group: str
    topics: Sequence[str]
    group_instance_id: str | None = None
    assignor: Literal["cooperative", "range"] = "cooperative"
    session_timeout: float = 30.0
    revoke_timeout: float = 2.0
    fetch_max_bytes: int = 16 * 1024**2
    max_partition_fetch_bytes: int = 1024**2
    max_in_flight: int = 2_000
    max_in_flight_bytes: int = 32 * 1024**2
    request_timeout: float = 15.0
    needed: Sequence[str] = ()
    """Topics to write to, which must exist too."""


def make_consumer(settings: ConsumerSettings, clock: Clock) -> Any:
    """Connect a consumer of the group. Raises `KafkaTimeoutError` if no broker answers within ten seconds."""
    made: list[Any] = []

    def client(**options: Any) -> Any:
        made.append(KafkaNetClient(**options))
        return made[0]

    session = int(settings.session_timeout * 1000)
    try:
        return KafkaConsumer(
            **settings.client,
            kafka_client=client,
            group_id=settings.group,
            group_instance_id=settings.group_instance_id,
            partition_assignment_strategy=[_ASSIGNORS[settings.assignor]],
            session_timeout_ms=session,
            heartbeat_interval_ms=min(3_000, session // 4),
            # Limit for a member that is alive but does not poll; our watchdog is faster.
            max_poll_interval_ms=max(60_000, 2 * session),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            check_crcs=True,
            max_poll_records=min(settings.max_in_flight, 500),
            fetch_max_bytes=settings.fetch_max_bytes,
            max_partition_fetch_bytes=settings.max_partition_fetch_bytes,
            request_timeout_ms=int(settings.request_timeout * 1000),
            metadata_max_age_ms=30_000,  # how soon new partitions are noticed
            reconnect_backoff_max_ms=5_000,
            bootstrap_timeout_ms=10_000,
        )
    except Exception as error:
        if not made:
            raise
        cause = _why(made[0], clock)
        made[0].close()  # otherwise its thread and sockets outlive the failure
        if isinstance(cause, KafkaConnectionError) and "sasl_mechanism" in settings.client:
            raise KafkaConnectionError(f"{cause}; a wrong password may look like this, too") from None
        raise cause or error from None


def _why(client: Any, clock: Clock) -> Exception | None:
    """Find out why no broker can be reached: kafka-python logs the cause, and only raises a timeout."""

    async def connect() -> None:
        manager = client._manager  # noqa: SLF001
        for broker in manager.cluster.bootstrap_brokers():
            manager.reset_backoff(broker.node_id)
            await manager.get_connection(broker.node_id, timeout_ms=_ASK_MS, refresh_metadata_on_err=False)

    cause: Exception | None = None
    until = clock.monotonic() + _ASK_AT_MOST
    for _ in range(_ASK_TIMES):
        if clock.monotonic() > until:
            break
        try:
            client._manager.run(connect)  # noqa: SLF001
        except Exception as error:  # noqa: BLE001 - any error says more than the timeout
            cause = error
            if isinstance(error, AuthorizationError | SaslAuthenticationFailedError):
                break  # hence the attempts: a broker that refuses a password may hang up before it says so
    return cause


def make_prober(settings: ConsumerSettings) -> Any:
    """Make a consumer without a group that fetches as little as possible at a time."""
    return KafkaConsumer(
        **settings.client,
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        check_crcs=True,
        fetch_max_bytes=1,
        max_partition_fetch_bytes=1,  # the broker sends at least one whole batch
        fetch_max_wait_ms=100,
        max_poll_records=1,
        request_timeout_ms=int(settings.request_timeout * 1000),
        bootstrap_timeout_ms=5_000,
    )


def known_partitions(consumer: Any, topics: Sequence[str], needed: Sequence[str] = ()) -> dict[str, int]:
    """Return the number of partitions of each topic, 0 if it does not exist; `needed` topics are not read.

    Unknown topics are requested for the next call, because the public API blocks without a limit while no broker
    answers.
    """
    cluster = consumer._cluster  # noqa: SLF001
    for topic in needed:
        cluster.add_topic(topic)
    counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in (*topics, *needed)}
    if not all(counts.values()):
        cluster.request_update()
    return counts


def pending_fault(consumer: Any) -> bool:
    """Return whether the next poll will raise the error of a corrupt batch that follows the last messages.

    No partition may be paused before that poll: kafka-python would forget the error and fetch the batch for ever.
    """
    return consumer._fetcher._next_in_line_exception_metadata is not None  # noqa: SLF001


def clear_slot(consumer: Any) -> None:
    """Call before each poll: otherwise a partition that was paused during a fetch may never be read again.

    kafka-python 3.0.12 resumes such a fetch only while its slot for the current fetch is empty, but leaves a fetch that
    was read to its end in the slot.
    """
    fetcher = consumer._fetcher  # noqa: SLF001
    if fetcher._next_partition_records is not None and not fetcher._next_partition_records:  # noqa: SLF001
        fetcher._next_partition_records = None  # noqa: SLF001
