"""Export the series of a consumer; the series of a partition exist only while this process reads it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from monitor.telemetry.metrics import Metrics
from monitor.transport.kafka.values import Partition

_REBUILDS = ("unreachable", "unauthorised", "fenced", "other_assignment", "poll_stuck", "partition_stuck", "error")


class ConsumerSeries:
    """The series of a consumer. All label sets known in advance are created at 0."""

    def __init__(self, metrics: Metrics, topics: Sequence[str]) -> None:
        self.rebalances = {kind: metrics.consumer_rebalances.labels(kind) for kind in ("assigned", "revoked", "lost")}
        self.rebuilds = {reason: metrics.consumer_rebuilds.labels(reason) for reason in _REBUILDS}
        self.commits = {outcome: metrics.consumer_commits.labels(outcome) for outcome in ("ok", "failed")}
        self.expired = {topic: metrics.consumer_expired.labels(topic) for topic in topics}
        self._partitions = {topic: metrics.consumer_partitions.labels(topic) for topic in topics}
        self._oldest = {topic: metrics.consumer_oldest.labels(topic) for topic in topics}
        self._unfinished = metrics.consumer_unfinished
        self._lag = metrics.consumer_lag
        self._shown: set[Partition] = set()

    def count(self, partitions: Iterable[Partition]) -> None:
        """Set the number of partitions of each topic that this process reads."""
        numbers = dict.fromkeys(self._partitions, 0)
        for one in partitions:
            numbers[one.topic] += 1
        for topic, number in numbers.items():
            self._partitions[topic].set(number)

    def show(self, ends: Sequence[tuple[Partition, int]]) -> None:
        """Set the lag, and the number and age of unfinished messages, from the end offset of each partition."""
        oldest: dict[str, float] = {}
        for one, end in ends:
            self._shown.add(one)
            self._lag.labels(one.topic, str(one.number)).set(max(end - one.offsets.position, 0))
            since = one.offsets.oldest
            if since is not None:
                oldest[one.topic] = min(since, oldest.get(one.topic, since))
        self._unfinished.set(sum(one.offsets.held for one, _ in ends))
        for topic, child in self._oldest.items():
            child.set(oldest.get(topic, 0.0))

    def remove(self, partitions: Iterable[Partition]) -> None:
        """Remove the series of partitions that this process no longer reads: their new reader exports them."""
        for one in partitions:
            if one in self._shown:
                self._shown.discard(one)
                self._lag.remove(one.topic, str(one.number))
