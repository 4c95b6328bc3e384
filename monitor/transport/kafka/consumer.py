"""Run a member of a consumer group on the event loop: return messages, keep acks, watch the poll thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import anyio
from kafka.errors import (
    AuthorizationError,
    FencedInstanceIdError,
    InconsistentGroupProtocolError,
    KafkaConnectionError,
    KafkaTimeoutError,
)
from kafka.errors import SaslAuthenticationFailedError as SaslRefused

from monitor.model.ack import Ack
from monitor.stages import Runtime
from monitor.telemetry.events import Event
from monitor.transport.kafka.client import ConsumerSettings
from monitor.transport.kafka.poll_thread import Owner
from monitor.transport.kafka.series import ConsumerSeries
from monitor.transport.kafka.values import Flow, GroupStatus, Partition, PartitionStuck, Passed, Unreadable

__all__ = ["Consumer", "Partition", "Unreadable"]

_WATCH_EVERY: Final = 0.25
_STUCK_AFTER: Final = 30.0
_STEADY_AFTER: Final = 60.0
_FIRST_WAIT: Final = 0.25
_LONGEST_WAIT: Final = 30.0
_FINISH_EVERY: Final = 0.02
_LOOKS: Final = 3  # a topic may not be known yet at the first check

_POLL_STUCK: Final = "poll_stuck"

_CAUSES: Final = (
    ("partition_stuck", PartitionStuck),
    ("fenced", FencedInstanceIdError),
    ("other_assignment", InconsistentGroupProtocolError),
    ("unauthorised", (AuthorizationError, SaslRefused)),
    ("unreachable", (KafkaTimeoutError, KafkaConnectionError)),
)

_SAID: Final = {
    _POLL_STUCK: (Event.KAFKA_POLL_STUCK, "a poll did not return: continuing with a new consumer"),
    "partition_stuck": (Event.KAFKA_PARTITION_STUCK, "a partition is stuck: continuing with a new consumer"),
    "unreachable": (Event.KAFKA_UNREACHABLE, "no broker answers"),
    "unauthorised": (Event.KAFKA_UNREACHABLE, "the brokers refuse this client"),
    "fenced": (Event.KAFKA_REBUILT, "another process has the same `group_instance_id`"),
    "other_assignment": (
        Event.KAFKA_REBUILT,
        "the other members of the group have a different `assignment`: stop all replicas, then start them again",
    ),
    "error": (Event.KAFKA_REBUILT, "the consumer failed: continuing with a new one"),
}
"""The event and its message, by the reason why a poll thread ended."""


class Consumer:
    """Reads topics as a member of a group, at least once.

    `hand_over` is called with the acks of messages that now belong to other members. `ready` is called once, when this
    process is a member of the group and all topics exist.
    """

    def __init__(
        self,
        source: str,
        settings: ConsumerSettings,
        runtime: Runtime,
        hand_over: Callable[[Iterable[Ack]], None],
        ready: Callable[[], None],
    ) -> None:
        self._source = source
        self._settings = settings
        self._runtime = runtime
        self._hand_over = hand_over
        self._ready = ready
        self._is_ready = False
        self._loop = asyncio.get_running_loop()
        self._series = ConsumerSeries(runtime.metrics, settings.topics)
        self._partitions: dict[Partition, None] = {}
        self._inbox: deque[tuple[Flow, Partition, Any]] = deque()
        self._arrival = anyio.Event()
        self._owner: Owner | None = None
        self._total = 0
        self._missing: tuple[str, ...] = ()
        self._missed = 0
        self._trouble = ""
        self._part = f"{source} {settings.group}: {', '.join(settings.topics)}"
        runtime.share.set(self._part, 0.0)

    # -- for the source

    def pop(self) -> tuple[Partition, Any] | None:
        """Return the next message (kafka-python's `ConsumerRecord`) or `Unreadable` of a partition still assigned.

        Return None if none has arrived.
        """
        inbox = self._inbox
        while inbox:
            flow, partition, item = inbox.popleft()
            flow.accepted += 1
            if type(item) is Passed:
                if not partition.closed:
                    partition.offsets.pass_to(item.offset)
                continue
            if type(item) is not Unreadable and item.value is not None:
                flow.accepted_bytes += len(item.value)
            if not partition.closed:
                return partition, item
        return None

    async def next(self) -> tuple[Partition, Any]:
        """Return the next message as `pop` does; wait until there is one."""
        while (found := self.pop()) is None:
            self._arrival = anyio.Event()
            await self._arrival.wait()
        return found

    @property
    def unfinished(self) -> int:
        """Number of messages that are tracked: taken but not settled, or after one that is not settled."""
        return sum(one.offsets.held for one in self._partitions)

    async def run(self) -> None:
        """Run as a member of the group until cancelled. Call `stop` afterwards."""
        clock, failures = self._runtime.clock, 0
        while True:
            began = clock.monotonic()
            owner = self._owner = Owner(self._settings, self, clock, self._call)
            owner.start()
            reason = await self._watch(owner)
            self._forget(owner)
            self._series.rebuilds[reason].inc()
            self._say(reason, owner.error)
            failures = 0 if clock.monotonic() - began > _STEADY_AFTER else failures + 1
            await anyio.sleep(min(_FIRST_WAIT * 2**failures, _LONGEST_WAIT))

    async def stop(self) -> None:
        """Stop taking messages, give those in progress a few seconds, commit and leave the group, by the deadline."""
        self._explain("")
        owner = self._owner
        if owner is None:
            return
        owner.quiet = True
        self._inbox.clear()
        with anyio.move_on_after(self._runtime.stop.left("requests")):
            while any(one.offsets.outstanding for one in self._partitions):  # noqa: ASYNC110 - settled in many places
                await anyio.sleep(_FINISH_EVERY)
        self._let_go(self._partitions)  # before the commit: the marks are final
        owner.stop.set()
        with anyio.move_on_after(self._runtime.stop.left("sinks")):
            while not owner.ended.is_set():  # noqa: ASYNC110 - set by a thread that may never come back
                await anyio.sleep(_FINISH_EVERY)
        self._forget(owner)

    # -- the owner

    def _call(
        self, owner: Owner, method: Callable[..., None], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Call `method` on the event loop, from another thread, unless `owner` is over by then."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._heard, owner, method, arguments, named)

    def _heard(
        self, owner: Owner, method: Callable[..., None], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        if not owner.over:
            method(*arguments, **named)

    async def _watch(self, owner: Owner) -> str:
        """Wait until the poll thread has ended or hangs; return the reason.

        Time is counted in checks, so that the suspension of the whole process does not count as waiting for a poll.
        """
        polled_at, waited = owner.polled_at, 0.0
        while True:
            await anyio.sleep(_WATCH_EVERY)
            waited = waited + _WATCH_EVERY if owner.polled_at == polled_at else 0.0
            polled_at = owner.polled_at
            if owner.ended.is_set():
                return _reason_of(owner.error)
            if waited > _STUCK_AFTER:
                owner.abandon()
                return _POLL_STUCK

    def _forget(self, owner: Owner) -> None:
        owner.over = True
        self._inbox.clear()
        self._close(list(self._partitions))

    def _say(self, reason: str, error: BaseException | None) -> None:
        event, message = _SAID[reason]
        detail = "" if error is None else f"{type(error).__name__}: {error}"[:300]
        self._explain(message if error is None else f"{message} ({type(error).__name__})")
        if event is Event.KAFKA_UNREACHABLE:
            self.answering(ok=False, why=f"{message}: {detail}")
        else:
            self._runtime.events.warning(event, message, source=self._source, group=self._settings.group, error=detail)

    def _explain(self, why: str) -> None:
        """Report to readiness why this consumer is not ready. Omit details, because anybody may ask."""
        if not self._is_ready:
            self._runtime.health.explain(self._part, why)

    # -- reports of the owner

    def assigned(self, partitions: list[Partition]) -> None:
        """See `values.GroupMember`."""
        self._series.rebalances["assigned"].inc()
        places = {one.at for one in partitions}
        # Revoked, and assigned again before the revocation was handled: the earlier assignment is void.
        if before := [one for one in self._partitions if one.at in places]:
            self._close(before)
        for one in partitions:
            self._partitions[one] = None
        self._count_partitions()
        self._runtime.events.info(
            Event.KAFKA_JOINED,
            "partitions assigned",
            source=self._source,
            group=self._settings.group,
            partitions=", ".join(f"{one.topic}/{one.number}" for one in partitions)[:300],
            held=len(self._partitions),
        )

    def give_up(self, partitions: list[Partition], answered: threading.Event) -> None:
        """See `values.GroupMember`."""
        self._series.rebalances["revoked"].inc()
        for one in partitions:
            one.closed = True
        self._finish(partitions, answered, self._runtime.clock.monotonic() + self._settings.revoke_timeout)

    def _finish(self, partitions: list[Partition], answered: threading.Event, until: float) -> None:
        busy = any(one.offsets.outstanding for one in partitions)
        if busy and self._runtime.clock.monotonic() < until:
            self._loop.call_later(_FINISH_EVERY, self._finish, partitions, answered, until)
            return
        self._close(partitions)
        answered.set()

    def lost(self, partitions: list[Partition]) -> None:
        """See `values.GroupMember`."""
        self._series.rebalances["lost"].inc()
        self._close(partitions)

    def arrived(self, flow: Flow, found: list[tuple[Partition, list[Any]]]) -> None:
        """See `values.GroupMember`."""
        self._inbox.extend((flow, partition, item) for partition, items in found for item in items)
        self._arrival.set()

    def looked(self, look: GroupStatus) -> None:
        """See `values.GroupMember`."""
        self._total = look.total
        self._count_partitions()
        self._series.show([pair for pair in look.ends if pair[0] in self._partitions])
        self._missed = self._missed + 1 if look.missing and look.joined else 0
        if self._missed >= _LOOKS and look.missing != self._missing:
            self._runtime.events.warning(
                Event.KAFKA_TOPIC_MISSING,
                "topics do not exist; create them, this monitor does not",
                source=self._source,
                topics=", ".join(look.missing)[:300],
            )
            self._missing = look.missing
        if self._missed >= _LOOKS:
            self._explain(f"topics do not exist: {', '.join(look.missing)}"[:300])
        if look.joined and not look.missing:
            self._missing = ()
            if not self._is_ready:
                self._explain("")
                self._is_ready = True
                self._ready()

    def committed(self, *, ok: bool) -> None:
        """See `values.GroupMember`."""
        self._series.commits["ok" if ok else "failed"].inc()

    def expired(self, topic: str, messages: int) -> None:
        """See `values.GroupMember`."""
        self._series.expired[topic].inc(messages)
        self._runtime.events.error(
            Event.KAFKA_EXPIRED,
            "the topic's retention deleted messages before they were read",
            source=self._source,
            topic=topic,
            messages=messages,
        )

    def answering(self, *, ok: bool, why: str = "") -> None:
        """See `values.GroupMember`."""
        events, brokers = self._runtime.events, self._settings.client.get("bootstrap_servers", ())
        if not ok and not self._trouble:
            self._trouble = why
            events.warning(
                Event.KAFKA_UNREACHABLE, why, source=self._source, brokers=",".join(brokers), group=self._settings.group
            )
        elif ok and self._trouble:
            self._trouble = ""
            self._explain("")
            events.info(Event.KAFKA_BACK, "the brokers answer again", source=self._source, brokers=",".join(brokers))

    # -- partitions

    def _close(self, partitions: Iterable[Partition]) -> None:
        """Drop partitions that are no longer assigned, with their series: other members process unsettled messages."""
        partitions = list(partitions)
        self._let_go(partitions)
        for one in partitions:
            self._partitions.pop(one, None)
        self._series.remove(partitions)
        self._count_partitions()

    def _let_go(self, partitions: Iterable[Partition]) -> None:
        left: list[Ack] = []
        for one in partitions:
            one.closed = True
            if not one.released:
                one.released = True
                left.extend(one.offsets.outstanding)
        if left:
            self._hand_over(left)

    def _count_partitions(self) -> None:
        self._series.count(self._partitions)
        held = len(self._partitions)
        self._runtime.share.set(self._part, min(held / self._total, 1.0) if self._total else 0.0)


def _reason_of(error: BaseException | None) -> str:
    """Return the reason why a poll thread ended, from a closed set."""
    return next((name for name, kinds in _CAUSES if isinstance(error, kinds)), "error")
