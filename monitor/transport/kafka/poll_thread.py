"""Run the poll thread, the only thread that uses its consumer: poll, commit, pause, and answer the group.

Messages go to the event loop in order; the event loop replies through plain attributes, each written by one side only.
The thread lives until it is stopped, fails or is abandoned; then a new one is started.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from kafka.errors import KafkaError

from monitor.clock import Clock
from monitor.transport.kafka import corrupt_batches
from monitor.transport.kafka.client import ConsumerSettings, clear_slot, known_partitions, make_consumer, pending_fault
from monitor.transport.kafka.group import LAST_COMMIT_MS, Commits, RebalanceListener, pause_for
from monitor.transport.kafka.values import Flow, GroupMember, GroupStatus, Partition, PartitionStuck, Passed, Unreadable

_POLL_MS: Final = 200
_ROUND_TRIP_MS: Final = 3_000
_COMMIT_EVERY: Final = 1.0
_LOOK_EVERY: Final = 1.0
_ASK_EVERY: Final = 3.0
_ASK_MS: Final = 2_000
_ASK_AGAIN: Final = 30.0  # if no broker answered: each attempt holds up reading
_GAPS_AT_MOST: Final = 1_000
_STUCK_AFTER: Final = 60.0
_NO_ANSWER: Final = (KafkaError, AttributeError)
"""kafka-python's errors for offsets that are not available now; the second is raised if a partition has no leader."""


