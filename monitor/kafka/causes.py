"""Why an owner has ended: a closed set of reasons, and what is said of each."""

from __future__ import annotations

from typing import Final

from kafka.errors import AuthorizationError, FencedInstanceIdError, KafkaConnectionError, KafkaTimeoutError
from kafka.errors import SaslAuthenticationFailedError as SaslRefused

from monitor.kafka.values import PartitionStuck
from monitor.telemetry.events import Event

POLL_STUCK: Final = "poll_stuck"

_CAUSES: Final = (
    ("partition_stuck", PartitionStuck),
    ("fenced", FencedInstanceIdError),
    ("unauthorised", (AuthorizationError, SaslRefused)),
    ("unreachable", (KafkaTimeoutError, KafkaConnectionError)),
)

SAID: Final = {
    POLL_STUCK: (Event.KAFKA_POLL_STUCK, "a poll did not return: going on with a new consumer"),
    "partition_stuck": (Event.KAFKA_PARTITION_STUCK, "a partition does not move: going on with a new consumer"),
    "unreachable": (Event.KAFKA_UNREACHABLE, "no broker answers"),
    "unauthorised": (Event.KAFKA_UNREACHABLE, "the brokers refuse this client"),
    "fenced": (Event.KAFKA_REBUILT, "another process has the same `group_instance_id`"),
    "error": (Event.KAFKA_REBUILT, "the consumer failed: going on with a new one"),
}
"""By reason, the event and its words."""


def cause_of(error: BaseException | None) -> str:
    """The reason that stands for what ended an owner."""
    return next((name for name, kinds in _CAUSES if isinstance(error, kinds)), "error")
