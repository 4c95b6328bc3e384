"""Decides when a call may go out: the circuit breaker is closed, the rate limit allows it, and a slot is free.

A call that waits for one of these holds none of the others. The circuit breaker stops calls to a failing model and lets
one probe at a time find out when the model works again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from monitor.clock import Clock
from monitor.errors import JudgeError
from monitor.judge.pause import Pause
from monitor.model.outcome import UnscoredReason
from monitor.stages import Runtime
from monitor.statistics.limits import Pacer

WINDOW = 30.0  # seconds that calls are counted for
FEWEST = 20  # calls in the window before the share of failures means something
SHARE = 0.5  # share of failed calls at which it opens
PROBE_EVERY = 15.0  # seconds between probes while open
LONGEST_HOLD = 3600.0
"""Maximum seconds without a probe, even if the provider asks for longer: it may have sent a time of day by mistake."""
_MINUTE = 60.0


class Pass:
    """Permission for one call. Its holder reports once how the call ended; later reports are ignored."""

    __slots__ = ("_breaker", "_reported", "probe")

    def __init__(self, breaker: Breaker, *, probe: bool) -> None:
        self.probe = probe
        """Whether this call is the probe that finds out if the model works again."""
        self._breaker = breaker
        self._reported = False

    def succeeded(self) -> None:
        """Report that the call was answered."""
        self._report(True)

    def failed(self, why: str = "") -> None:
        """Report that the model, or the network on the way to it, failed, and why."""
        self._report(False, why)

    def left(self) -> None:
        """Report that the call did not take place, or that its result says nothing about the model."""
        self._report(None)

    def _report(self, well: bool | None, why: str = "") -> None:
        if not self._reported:
            self._reported = True
            self._breaker._ended(well, self.probe, why)  # noqa: SLF001 - two halves of one thing


class Breaker:
    """Opens when at least half of at least 20 calls in 30 seconds failed, or when asked to.

    `changed` is called with True when it opens and with False when it closes.
    """

    def __init__(self, clock: Clock, changed: Callable[[bool], None] = lambda _open: None) -> None:
        self._clock = clock
        self._changed = changed
        self._calls: deque[tuple[float, bool, str]] = deque()
        self._failed = 0
        self.cause = ""
        """Why it opened: the error of the first failed call. Empty while it is closed, or if the cause is unknown."""
        self.asked = ""
        """How long the provider asked for no calls, and when it is tried again; empty unless that opened it."""
        self._next_probe: float | None = None  # None while closed
        self._probing = False
        self._moved = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether calls are held back."""
        return self._next_probe is not None

    @property
    def opens_in(self) -> float:
        """Seconds until the next probe may go out; 0 while closed, or if it may go now."""
        return 0.0 if self._next_probe is None else max(0.0, self._next_probe - self._clock.monotonic())

    def enter(self) -> Pass | None:
        """Return permission for one call, or None if the caller must wait for `moved` or for `opens_in` seconds."""
        if self._next_probe is None:
            return Pass(self, probe=False)
        if self._probing or self.opens_in > 0:
            return None
        self._probing = True
        self._next_probe = self._clock.monotonic() + PROBE_EVERY
        return Pass(self, probe=True)

    async def moved(self) -> None:
        """Wait until it closes, opens again, or a probe ends. Does not wake when the time for a probe comes."""
        await self._moved.wait()

    def trip(self, seconds: float = PROBE_EVERY, why: str = "") -> None:
        """Open now, and allow no probe for `seconds`."""
        was_open = self.is_open
        self.cause = self.cause or next((one for _, _, one in self._calls if one), why)
        until = self._clock.monotonic() + seconds
        self._next_probe = max(self._next_probe or until, until)
        if not was_open:
            self._changed(True)
        self._move()

    def hold(self, seconds: float, why: str = "") -> None:
        """Open now and allow no probe for `seconds`, an hour at most: the provider asked for no calls for that long."""
        wait = min(seconds, LONGEST_HOLD)
        if wait >= self.opens_in:
            after = (self._clock.now() + wait) // _MINUTE * _MINUTE + _MINUTE
            until = f"{dt.datetime.fromtimestamp(after, dt.UTC):%H:%M} UTC"
            asked, tried = (f"until {until}", "that") if wait == seconds else ("for more than an hour", until)
            self.asked = f"the provider asked for no calls {asked}; the first evaluation after {tried} tries again"
        self.trip(wait, why)

    def _ended(self, well: bool | None, probe: bool, why: str) -> None:
        if probe:
            self._probing = False
            if well is not None:
                self.asked = ""
            if well:
                self._close()
            self._move()
        elif well is not None:
            self._record(failed=not well, why=why)

    def _record(self, *, failed: bool, why: str) -> None:
        now = self._clock.monotonic()
        self._calls.append((now, failed, why))
        self._failed += failed
        while self._calls[0][0] < now - WINDOW:
            self._failed -= self._calls.popleft()[1]
        many = len(self._calls) >= FEWEST and self._failed >= SHARE * len(self._calls)
        if failed and many and not self.is_open:
            self.trip()

    def _close(self) -> None:
        self._next_probe = None
        self._calls.clear()
        self._failed = 0
        self.cause = ""
        self._changed(False)

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()


class Admission:
    """Admits calls, at most `concurrency` at a time and `per_minute` per minute (None: no rate limit)."""

    def __init__(
        self, breaker: Breaker, per_minute: float | None, concurrency: int, runtime: Runtime, pause: Pause
    ) -> None:
        self._breaker = breaker
        self._pause = pause
        self._pacer = Pacer(per_minute)
        self._share = runtime.share
        self._slots = asyncio.Semaphore(concurrency)
        self._clock = runtime.clock

    @asynccontextmanager
    async def admit(self, deadline: float, *, probe: bool = False) -> AsyncIterator[Pass]:
        """Wait until a call may go out. The body makes the call and reports to the pass how it ended.

        `deadline` is on the monotonic clock. `probe` marks the one call that probes a paused judge. Raises
        `JudgeError(breaker_open)` if the breaker stays open beyond the deadline, and `JudgeError(paused)` if the judge
        is paused in the meantime.
        """
        with self._pause.waiting(probe=probe):
            held = await self._held(deadline)
        try:
            self._pause.check(probe=probe)
            yield held
        finally:
            self._slots.release()
            held.left()  # ignored if the body has reported how the call ended

    async def _held(self, deadline: float) -> Pass:
        """Return a pass, with a slot taken."""
        while True:
            held = await self._pass(deadline)
            try:
                await anyio.sleep(self._pacer.turn(self._clock.monotonic(), self._share.of_budget))
                await self._slots.acquire()
            except BaseException:
                held.left()
                raise
            if held.probe or not self._breaker.is_open:
                return held
            self._slots.release()  # the breaker opened meanwhile

    async def _pass(self, deadline: float) -> Pass:
        while (held := self._breaker.enter()) is None:
            left = deadline - self._clock.monotonic()
            until_probe = self._breaker.opens_in
            if left <= 0 or until_probe > left:
                why = f": {self._breaker.cause}" if self._breaker.cause else ""
                asked = self._breaker.asked
                held_back = f"are held back: {asked}" if asked else "have been held back after failures for too long"
                raise JudgeError(UnscoredReason.BREAKER_OPEN, f"calls {held_back}{why}")
            with anyio.move_on_after(until_probe or left):
                await self._breaker.moved()
        return held