class Owner:
    """See the module. The event loop writes `quiet` (fetch nothing), `over` (reports are ignored) and `stop`."""

    def __init__(
        self, settings: ConsumerSettings, group: GroupMember, clock: Clock, call: Callable[..., object]
    ) -> None:
        self._settings = settings
        self._group = group
        self._clock = clock
        self._call = call
        self._assigned: dict[Any, Partition] = {}
        self._commits = Commits(
            self._assigned, partial(self.post, group.committed), clock, request_timeout=settings.request_timeout
        )
        self._new: set[Any] = set()
        self._flow = Flow()
        self._holding = False
        self._unanswered = 0
        self._gaps: dict[Any, list[tuple[int, int]]] = {}
        self._commit_at = self._look_at = self._ask_at = self._explain_at = 0.0
        self._consumer: Any = None
        self._thread = threading.Thread(target=self._run, name="kafka-owner", daemon=True)
        self.polled_at = clock.monotonic()
        self.quiet = False
        self.stop = threading.Event()
        self.over = False
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def start(self) -> None:
        """Start the thread, which then connects."""
        self._thread.start()

    def abandon(self) -> None:
        """Give up a thread that hangs. Its member leaves the group, if its client still responds."""
        self.over = True
        self.stop.set()
        consumer = self._consumer
        if consumer is not None:
            threading.Thread(target=_close_from_outside, args=(consumer,), daemon=True).start()

    # -- the thread

    def _run(self) -> None:
        try:
            self._consumer = consumer = make_consumer(self._settings, self._clock)
            self._answered(None)
            try:
                consumer.subscribe(list(self._settings.topics), listener=RebalanceListener(self))
                while not self.stop.is_set():
                    self._turn(consumer)
                self._commits.finish(consumer)
            finally:
                self._assigned.clear()  # because closing revokes all partitions again
                with contextlib.suppress(Exception):  # the first error is the one to report
                    consumer.close(timeout_ms=LAST_COMMIT_MS)
        except BaseException as error:  # noqa: BLE001 - the event loop reports every error
            self.error = error
        finally:
            self.ended.set()

    def _turn(self, consumer: Any) -> None:
        self.polled_at = self._clock.monotonic()
        if not pending_fault(consumer):
            self._pause(consumer)
        clear_slot(consumer)
        try:
            found = consumer.poll(timeout_ms=_POLL_MS)
        except Exception as error:  # noqa: BLE001 - a corrupt batch may raise any class
            self._step_over(consumer, error)
            return
        now = self._clock.monotonic()
        if found:
            self._hand_on(found, now)
        if self._new:
            self._begin(consumer, now)
        if now >= self._commit_at:
            self._commit_at = now + _COMMIT_EVERY
            self._commits.begin(consumer, now)
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            self._look(consumer, now)
        if self._gaps and now >= self._explain_at:
            self._explain_gaps(consumer)

    def _pause(self, consumer: Any) -> None:
        """Pause partitions that must wait: all while too much is in flight, new ones until their start is known."""
        messages, size = self._flow.messages, self._flow.size
        share = 2 if self._holding else 1  # once paused, half of it must be accepted before more is fetched
        limits = self._settings
        self._holding = messages > limits.max_in_flight // share or size > limits.max_in_flight_bytes // share
        waiting = set(self._assigned) if self._holding or self.quiet else set()
        waiting |= self._new
        paused = consumer.paused()
        if paused != waiting:
            assigned = consumer.assignment()
            consumer.pause(*(waiting & assigned - paused))
            consumer.resume(*(paused - waiting))

    def _hand_on(self, found: dict[Any, list[Any]], now: float) -> None:
        sent: list[tuple[Partition, list[Any]]] = []
        for at, records in found.items():
            partition = self._assigned.get(at)
            if partition is None or not records:
                continue
            if records[0].offset < partition.position:
                raise ValueError(
                    f"{at.topic}/{at.partition} went back from offset {partition.position}: was the topic recreated?"
                )
            self._note_gap(partition, records[0].offset)
            partition.moved(records[-1].offset + 1, now)
            self._flow.sent += len(records)
            self._flow.sent_bytes += sum([len(one.value) for one in records if one.value is not None])
            sent.append((partition, records))
        if sent:
            self.post(self._group.arrived, self._flow, sent)

    def _step_over(self, consumer: Any, error: Exception) -> None:
        """Skip a corrupt batch and report it. Raises `error` if it has another cause."""
        at = corrupt_batches.partition_of(consumer, error)
        partition = self._assigned.get(at)
        if partition is None:
            raise error
        offset = consumer.position(at, timeout_ms=_ROUND_TRIP_MS)
        following = corrupt_batches.end_of(self._settings, at, offset)
        if following <= offset:
            raise error
        consumer.seek(at, following)
        self._note_gap(partition, offset)
        partition.moved(following, self._clock.monotonic())
        self._flow.sent += 1
        fault = Unreadable(offset, following, corrupt_batches.reason_of(error), f"{type(error).__name__}: {error}")
        self.post(self._group.arrived, self._flow, [(partition, [fault])])

    # -- gaps

    def _note_gap(self, partition: Partition, offset: int) -> None:
        """Record that nothing arrived between the partition's position and `offset`."""
        if offset > partition.position:
            gaps = self._gaps.setdefault(partition.at, [])
            if len(gaps) < _GAPS_AT_MOST:
                gaps.append((partition.position, offset))

    def _explain_gaps(self, consumer: Any) -> None:
        """Report the part of the gaps that the topic's retention deleted, which kafka-python skips silently.

        Compaction and the ends of transactions leave gaps too, but not before the first offset of the topic.
        """
        try:
            earliest = consumer.beginning_offsets(list(self._gaps), timeout_ms=_ASK_MS)
        except _NO_ANSWER as error:
            self._explain_at = self._clock.monotonic() + _ASK_AGAIN
            self._answered(error)
            return
        self._explain_at = self._clock.monotonic() + _ASK_EVERY
        self._answered(None)
        for at, gaps in self._gaps.items():
            if expired := sum(max(min(end, earliest[at]) - start, 0) for start, end in gaps):
                self.post(self._group.expired, at.topic, expired)
        self._gaps.clear()

    # -- the group

    def place_later(self, places: Iterable[Any]) -> None:
        """Record newly assigned partitions: nothing is fetched from them until their start is known."""
        new = set(places)
        self._new |= new
        if self._consumer is not None and new:
            self._consumer.pause(*new)

    def _begin(self, consumer: Any, now: float) -> None:
        """Start newly assigned partitions at the group's committed offsets, ignoring this client's own positions."""
        places = sorted(self._new)
        try:
            earliest = consumer.beginning_offsets(places, timeout_ms=_ROUND_TRIP_MS)
            ends = consumer.end_offsets(places, timeout_ms=_ROUND_TRIP_MS)
            committed = {at: consumer.committed(at, timeout_ms=_ROUND_TRIP_MS) for at in places}
        except _NO_ANSWER as error:
            self._answered(error)
            return
        begun = []
        for at in places:
            start = committed[at]
            if start is None or start > ends[at]:  # the first start, or the topic was recreated
                start = earliest[at]
            elif start < earliest[at]:
                self.post(self._group.expired, at.topic, earliest[at] - start)
                start = earliest[at]
            consumer.seek(at, start)
            begun.append(Partition(at, start, now))
        self._new.clear()
        self._assigned.update((one.at, one) for one in begun)
        self._answered(None)
        self.post(self._group.assigned, begun)

    async def give_up(self, places: Iterable[Any]) -> None:
        """Give partitions up to another member: finish messages that can finish soon, commit, drop the rest."""
        self._new -= set(places)
        partitions = self._drop(places)
        if not partitions:
            return
        answered = threading.Event()
        self.post(self._group.give_up, partitions, answered)
        await pause_for(answered.is_set, self._settings.revoke_timeout + 1.0, self._clock)
        if answered.is_set():
            await self._commits.last_of(self._consumer, partitions)

    async def lose(self, places: Iterable[Any]) -> None:
        """Drop partitions that another member already has: it is too late to commit."""
        self._new -= set(places)
        partitions = self._drop(places)
        if partitions:
            self.post(self._group.lost, partitions)

    def _drop(self, places: Iterable[Any]) -> list[Partition]:
        return [one for at in places if (one := self._assigned.pop(at, None)) is not None]

    # -- status of the group

    def _look(self, consumer: Any, now: float) -> None:
        idle = []
        for at, one in self._assigned.items():
            one.end = max(one.end, consumer.highwater(at) or 0, one.position)
            if one.moved_at + _LOOK_EVERY < now:
                idle.append(at)
        if idle and now >= self._ask_at:
            self._ask_at = now + _ASK_EVERY
            self._ask(consumer, idle, now)
        self._check_progress(consumer, now)
        topics, needed = self._settings.topics, self._settings.needed
        counts = known_partitions(consumer, topics, needed)
        self.post(
            self._group.looked,
            GroupStatus(
                ends=[(one, one.end) for one in self._assigned.values()],
                total=sum(counts[topic] for topic in topics),
                missing=tuple(topic for topic, partitions in counts.items() if not partitions),
                joined=consumer.group_metadata().generation_id >= 0 and not self._new,
            ),
        )

    def _ask(self, consumer: Any, idle: list[Any], now: float) -> None:
        """Ask for the end offsets of idle partitions: a stalled fetch does not report them."""
        try:
            ends = consumer.end_offsets(idle, timeout_ms=_ASK_MS)
        except _NO_ANSWER as error:
            for one in self._assigned.values():
                one.waits_since = None  # nothing can arrive while no broker answers
            self._ask_at = now
            self._answered(error)
            return
        self._answered(None)
        for at, end in ends.items():
            one = self._assigned[at]
            one.end = max(end, one.position)
            if end > one.position and at not in consumer.paused():
                position = consumer.position(at, timeout_ms=0)
                if position is not None and position > one.position:  # the marker of a transaction is not a message
                    self._note_gap(one, position)
                    one.moved(position, now)
                    self._flow.sent += 1
                    self.post(self._group.arrived, self._flow, [(one, [Passed(position)])])

    def _check_progress(self, consumer: Any, now: float) -> None:
        paused = consumer.paused()
        for at, one in self._assigned.items():
            if at in paused or one.end <= one.position:
                one.waits_since = None
            elif one.waits_since is None:
                one.waits_since = now
            elif now - one.waits_since > _STUCK_AFTER:
                raise PartitionStuck(f"{one.topic}/{one.number} is stuck at {one.position}; its end is {one.end}")

    def _answered(self, error: BaseException | None) -> None:
        """Report whether a request was answered; a single failure may be due to a leader that moved."""
        self._unanswered = 0 if error is None else self._unanswered + 1
        if error is None or self._unanswered > 1:
            why = "" if error is None else f"the brokers do not answer: {type(error).__name__}"
            self.post(self._group.answering, ok=error is None, why=why)

    def post(self, method: Callable[..., None], *arguments: Any, **named: Any) -> None:
        """Call a method of the group on the event loop, unless this owner is `over` by then."""
        self._call(self, method, arguments, named)


def _close_from_outside(consumer: Any) -> None:
    """Close a consumer from outside when its thread hangs, so that its heartbeats end. May never return."""
    with contextlib.suppress(Exception):
        consumer._fetcher.close()  # noqa: SLF001 - ends a fetch that loops
    with contextlib.suppress(Exception):
        consumer.close(timeout_ms=_ROUND_TRIP_MS)
