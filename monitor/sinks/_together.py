"""For sinks behind a network: waiting results are sent in batches, several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio

from monitor.clock import Clock
from monitor.errors import InvalidData, MonitorError, Overloaded
from monitor.model.outcome import EvaluationResult
from monitor.stages import Deliver

_FIRST_PAUSE: Final = 1.0  # seconds; doubled after each failure
_LAST_PAUSE: Final = 30.0

Send = Callable[[Sequence[EvaluationResult]], Awaitable[None]]
"""Sends a batch within a bounded time, its own retries included.

Raises `ResultsRefused` where only some results were accepted; `InvalidData` where none was, because of the content of
one; `Overloaded` while there is no receiver; any other `MonitorError` where none was accepted.
"""


class ResultsRefused(InvalidData):
    """Of the results in a batch those with these `ids` were refused; the others were accepted."""

    def __init__(self, message: str, ids: Collection[str]) -> None:
        super().__init__(message)
        self.ids = frozenset(ids)


class _Line:
    """A circuit breaker: after a failure one result at a time tries the receiver, and the others fail at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pause = 0.0
        self._until = 0.0
        self._tries = False
        self._why = ""

    def enter(self) -> None:
        """Raise `Overloaded` where the receiver has just failed."""
        if self._pause:
            if self._tries or self._clock.monotonic() < self._until:
                raise Overloaded(f"not attempted: {self._why}")
            self._tries = True

    def works(self) -> None:
        """Note that the receiver has answered."""
        self._pause, self._tries = 0.0, False

    def broken(self, error: Overloaded) -> None:
        """Note that the receiver failed. Of several batches in flight only the first counts."""
        if not self._pause or self._tries:
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LAST_PAUSE)
        self._until = self._clock.monotonic() + max(self._pause, min(error.retry_after, _LAST_PAUSE))
        self._why, self._tries = str(error), False


@asynccontextmanager
async def together(send: Send, *, at_once: int, in_flight: int, clock: Clock) -> AsyncIterator[Deliver]:
    """Yield a `Deliver` that returns when `send` has accepted its result, or raises what `send` raised.

    While fewer than `in_flight` batches are under way a result is sent at once; others wait and are sent together,
    `at_once` at most. A batch with refused content is halved until the refused result is alone. After `Overloaded`
    results fail at once for a second, then for two, and so on up to half a minute, except one that tries again. The
    queue is bounded by the number of callers. Leaving the context waits for them.
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


_Waits = tuple[EvaluationResult, asyncio.Future[None]]


class _Together:
    def __init__(self, send: Send, *, at_once: int, in_flight: int, line: _Line) -> None:
        self._send = send
        self._at_once = at_once
        self._in_flight = in_flight
        self._line = line
        self._waiting: list[_Waits] = []
        self.awaited: set[asyncio.Future[None]] = set()
        self.under_way: set[asyncio.Task[None]] = set()

    async def deliver(self, result: EvaluationResult) -> None:
        self._line.enter()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((result, done))
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
            # Not in a callback of the task: it runs a step later, and a result in between would wait for ever.
            if (this := asyncio.current_task()) is not None:
                self.under_way.discard(this)

    async def _attempt(self, taken: list[_Waits]) -> None:
        try:
            await self._send([result for result, _ in taken])
        except asyncio.CancelledError:
            _settle(taken, MonitorError("the sink was stopped"))
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
        except Exception as error:  # noqa: BLE001 - raised in the callers that wait for these results
            _settle(taken, error)
        else:
            _settle(taken)
        self._line.works()

    async def _sort_out(self, taken: list[_Waits], error: InvalidData) -> None:
        if isinstance(error, ResultsRefused):
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
    """Make an exception for each caller: raising one in several places would mix up their tracebacks."""
    if isinstance(error, ResultsRefused):
        return InvalidData(str(error))
    if isinstance(error, (InvalidData, Overloaded)) or type(error) is MonitorError:
        return type(error)(str(error))
    return error
