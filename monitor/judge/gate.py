"""The gate in front of the calls: the breaker's pass, a place in the pace, a slot. What waits for one holds no slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from monitor.clock import Clock
from monitor.errors import JudgeError
from monitor.judge.breaker import Breaker, Pass
from monitor.judge.budget import Pacer
from monitor.judge.pause import Pause
from monitor.model.outcome import UnscoredReason


class Gate:
    """Lets calls through, `concurrency` at once."""

    def __init__(self, breaker: Breaker, pacer: Pacer, concurrency: int, clock: Clock, pause: Pause) -> None:
        self._breaker = breaker
        self._pause = pause
        self._pacer = pacer
        self._slots = asyncio.Semaphore(concurrency)
        self._clock = clock

    @asynccontextmanager
    async def admission(self, deadline: float, *, probe: bool = False) -> AsyncIterator[Pass]:
        """Wait until a call may go out. The body reports its end to the breaker with the pass it is given.

        `deadline` is on the monotonic clock. `probe`: it is the one call that a paused judge is asked. Raises
        `JudgeError(breaker_open)` where the breaker stays open beyond the deadline, `JudgeError(paused)` where the
        judge is paused meanwhile.
        """
        with self._pause.waiting(probe=probe):
            held = await self._held(deadline)
        try:
            self._pause.check(probe=probe)
            yield held
        finally:
            self._slots.release()
            held.left()  # unless the body has said more

    async def _held(self, deadline: float) -> Pass:
        """A pass and a slot."""
        while True:
            held = await self._pass(deadline)
            try:
                await anyio.sleep(self._pacer.turn())
                await self._slots.acquire()
            except BaseException:
                held.left()
                raise
            if held.probe or not self._breaker.is_open:
                return held
            self._slots.release()  # it opened meanwhile

    async def _pass(self, deadline: float) -> Pass:
        while (held := self._breaker.enter()) is None:
            left = deadline - self._clock.monotonic()
            until_probe = self._breaker.opens_in
            if left <= 0 or until_probe > left:
                raise JudgeError(UnscoredReason.BREAKER_OPEN, "calls are held back after failures, for too long")
            with anyio.move_on_after(until_probe or left):
                await self._breaker.moved()
        return held
