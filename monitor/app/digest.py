"""Sends the digest at its set times, once to each receiver, even across restarts; retries failed deliveries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import anyio

from monitor.alerts.notify import Notifier, ScheduledMessage
from monitor.alerts.notify.receiver import FIRST_RETRY, LAST_RETRY, NotDelivered
from monitor.alerts.notify.text import plain
from monitor.config import Config
from monitor.config.digest import DueTimes
from monitor.errors import MonitorError
from monitor.jobs.own_process import in_own_process
from monitor.operations.digest import Digest, DigestRequest, as_object, build_digest, digest_request
from monitor.operations.digest.words import sections_of, title_of
from monitor.stages import Runtime
from monitor.stages.kept_state import StateValue
from monitor.telemetry.events import Event

CHECK_EVERY: Final = 15.0
"""Seconds between two looks at the clock, which may jump."""

LATE_AT_MOST: Final = 86_400.0
"""Seconds after its due time at which a digest is given up."""

_STATE: Final = "digest"
_OUTCOMES: Final = ("sent", "failed", "missed")
_LONGEST_NAME: Final = 60
_LONGEST_READING: Final = 300.0  # seconds


async def read_digest(request: DigestRequest) -> Digest:
    """Read a digest in a separate process. Raises `MonitorError`."""
    return await in_own_process(build_digest, request, name="reading the digest", longest=_LONGEST_READING)


class _Place(NamedTuple):
    """One address of a receiver, which gets each digest once."""

    name: str
    receiver: str
    notifier: Notifier
    number: int


class DigestSender:
    """Sends the digests of one process. `every`: seconds between two looks at the clock; `read` reads a digest.

    The last due time of each place is kept in the state file. Times are in seconds since 1970.
    """

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        *,
        every: float = CHECK_EVERY,
        read: Callable[[DigestRequest], Awaitable[Digest]] = read_digest,
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._every = every
        self._read = read
        self._times = config.digest.schedule
        self._sent: dict[str, float] = {}
        self._message: tuple[float, ScheduledMessage] | None = None
        self._building = anyio.Lock()

    async def run(self, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
        """Send until cancelled; returns at once if no digest is configured."""
        if self._times is None:
            return
        places = list(self._places())
        self._restore(places)
        self._runtime.kept.follow(_STATE, self._state)
        async with anyio.create_task_group() as tasks:
            for place in places:
                tasks.start_soon(self._serve, place, self._times, sleep)

    def _places(self) -> list[_Place]:
        found = []
        for name, notifier in self._config.digest.receivers(self._config.notify).items():
            for outcome in _OUTCOMES:
                self._runtime.metrics.digests.labels(name, outcome)
            several = notifier.places > 1
            found += [
                _Place(f"{name}[{number}]" if several else name, name, notifier, number)
                for number in range(notifier.places)
            ]
        return found

    def _restore(self, places: list[_Place]) -> None:
        """Restore what the previous process sent. New places and new schedules begin now."""
        kept, now = self._runtime.kept.load(_STATE) or {}, self._runtime.clock.now()
        known = kept.get("sent") if kept.get("every") == self._schedule_text() else None
        sent = known if isinstance(known, Mapping) else {}
        for place in places:
            last = sent.get(place.name)
            self._sent[place.name] = float(last) if isinstance(last, int | float) else now

    def _state(self) -> StateValue:
        return {"every": self._schedule_text(), "sent": dict(self._sent)}

    def _schedule_text(self) -> str:
        return f"{self._config.digest.every} {self._config.digest.timezone}"

    async def _serve(self, place: _Place, times: DueTimes, sleep: Callable[[float], Awaitable[None]]) -> None:
        retry = FIRST_RETRY
        while True:
            now = self._runtime.clock.now()
            due = times.latest(now)
            if self._sent[place.name] > times.following(now):  # the clock was far ahead and has been corrected
                self._sent[place.name] = due
            if self._sent[place.name] >= due:
                await sleep(min(times.following(now) - now, self._every))
            elif now - due > LATE_AT_MOST:
                await self._settle(place, due, "missed")
                self._event(place, f"the digest of {self._schedule_text()} was not sent within a day, and is given up")
                retry = FIRST_RETRY
            elif await self._delivered(place, times, due, retry):
                retry = FIRST_RETRY
            else:
                await sleep(retry)
                retry = min(retry * 2, LAST_RETRY)

    async def _delivered(self, place: _Place, times: DueTimes, due: float, retry: float) -> bool:
        try:
            await place.notifier.deliver(await self._message_of(times, due), place.number)
        except (NotDelivered, MonitorError) as failure:
            self._runtime.metrics.digests.labels(place.receiver, "failed").inc()
            self._event(place, f"the digest was not accepted, next attempt in {retry:g} s: {failure}")
            return False
        await self._settle(place, due, "sent")
        self._runtime.events.info(Event.DIGEST_SENT, "the digest was sent", receiver=place.name)
        return True

    async def _settle(self, place: _Place, due: float, outcome: str) -> None:
        """Save to disk that this due time is done."""
        self._sent[place.name] = due
        self._runtime.metrics.digests.labels(place.receiver, outcome).inc()
        await self._runtime.kept.flush(_STATE)

    async def _message_of(self, times: DueTimes, due: float) -> ScheduledMessage:
        """Return the digest that ends at a due time, read once for all receivers. Raises `MonitorError`."""
        async with self._building:
            if self._message is None or self._message[0] != due:
                since = times.latest(due - 1)
                before = times.latest(since - 1)
                found = await self._read(digest_request(self._config, before=before, since=since, until=due))
                lines: list[str] = []
                for section in sections_of(found, _quoted):
                    lines += ["", section.heading, *section.lines]
                title = title_of(found, _quoted, times.zone)
                self._message = due, ScheduledMessage(title, lines[1:], as_object(found))
            return self._message[1]

    def _event(self, place: _Place, message: str) -> None:
        self._runtime.events.warning(Event.DIGEST_FAILED, message, receiver=place.name)


def _quoted(name: str) -> str:
    return plain(name, _LONGEST_NAME)
