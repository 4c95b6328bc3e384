"""The series of what is read from Apache Kafka, and of what is written to it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class KafkaMetrics:
    """A part of `Metrics`. A partition that moves to another replica takes its series along."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.consumer_lag = Gauge(
            "ragmonitor_consumer_lag_messages",
            "Messages of a partition that nobody has taken up yet: its end less the next one to take. Only partitions"
            " assigned to this replica have a series, so the sum over replicas is the group's.",
            ("topic", "partition"),
            registry=r,
        )
        self.consumer_unfinished = Gauge(
            "ragmonitor_consumer_unfinished_messages",
            "Messages from the offset that may be committed on: taken and not done with, or behind one that is not.",
            registry=r,
        )
        self.consumer_oldest = Gauge(
            "ragmonitor_consumer_oldest_pending_timestamp_seconds",
            "When the oldest message that is not yet done with was written, as its topic says; 0 when there is none.",
            ("topic",),
            registry=r,
        )
        self.consumer_partitions = Gauge(
            "ragmonitor_consumer_assigned_partitions",
            "Partitions assigned to this replica.",
            ("topic",),
            registry=r,
        )
        self.consumer_messages = Counter(
            "ragmonitor_consumer_messages",
            "Messages by what became of them: taken, empty (no value), dead_letter, discarded (the same where no topic"
            " for dead letters is configured).",
            ("topic", "outcome"),
            registry=r,
        )
        self.consumer_rebalances = Counter(
            "ragmonitor_consumer_rebalances",
            "Changes of the assignment: assigned, revoked (given up in order), lost (taken away).",
            ("kind",),
            registry=r,
        )
        self.consumer_rebuilds = Counter(
            "ragmonitor_consumer_rebuilds",
            "Consumers given up for a new one: unreachable, unauthorised, fenced, poll_stuck, partition_stuck, error.",
            ("reason",),
            registry=r,
        )
        self.consumer_commits = Counter(
            "ragmonitor_consumer_commits",
            "Commits of offsets by outcome: ok, failed. What a failed one said, the next one says again.",
            ("outcome",),
            registry=r,
        )
        self.consumer_expired = Counter(
            "ragmonitor_consumer_expired_messages",
            "Messages that the topic's retention deleted before they were read.",
            ("topic",),
            registry=r,
        )
        self.dead_letters = Counter(
            "ragmonitor_dead_letters",
            "Messages that could not be read, by the topic they came from and why: invalid, too_large, rejected,"
            " checksum, codec, batch, fault. Also those that no topic for dead letters kept.",
            ("topic", "reason"),
            registry=r,
        )
        self.producer_records = Counter(
            "ragmonitor_producer_records",
            "Records sent to Kafka (results, dead letters), by what became of them: delivered (all in-sync replicas"
            " have it), refused (it can never be sent), failed (no acknowledgement in time).",
            ("topic", "outcome"),
            registry=r,
        )
        self.producer_seconds = Histogram(
            "ragmonitor_producer_delivery_seconds",
            "How long a record took from being handed over to its acknowledgement.",
            ("topic",),
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=r,
        )
