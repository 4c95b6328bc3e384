"""The queue in front of the judge: apps take turns, so that a busy app does not delay the others.

The next app is chosen by start-time fair queueing: each turn advances the app's virtual time by 1 / weight, and the app
that is furthest behind is next. An app that was idle starts at the virtual time of the app served last, so it waits for
at most one round of the other apps and cannot save up turns. (P. Goyal, H. M. Vin, H. Cheng: Start-time Fair Queuing,
IEEE/ACM Transactions on Networking 5(5), 1997.)

A case that has waited so long that its result is certain to be late moves to its app's backlog. Otherwise new results
would also be late until the backlog is done, and no result would be current.

Backfill (`BACKFILL`) gets a turn when nothing else waits, and does not advance any virtual time.

When the queue is full, cases are removed from the app that holds most for its weight: a flooding app pays for it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import anyio

from monitor.clock import Clock

LATE: Final = "late"
BACKFILL: Final = "backfill"
_MOST_CLIENTS: Final = 1_000


class QueueClient(NamedTuple):
    """A client of the queue: an app's production traffic.

    The app's traffic of each other class and its backlog (`LATE`) are separate clients with the same weight. `BACKFILL`
    comes after all of them.
    """

    app: str
    traffic: str = ""


@dataclass(slots=True, eq=False)
class _QueueTurn:
    client: QueueClient
    size: int
    since: float
    decided: anyio.Event = field(default_factory=anyio.Event)
    granted: bool = False


@dataclass(slots=True)
class _Lane:
    """The queue of one judge."""

    free: float
    now: float = 0.0
    waiting: dict[QueueClient, deque[_QueueTurn]] = field(default_factory=dict)
    starts: dict[QueueClient, float] = field(default_factory=dict)


class FairQueue:
    """Turns at the judges. Each judge has its own lane.

    `slots` is the number of concurrent turns, by judge; a judge that is not named has no limit. `limit` bounds the
    total size of cases that wait or are being evaluated, over all judges; a single larger case is let in. `shares` are
    weights above 0, by app (default 1). After `patience` seconds of waiting a result is late.
    """

    def __init__(
        self,
        slots: Mapping[str, int],
        *,
        limit: int,
        shares: Mapping[str, float],
        clock: Clock,
        patience: float = math.inf,
    ) -> None:
        self._clock = clock
        self._patience = patience
        self._slots = slots
        self._limit = limit
        self._shares = shares
        self._lanes: dict[str, _Lane] = {}
        self._held: dict[QueueClient, int] = {}
        self.size = 0
        """Total size of the cases that wait or are being judged."""

    @asynccontextmanager
    async def turn(self, judge: str, client: QueueClient, size: int) -> AsyncIterator[bool]:
        """Wait for a turn, and hold it while the context lasts. Yields False if the case was given up instead."""
        lane = self._lanes.setdefault(judge, _Lane(self._slots.get(judge, math.inf)))
        mine = _QueueTurn(client, size, self._clock.monotonic())
        self._hold(client, size)
        lane.waiting.setdefault(client, deque()).append(mine)
        try:
            while self.size > self._limit and self.size > size and self._give_up_one():
                pass
            self._serve(lane)
            await mine.decided.wait()
            yield mine.granted
        finally:
            self._leave(lane, mine)

    def spare_turn(self, judge: str) -> AbstractAsyncContextManager[bool]:
        """Hold a turn at `judge` while the context lasts, but only when no live case waits for it: for backfill."""
        return self.turn(judge, QueueClient("", BACKFILL), 0)

    def _serve(self, lane: _Lane) -> None:
        """Hand out free turns."""
        if lane.free > 0:
            self._set_late_apart(lane)
        while lane.free > 0 and lane.waiting:
            others = [one for one in lane.waiting if one.traffic != BACKFILL]
            client = min(others or lane.waiting, key=lambda one: max(lane.starts.get(one, 0.0), lane.now))
            if others:
                lane.now = max(lane.starts.get(client, 0.0), lane.now)
                lane.starts[client] = lane.now + 1 / self._shares.get(client.app, 1.0)
            lane.free -= 1
            turn = self._next(lane, client)
            turn.granted = True
            turn.decided.set()

    def _next(self, lane: _Lane, client: QueueClient, *, newest: bool = False) -> _QueueTurn:
        queue = lane.waiting[client]
        turn = queue.pop() if newest else queue.popleft()
        if not queue:
            del lane.waiting[client]
            if not lane.waiting or len(lane.starts) > _MOST_CLIENTS:
                lane.starts.clear()  # nobody waits, so nobody is owed a turn; or too many names would use up memory
        return turn

    def _set_late_apart(self, lane: _Lane) -> None:
        late_since = self._clock.monotonic() - self._patience
        for client in [one for one in lane.waiting if one.traffic not in (LATE, BACKFILL)]:
            while client in lane.waiting and lane.waiting[client][0].since < late_since:
                turn = self._next(lane, client)
                self._hold(client, -turn.size)
                turn.client = QueueClient(client.app, LATE)
                self._hold(turn.client, turn.size)
                lane.waiting.setdefault(turn.client, deque()).append(turn)

    def _give_up_one(self) -> bool:
        """Give up the newest case of the client that holds most for its weight; return False if nothing waits."""
        waiting = {one for lane in self._lanes.values() for one in lane.waiting if one.traffic != BACKFILL}
        if not waiting:
            return False
        loudest = max(waiting, key=lambda one: self._held.get(one, 0) / self._shares.get(one.app, 1.0))
        lane = max(
            (lane for lane in self._lanes.values() if loudest in lane.waiting),
            key=lambda one: len(one.waiting[loudest]),
        )
        turn = self._next(lane, loudest, newest=True)
        self._hold(loudest, -turn.size)
        turn.size = 0
        turn.decided.set()
        return True

    def _leave(self, lane: _Lane, turn: _QueueTurn) -> None:
        if turn.granted:
            lane.free += 1
        elif not turn.decided.is_set():  # cancelled while it waited
            lane.waiting[turn.client].remove(turn)
            if not lane.waiting[turn.client]:
                del lane.waiting[turn.client]
        self._hold(turn.client, -turn.size)
        self._serve(lane)

    def _hold(self, client: QueueClient, size: int) -> None:
        self.size += size
        held = self._held.get(client, 0) + size
        if held:
            self._held[client] = held
        else:
            self._held.pop(client, None)
