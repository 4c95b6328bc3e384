"""The pause of one judge: its provider refuses until somebody acts, so it is not asked, save by a probe now and then.

The breaker beside it is for a provider that is down and comes back by itself. Here nothing comes back before a key is
mended, a bill is paid or a model is named anew, and no judgement waits for that: each ends at once, as `paused`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, NamedTuple, Self

import anyio

from monitor.clock import Clock
from monitor.errors import JudgeError
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import UnscoredReason
from monitor.stages import Runtime
from monitor.telemetry.events import Event, Events

FIRST_PROBE: Final = 15.0
"""Seconds from the beginning of a pause to its first probe; each one after that waits twice as long."""
LAST_PROBE: Final = 300.0
"""Seconds between two probes at most."""


class Cause(StrEnum):
    """Why a provider refuses until somebody acts. The closed set."""

    REFUSED = "refused"  # the key
    UNPAID = "unpaid"
    GONE = "gone"  # the model, the deployment, or the address


class Paused(NamedTuple):
    """A pause as it stands: why, since when (wall clock), what to do about it, and the judgements missed so far."""

    cause: Cause
    since: float
    why: str
    remedy: str
    missed: int


class Pause:
    """Whether one judge is asked.

    Args:
        place: where its options stand in the configuration, such as `judges.small`.
        key_file: whether its key is read from a file, so that another one needs no restart.
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
        """That of the judge `name`, which is empty for the section `judge`."""
        return cls(
            runtime.clock,
            runtime.events,
            place=f"judges.{name}" if name else "judge",
            model=settings.model or "",
            key_file=settings.api_key_file is not None,
        )

    @property
    def now(self) -> Paused | None:
        """The pause as it stands; None where the judge is asked."""
        return self._now

    def enter(self) -> bool:
        """Leave for one question: True where it is the probe, which `probed` must end. Raises `JudgeError(paused)`."""
        if self._now is None:
            return False
        if self._probing or self._clock.monotonic() < self._next_probe:
            raise self.fault()
        self._probing = True
        self._wait = min(2 * self._wait, LAST_PROBE)
        return True

    def check(self, *, probe: bool) -> None:
        """Raises `JudgeError(paused)` where a pause has begun since `enter`."""
        if self._now is not None and not probe:
            raise self.fault()

    @contextmanager
    def waiting(self, *, probe: bool) -> Iterator[None]:
        """Around a wait before a call: a pause that begins ends it with `JudgeError(paused)`, save for the probe's."""
        with anyio.CancelScope() as scope:
            if not probe:
                self._waiting.add(scope)
            try:
                yield
            finally:
                self._waiting.discard(scope)
        if scope.cancelled_caught:
            raise self.fault()

    def refused(self, cause: Cause, why: str) -> None:
        """A call was refused for `cause`; `why` says how, in our own words. Begins a pause, or goes on with it."""
        before = self._now
        if before is None:
            self._wait, self._next_probe = FIRST_PROBE, self._clock.monotonic() + FIRST_PROBE
            for scope in list(self._waiting):
                scope.cancel()
        if before is None or before.cause is not cause:
            since, missed = (before.since, before.missed) if before else (self._clock.now(), 0)
            self._now = Paused(cause, since, why, self._remedy(cause), missed)
            self._events.error(
                Event.JUDGE_PAUSED,
                f"the judge is paused: {why}. What to do: {self._now.remedy}",
                judge=self._place,
                model=self._model,
                cause=cause.value,
            )

    def answered(self) -> None:
        """The probe was answered: the judge is asked again."""
        ended, self._now = self._now, None
        if ended is not None:
            offer = "; `rag-monitor backfill --missed` judges them now" if ended.missed else ""
            self._events.info(
                Event.JUDGE_RESUMED,
                f"the judge answers again: it was paused, and {ended.missed} judgements were missed{offer}",
                judge=self._place,
                model=self._model,
                cause=ended.cause.value,
                missed=ended.missed,
                since=round(ended.since, 3),
                seconds=round(self._clock.now() - ended.since, 3),
            )

    def probed(self) -> None:
        """The probe ended, however it did."""
        self._probing = False
        self._next_probe = self._clock.monotonic() + self._wait

    def hasten(self) -> None:
        """There is another key: the next question is a probe."""
        self._wait, self._next_probe = FIRST_PROBE, self._clock.monotonic()

    def missed(self) -> None:
        """A judgement came to nothing because of this."""
        if self._now is not None:
            self._now = self._now._replace(missed=self._now.missed + 1)

    def fault(self) -> JudgeError:
        """What a question gets that is not put."""
        return JudgeError(UnscoredReason.PAUSED, f"the judge is paused: {self._now.why}" if self._now else "paused")

    def _remedy(self, cause: Cause) -> str:
        place = self._place
        if cause is Cause.UNPAID:
            return f"pay, or raise the limit of the account at the provider of {place}; it goes on by itself then"
        if cause is Cause.GONE:
            return (
                f"look whether {place}.model and {place}.api_base are right and the model is still offered; after a "
                "change of them start the monitor anew"
            )
        if self._key_file:
            return f"write a valid key into the file that {place}.api_key_file names; it goes on by itself then"
        return (
            f"give a valid key as {place}.api_key and start the monitor anew (with {place}.api_key_file a new key needs"
            " no restart), or grant the key what it lacks at the provider: it goes on by itself then"
        )
