"""The service versions behind the current results, and when they last changed.

A version (generation) is running while its results arrive. A version that was not running begins with its first result:
that is a change, which is logged as an event and named in alerts. Several versions may run side by side, as in a
rollout or an A/B test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from monitor.model.service_version import SeenVersion, ServiceVersion, VersionChange
from monitor.stages import Runtime
from monitor.telemetry.events import Event
from monitor.telemetry.metrics import printable

MOST: Final = 10
"""Versions of one app and evaluator that are tracked at a time. Values that change with every request are not versions:
beyond this limit, a new one is neither a change nor a series."""

OVER_AFTER: Final = 3600.0
"""Seconds without a result after which a service version is over, if another has had results since."""


@dataclass(slots=True)
class _Running:
    generation: ServiceVersion
    began: float
    seen: float


class ServiceVersions:
    """Tracks the service versions of every app and evaluator. `app` is always a label value."""

    def __init__(self, runtime: Runtime) -> None:
        self._metrics = runtime.metrics
        self._events = runtime.events
        self._running: dict[tuple[str, str], dict[str, _Running]] = {}
        self._changes: dict[tuple[str, str], VersionChange] = {}

    def latest(self, app: str, evaluator: str) -> VersionChange | None:
        """Return the last change, for the text of an alert; None if no change is known."""
        return self._changes.get((app, evaluator))

    def restore(self, known: Iterable[SeenVersion]) -> None:
        """Restore what an earlier process saw, so that a change while no monitor was running is noticed."""
        for one in sorted(known, key=lambda one: one.began):
            running = self._running.setdefault((one.app, one.evaluator), {})
            before = _last(running)
            self._expire(one.app, one.evaluator, one.began)
            if len(running) >= MOST:
                continue
            running[one.service_version.fingerprint] = _Running(one.service_version, one.began, one.seen)
            self._expose(one.app, one.evaluator, one.service_version)
            if before is not None:
                self._note(
                    one.app,
                    one.evaluator,
                    VersionChange(one.began, one.service_version.changes_from(before.generation)),
                )
            self._expire(one.app, one.evaluator, one.seen)

    def saw(self, app: str, evaluator: str, generation: ServiceVersion, at: float) -> None:
        """Record a result of `generation`, made at the wall-clock second `at`."""
        running = self._running.setdefault((app, evaluator), {})
        fingerprint = generation.fingerprint
        before = _last(running)
        known = running.get(fingerprint)
        if known is not None:
            known.seen = max(known.seen, at)
            if len(running) > 1:
                self._expire(app, evaluator, at)
            return
        self._expire(app, evaluator, at)
        if len(running) >= MOST:
            return
        running[fingerprint] = _Running(generation, at, at)
        self._expose(app, evaluator, generation)
        if before is not None:
            change = VersionChange(at, generation.changes_from(before.generation))
            self._note(app, evaluator, change)
            self._events.info(
                Event.SERVICE_VERSION_CHANGED,
                "new service version: do not compare rates before and after it",
                app=app,
                evaluator=evaluator,
                change=change.text,
                fingerprint=fingerprint,
            )

    def _note(self, app: str, evaluator: str, change: VersionChange) -> None:
        self._changes[app, evaluator] = change
        self._metrics.service_version_start.labels(app, evaluator).set(change.at)

    def _expire(self, app: str, evaluator: str, now: float) -> None:
        running = self._running[app, evaluator]
        last = _last(running)
        for fingerprint, one in list(running.items()):
            if one is not last and now - one.seen > OVER_AFTER:
                del running[fingerprint]
                self._metrics.service_version_info.remove(*_labels(app, evaluator, one.generation))

    def _expose(self, app: str, evaluator: str, generation: ServiceVersion) -> None:
        self._metrics.service_version_info.labels(*_labels(app, evaluator, generation)).set(1)


def _labels(app: str, evaluator: str, generation: ServiceVersion) -> tuple[str, ...]:
    return (app, evaluator, generation.fingerprint, *map(printable, generation.parts.values()))


def _last(running: dict[str, _Running]) -> _Running | None:
    return max(running.values(), key=lambda one: one.seen, default=None)
