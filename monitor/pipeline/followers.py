"""Sinks that follow the history: each gets every result, at its own pace, retried until it accepts it.

    history -> feed -> one follower per sink: read a window -> send it in batches -> store the position

A window is read again before each attempt, so that results erased meanwhile are not sent. Only the position is stored:
after a crash a sink gets at most one window twice.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, get_args

import anyio
import anyio.to_thread

from monitor.errors import InvalidData, MonitorError, Overloaded, ResultsRefused
from monitor.model.ack import Ack
from monitor.model.outcome import EvaluationResult
from monitor.stages import Deliver, Runtime, Sink
from monitor.storage.history.feed import Feed, FeedEntry, FeedWindow, Lost
from monitor.telemetry.events import Event

_WINDOW: Final = 256  # results; or the results of all batches that may be in flight, if that is more
_WINDOW_BYTES: Final = 8 * 1024**2
_LOOK_EVERY: Final = 5.0  # seconds between checks for results of another process, and between updates of the series
_FIRST_PAUSE: Final = 1.0  # seconds; doubled after each failure
_LAST_PAUSE: Final = 60.0
_LONGEST_RETRY_AFTER: Final = 3600.0
_CALL: Final = 600.0  # seconds that one call of a sink may take
_PATIENCE: Final = 1800.0
_TRIES_ALONE: Final = 16
_ACK_WITHIN: Final = 120.0
_SAY_EVERY: Final = 60.0


class _Fault(NamedTuple):
    """Results that a sink could not take now, and why."""

    entries: Sequence[FeedEntry]
    error: Exception


class Pauses:
    """The pauses between attempts, in seconds: half of `first` to all of it, then doubled after each failure, up to a
    minute.

    If a receiver asks for a longer pause it gets it, up to an hour.
    """

    def __init__(self, rng: random.Random, first: float = _FIRST_PAUSE) -> None:
        self._rng = rng
        self._first = first
        self._longest = 0.0

    def after(self, error: Exception) -> float:
        """Return the pause after one more failure."""
        self._longest = min(max(2 * self._longest, self._first), _LAST_PAUSE)
        asked = min(error.retry_after, _LONGEST_RETRY_AFTER) if isinstance(error, Overloaded) else 0.0
        return max(self._longest * self._rng.uniform(0.5, 1.0), asked)

    def begin_again(self) -> None:
        """Reset the pauses: an attempt succeeded."""
        self._longest = 0.0


class Follower:
    """One sink's progress through the feed: batches of `at_once` results, up to `in_flight` batches at a time.

    After `patience` seconds of failures, results are sent one by one, to find a result that breaks the receiver itself.
    """

    def __init__(
        self,
        name: str,
        deliver: Deliver,
        feed: Feed,
        runtime: Runtime,
        *,
        at_once: int,
        in_flight: int,
        pauses: Pauses,
        patience: float = _PATIENCE,
    ) -> None:
        self.name = name
        self._deliver = deliver
        self._at_once = at_once
        self._in_flight = in_flight
        self._feed = feed
        self._clock = runtime.clock
        self._events = runtime.events
        self._pauses = pauses
        self._patience = patience
        metrics = runtime.metrics
        outcomes = ("sent", "rejected", *get_args(Lost))
        self._results = {outcome: metrics.sink_results.labels(name, outcome) for outcome in outcomes}
        self._failures = metrics.sink_failures.labels(name)
        self._woken = anyio.Event()
        self._idle = anyio.Event()
        self._ended: set[int] = set()  # numbers in the current window that were sent or rejected
        self._broken: set[int] = set()  # those among them that broke the sink itself
        self._failing_since: float | None = None
        self._said_failing = False
        self._said_at: dict[str, float] = {}
        self._asked: list[tuple[float, Callable[[], None]]] = []
        self._owed: deque[tuple[int, float, Callable[[], None]]] = deque()

    def wake(self) -> None:
        """Look for new results now, unless the follower is pausing after a failure."""
        self._woken.set()
        if self._failing_since is None and self._idle.is_set():
            self._idle = anyio.Event()

    def when_sent(self, done: Callable[[], None]) -> None:
        """Call `done` when the sink has every result that is now in the history, or after two minutes."""
        self._asked.append((self._clock.monotonic() + _ACK_WITHIN, done))
        self.wake()

    def settle_overdue(self) -> None:
        """Call the callbacks that have waited for two minutes: the history has the results."""
        now = self._clock.monotonic()
        while self._owed and self._owed[0][1] <= now:
            self._owed.popleft()[2]()
        while self._asked and self._asked[0][0] <= now:
            self._asked.pop(0)[1]()

    async def idle(self) -> None:
        """Wait until nothing is left to send or sending fails."""
        await self._idle.wait()

    async def run(self) -> None:
        """Follow, until cancelled."""
        while True:
            try:
                await self._step()
            except MonitorError as error:  # the history cannot be read
                await self._rest(error)

    async def _step(self) -> None:
        self._woken = anyio.Event()  # before reading, so that results written meanwhile are not missed
        asked = len(self._asked)
        size = max(_WINDOW, self._at_once * self._in_flight)
        window = await anyio.to_thread.run_sync(
            partial(self._feed.read, self.name, at_most=size, at_most_bytes=_WINDOW_BYTES)
        )
        self._owed.extend((window.end, *one) for one in self._asked[:asked])
        del self._asked[:asked]
        if window.until == window.position:
            self._settle(window.position)
            self._works()
            self._idle.set()
            with anyio.move_on_after(_LOOK_EVERY):
                await self._woken.wait()
            return
        fault = await self._send_all(window)
        if fault is not None:
            await self._rest(fault)
            return
        await anyio.to_thread.run_sync(self._feed.advance, self.name, window.until)
        self._count_lost(window)
        self._ended.clear()
        self._broken.clear()
        self._works()
        self._settle(window.until)

    async def _send_all(self, window: FeedWindow) -> Exception | None:
        """Send the rest of the window. Return why the sink could not take all of it; None if it did."""
        left = [one for one in window.entries if one.result is not None and one.number not in self._ended]
        alone = self._failing_since is not None and self._clock.monotonic() - self._failing_since > self._patience
        faults: list[_Fault] = []
        passed: list[int] = []
        turns = anyio.CapacityLimiter(self._in_flight)

        def enough() -> bool:
            """Return whether so much failed that the receiver must be down, and no more need be tried now."""
            return bool(faults) if not alone else len(faults) >= _TRIES_ALONE and not passed

        async def part(entries: Sequence[FeedEntry]) -> None:
            async with turns:
                if not enough():
                    await self._send(entries, faults)
                    passed.extend(one.number for one in entries if one.number in self._ended)

        size = 1 if alone else self._at_once
        async with anyio.create_task_group() as tasks:
            for at in range(0, len(left), size):
                tasks.start_soon(part, left[at : at + size])
        if faults and alone and (passed or await self._answers(window)):
            for fault in faults:
                await self._try_again(fault, window)
        return faults[0].error if any(one.number not in self._ended for one in left) else None

    async def _try_again(self, fault: _Fault, window: FeedWindow) -> None:
        """Reject results that fail while the sink works, that is, while it answers both before and after the attempt.

        One attempt proves nothing: if a receiver recovers between two results, the first failed only because it was
        down.
        """
        faults: list[_Fault] = []
        await self._send(fault.entries, faults)
        if faults and await self._answers(window):
            self._reject(fault.entries, faults[0].error)
            self._broken.update(one.number for one in fault.entries)

    async def _answers(self, window: FeedWindow) -> bool:
        """Return whether the sink works: it answers again for a result of the window that it has answered before."""
        known = self._ended - self._broken
        result = next((one.result for one in window.entries if one.result is not None and one.number in known), None)
        if result is None:
            return False
        try:
            with anyio.fail_after(_CALL):
                await self._deliver([result])
        except InvalidData:
            return True
        except Exception:  # noqa: BLE001 - as in `_send`
            return False
        return True

    async def _send(self, entries: Sequence[FeedEntry], faults: list[_Fault]) -> None:
        results = [one.result for one in entries if one.result is not None]
        try:
            with anyio.fail_after(_CALL):
                await self._deliver(results)
        except ResultsRefused as error:
            refused = [one for one in entries if one.result is not None and one.result.id in error.ids]
            self._reject(refused, error)
            self._end([one for one in entries if one not in refused], "sent")
        except InvalidData as error:
            if len(entries) == 1:
                self._reject(entries, error)
                return
            half = len(entries) // 2
            await self._send(entries[:half], faults)
            await self._send(entries[half:], faults)
        except Exception as error:  # noqa: BLE001 - a sink that fails is tried again
            faults.append(_Fault(entries, error))
        else:
            self._end(entries, "sent")

    def _end(self, entries: Sequence[FeedEntry], outcome: str) -> None:
        self._ended.update(one.number for one in entries)
        self._results[outcome].inc(len(entries))

    def _reject(self, entries: Sequence[FeedEntry], error: Exception) -> None:
        self._end(entries, "rejected")
        ids = [one.result.id for one in entries if one.result is not None]
        if ids and self._may_say("rejected"):
            message = "a sink refuses a result for good; it is not sent again"
            self._events.error(Event.SINK_REJECTED, message, sink=self.name, result=ids[0], error=_in_words(error))

    def _count_lost(self, window: FeedWindow) -> None:
        """Count the numbers in the window whose results are gone and were not sent before."""
        numbers = {one.number for one in window.entries}
        expired = window.until - window.position - len(numbers | self._ended)
        for one in window.entries:
            if one.lost == "expired" and one.number not in self._ended:
                expired += 1
            elif one.lost is not None and one.number not in self._ended:
                self._results[one.lost].inc()
        self._results["expired"].inc(expired)
        if expired and self._may_say("expired"):
            message = "results passed the retention of the history before a sink took them"
            self._events.error(Event.SINK_EXPIRED, message, sink=self.name, results=expired)

    def _settle(self, position: int) -> None:
        while self._owed and self._owed[0][0] <= position:
            self._owed.popleft()[2]()

    def _works(self) -> None:
        if self._failing_since is not None and self._said_failing:
            seconds = round(self._clock.monotonic() - self._failing_since, 1)
            self._events.info(Event.SINK_RECOVERED, "a sink works again", sink=self.name, after_seconds=seconds)
        self._pauses.begin_again()
        self._failing_since, self._said_failing = None, False

    async def _rest(self, error: Exception) -> None:
        """Pause after a failure."""
        self._failures.inc()
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
        if not self._said_failing and self._may_say("failing"):
            self._said_failing = True
            message = "a sink does not take results; they stay in the history and are sent again"
            self._events.error(Event.SINK_FAILED, message, sink=self.name, error=_in_words(error))
        self._idle.set()
        await anyio.sleep(self._pauses.after(error))

    def _may_say(self, what: str) -> bool:
        now = self._clock.monotonic()
        if now - self._said_at.get(what, float("-inf")) < _SAY_EVERY:
            return False
        self._said_at[what] = now
        return True


class Followers:
    """All sinks that follow the history `feed`. `sinks` maps names to sinks, each with its opened deliver function."""

    def __init__(
        self, feed: Feed, sinks: Mapping[str, tuple[Sink, Deliver]], runtime: Runtime, *, rng: random.Random
    ) -> None:
        self._feed = feed
        self._runtime = runtime
        self._all = {
            name: Follower(
                name, deliver, feed, runtime, at_once=sink.at_once, in_flight=sink.in_flight, pauses=Pauses(rng)
            )
            for name, (sink, deliver) in sinks.items()
        }
        self._fleet = [self._all[name] for name, (sink, _) in sinks.items() if sink.memory == "fleet"]
        self._oldest: dict[str, float | None] = {}
        for name in sinks:
            runtime.metrics.sink_lag_seconds.labels(name).set_function(partial(self._lag, name))

    async def begin(self) -> None:
        """Load the positions; a new sink begins with the next result. Logs an error if the history cannot be read."""
        try:
            new = await anyio.to_thread.run_sync(self._feed.begin, tuple(self._all))
        except MonitorError as error:
            message = "the positions of sinks cannot be read; they are loaded later"
            self._runtime.events.error(Event.SINK_FAILED, message, sink="storage", error=str(error))
            return
        for name in new:
            message = "a new sink gets the results from now on"
            self._runtime.events.info(Event.SINK_BEGINS, message, sink=name)

    def after(self, deliver: Deliver) -> Deliver:
        """Wrap the history's `deliver` so that it wakes the followers."""

        async def stored(results: Sequence[EvaluationResult]) -> None:
            try:
                await deliver(results)
            finally:  # even if some of them can never be written
                for follower in self._all.values():
                    follower.wake()

        return stored

    def when_sent(self, done: Callable[[], None]) -> None:
        """Call `done` when every `fleet` sink has all results now in the history; at once if there is no such sink."""
        if not self._fleet:
            done()
            return
        ack = Ack(done, shares=len(self._fleet))
        for follower in self._fleet:
            follower.when_sent(ack.settle)

    async def run(self) -> None:
        """Follow, until cancelled."""
        async with anyio.create_task_group() as tasks:
            for follower in self._all.values():
                tasks.start_soon(follower.run)
            while self._all:
                await self._measure()
                await anyio.sleep(_LOOK_EVERY)

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` until every sink has caught up or fails; the rest is sent after the restart."""
        with anyio.move_on_after(seconds):
            for follower in self._all.values():
                await follower.idle()

    async def _measure(self) -> None:
        for follower in self._fleet:
            follower.settle_overdue()
        try:
            found = await anyio.to_thread.run_sync(self._feed.standings)
        except MonitorError:
            return  # the followers log it
        metrics = self._runtime.metrics
        for name in self._all:
            if (one := found.get(name)) is not None:
                self._oldest[name] = one.oldest
                metrics.sink_position.labels(name).set(one.position)
                metrics.sink_lag_results.labels(name).set(one.end - one.position)

    def _lag(self, name: str) -> float:
        oldest = self._oldest.get(name)
        return max(self._runtime.clock.now() - oldest, 0.0) if oldest is not None else 0.0


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
