"""Pauses a judge that cannot answer until someone acts. Only a probe is sent from time to time.

The circuit breaker is for a provider that is down and recovers by itself. A paused judge does not recover until a key
is set or replaced, a bill is paid or the model's name is corrected. No evaluation waits for that: each ends at once, as
`paused`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Self

import anyio

from monitor.clock import Clock
from monitor.errors import JudgeError
from monitor.judge.settings import JudgeSettings
from monitor.judge.setup import PauseCause, place_of, remedy
from monitor.model.outcome import UnscoredReason
from monitor.quantities import number_of
from monitor.stages import Runtime
from monitor.telemetry.events import Event, Events

FIRST_PROBE: Final = 15.0
"""Seconds from the beginning of a pause to its first probe. Each further probe waits twice as long."""
LAST_PROBE: Final = 300.0
"""The longest wait between two probes, in seconds."""


class Paused(NamedTuple):
    """A pause: why, since when (wall clock), what to do about it, and how many evaluations it has cost so far."""

    cause: PauseCause
    since: float
    why: str
    remedy: str
    missed: int


class Pause:
    """Whether one judge is paused.

    `place` is the configuration section of the judge, such as `judges.small`; `key_file` says whether its key is read
    from a file, so that a new key needs no restart.
    """

    def __init__(
        self, clock: Clock, events: Events, *, place: str = "judge", model: str = "", key_file: bool = False
    ) -> None:
        self._clock = clock
        self._events = events
        self._place = place
        self._model = model
        self._key_file = key_file
        self._now: Paused | None = None
        self._wait = FIRST_PROBE
        self._next_probe = 0.0
        self._probing = False
        self._waiting: set[anyio.CancelScope] = set()

    @classmethod
    def of(cls, name: str, settings: JudgeSettings, runtime: Runtime) -> Self:
        """Make the pause of the judge `name`; empty for the section `judge`."""
        return cls(
            runtime.clock,
            runtime.events,
            place=place_of(name),
            model=settings.model or "",
            key_file=settings.api_key_file is not None,
        )

    @property
    def now(self) -> Paused | None:
        """The current pause; None if the judge is not paused."""
        return self._now

    def enter(self) -> bool:
        """Admit one question. True: it is the probe, and `probed` must follow. Raises `JudgeError(paused)`."""
        if self._now is None:
            return False
        if self._probing or self._clock.monotonic() < self._next_probe:
            raise self.fault()
        self._probing = True
        self._wait = min(2 * self._wait, LAST_PROBE)
        return True

    def check(self, *, probe: bool) -> None:
        """Raise `JudgeError(paused)` if a pause has begun since `enter`."""
        if self._now is not None and not probe:
            raise self.fault()

    @contextmanager
    def waiting(self, *, probe: bool) -> Iterator[None]:
        """Wrap a wait before a call: if a pause begins, end it with `JudgeError(paused)`. A probe waits on."""
        with anyio.CancelScope() as scope:
            if not probe:
                self._waiting.add(scope)
            try:
                yield
            finally:
                self._waiting.discard(scope)
        if scope.cancelled_caught:
            raise self.fault()

    def refused(self, cause: PauseCause, why: str) -> None:
        """Begin or continue a pause: a call was refused for `cause`, or is known to fail. `why` gives the details."""
        before = self._now
        if before is None:
            self._wait, self._next_probe = FIRST_PROBE, self._clock.monotonic() + FIRST_PROBE
            for scope in list(self._waiting):
                scope.cancel()
        if before is None or before.cause is not cause:
            since, missed = (before.since, before.missed) if before else (self._clock.now(), 0)
            what = remedy(cause, self._place, model=self._model, key_file=self._key_file)
            self._now = Paused(cause, since, why, what, missed)
            self._events.error(
                Event.JUDGE_PAUSED,
                f"the judge is paused: {why}. To fix it: {self._now.remedy}",
                judge=self._place,
                model=self._model,
                cause=cause.value,
            )

    def answered(self) -> None:
        """End the pause: the probe was answered."""
        ended, self._now = self._now, None
        if ended is not None:
            offer = "; `rag-monitor backfill --missed` runs them now" if ended.missed else ""
            self._events.info(
                Event.JUDGE_RESUMED,
                f"the judge answers again; {number_of(ended.missed, 'evaluation')} missed during the pause{offer}",
                judge=self._place,
                model=self._model,
                cause=ended.cause.value,
                missed=ended.missed,
                since=round(ended.since, 3),
                seconds=round(self._clock.now() - ended.since, 3),
            )

    def probed(self) -> None:
        """Schedule the next probe: this one ended."""
        self._probing = False
        self._next_probe = self._clock.monotonic() + self._wait

    def hasten(self) -> None:
        """Let the next question be a probe: the key has changed."""
        self._wait, self._next_probe = FIRST_PROBE, self._clock.monotonic()

    def missed(self) -> None:
        """Count an evaluation that the pause has prevented."""
        if self._now is not None:
            self._now = self._now._replace(missed=self._now.missed + 1)

    def fault(self) -> JudgeError:
        """Return the error for a question that is not asked."""
        return JudgeError(UnscoredReason.PAUSED, f"the judge is paused: {self._now.why}" if self._now else "paused")
