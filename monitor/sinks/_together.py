"""For sinks behind a network: results that wait together are sent together, several such batches at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio

from monitor.clock import Clock
from monitor.errors import InvalidData, MonitorError, Overloaded
from monitor.model.outcome import Judged
from monitor.stages import Deliver

_FIRST_PAUSE: Final = 1.0  # seconds; doubled after each failure
_LAST_PAUSE: Final = 30.0

Send = Callable[[Sequence[Judged]], Awaitable[None]]
"""Sends a batch, within a bounded time; whoever wrote it has tried again where that made sense.

Raises `Refused` where some results were not taken and the others were; `InvalidData` where none was, for what one of
them holds; `Overloaded` where there is no receiver at present; any other `MonitorError` where none was taken.
"""


class Refused(InvalidData):
    """Of the results sent together those with these `ids` were not taken; the others were."""

    def __init__(self, message: str, ids: Collection[str]) -> None:
        super().__init__(message)
        self.ids = frozenset(ids)


class _Line:
    """Whether it is worth trying. After a failure one result at a time finds out; the others need not wait for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pause = 0.0
        self._until = 0.0
        self._tries = False
        self._why = ""

    def enter(self) -> None:
        """Raises `Overloaded` where the receiver was not there a moment ago."""
        if self._pause:
            if self._tries or self._clock.monotonic() < self._until:
                raise Overloaded(f"not tried: {self._why}")
            self._tries = True

    def works(self) -> None:
        """The receiver has answered."""
        self._pause, self._tries = 0.0, False

    def broken(self, error: Overloaded) -> None:
        """The receiver has not answered, or only that it cannot. Of several batches under way the first counts."""
        if not self._pause or self._tries:
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LAST_PAUSE)
        self._until = self._clock.monotonic() + max(self._pause, min(error.retry_after, _LAST_PAUSE))
        self._why, self._tries = str(error), False


@asynccontextmanager
async def together(send: Send, *, at_once: int, in_flight: int, clock: Clock) -> AsyncIterator[Deliver]:
    """A `Deliver` that returns when `send` has taken its result, or raises what `send` raised.

    A result that comes while fewer than `in_flight` batches are under way leaves at once; those that come meanwhile
    leave together, `at_once` at most. Where a batch is refused for what it holds it is halved until what is wrong
    stands alone. After `Overloaded` results fail at once for a second, then for two, and so on to half a minute, save
    one that tries again. There are never more results in here than callers. Leaving waits for what somebody waits for.
    """
    sender = _Together(send, at_once=at_once, in_flight=in_flight, line=_Line(clock))
    try:
        yield sender.deliver
        while sender.awaited:
            await asyncio.wait(sender.awaited)
    finally:
        for task in sender.under_way:
            task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*sender.under_way, return_exceptions=True)


_Waits = tuple[Judged, asyncio.Future[None]]


class _Together:
    def __init__(self, send: Send, *, at_once: int, in_flight: int, line: _Line) -> None:
        self._send = send
        self._at_once = at_once
        self._in_flight = in_flight
        self._line = line
        self._waiting: list[_Waits] = []
        self.awaited: set[asyncio.Future[None]] = set()
        self.under_way: set[asyncio.Task[None]] = set()

    async def deliver(self, judged: Judged) -> None:
        self._line.enter()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((judged, done))
        self.awaited.add(done)
        if len(self.under_way) < self._in_flight:
            self.under_way.add(asyncio.create_task(self._work()))
        try:
            await done
        finally:
            self.awaited.discard(done)

    async def _work(self) -> None:
        try:
            while self._waiting:
                taken = self._waiting[: self._at_once]
                del self._waiting[: self._at_once]
                await self._attempt(taken)
        finally:
            # Not in a callback of the task: that comes a step later, and who came meanwhile would wait for ever.
            if (this := asyncio.current_task()) is not None:
                self.under_way.discard(this)

    async def _attempt(self, taken: list[_Waits]) -> None:
        try:
            await self._send([judged for judged, _ in taken])
        except asyncio.CancelledError:
            _settle(taken, MonitorError("the sink was stopped meanwhile"))
            raise
        except Overloaded as error:
            self._line.broken(error)
            _settle([*taken, *self._waiting], error)
            self._waiting.clear()
            return
        except InvalidData as error:
            self._line.works()
            await self._sort_out(taken, error)
            return
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait for these results
            _settle(taken, error)
        else:
            _settle(taken)
        self._line.works()

    async def _sort_out(self, taken: list[_Waits], error: InvalidData) -> None:
        if isinstance(error, Refused):
            _settle([one for one in taken if one[0].id in error.ids], error)
            _settle([one for one in taken if one[0].id not in error.ids])
        elif len(taken) == 1:
            _settle(taken, error)
        else:
            half = len(taken) // 2
            await self._attempt(taken[:half])
            await self._attempt(taken[half:])


def _settle(those: list[_Waits], error: Exception | None = None) -> None:
    for _, done in those:
        if done.done():  # its caller was cancelled
            continue
        if error is not None:
            done.set_exception(_again(error))
        else:
            done.set_result(None)


def _again(error: Exception) -> Exception:
    """An exception of its own for each who waits: one that is raised in two places tangles their tracebacks."""
    if isinstance(error, Refused):
        return InvalidData(str(error))
    if isinstance(error, (InvalidData, Overloaded)) or type(error) is MonitorError:
        return type(error)(str(error))
    return error
