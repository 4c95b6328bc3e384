"""Publish results: to all listeners in this process, then to the history; remember which were published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import anyio

from monitor.errors import InvalidData, MonitorError, ResultsRefused
from monitor.model.outcome import EvaluationResult
from monitor.stages import Deliver, Runtime
from monitor.storage.spool import Spool
from monitor.telemetry.events import Event

_LISTENERS: Final = "listeners"
_STORAGE: Final = "storage"
_HISTORY: Final = "history"
_FIRST_PAUSE: Final = 0.5
_LAST_PAUSE: Final = 2.0
"""The longest pause between two attempts to write the history, in seconds, so that writing resumes soon after the disk
works again."""


class Publisher:
    """Publishes results to `sinks`, the history first; their failures are counted under their names.

    These are the sinks that take each result immediately. All others follow the history, see `followers`. While the
    history (`storage`) cannot be written, its results and their publishers wait: the deliveries that the results came
    from are not acknowledged, and receivers refuse new data once too much is waiting.

    `delivered` remembers across restarts which results were published; None: nothing does. `listeners` get a result
    before the sinks, because a slow disk must not delay an alert. They compute and return at once; failures are counted
    under the sink name `listeners`.
    """

    def __init__(
        self,
        sinks: Mapping[str, Deliver],
        delivered: Spool | None,
        runtime: Runtime,
        *,
        listeners: Sequence[Callable[[EvaluationResult], None]] = (),
    ) -> None:
        self._sinks = sinks
        self._listeners = listeners
        self._delivered = delivered
        self._events = runtime.events
        self._tracer = runtime.tracer
        self._failures = {name: runtime.metrics.sink_failures.labels(name) for name in (_LISTENERS, *sinks)}
        self._failing = runtime.metrics.database_failing.labels(_HISTORY)
        self._unwritten = runtime.metrics.database_unwritten.labels(_HISTORY)
        self._works: anyio.Event | None = None  # set when the history, which could not be written, can be again
        self._trying = anyio.Lock()
        self._pause = _FIRST_PAUSE

    def has(self, result: str) -> bool:
        """Return whether the result with this id was published."""
        return self._delivered is not None and self._delivered.remembered(result)

    def remember(self, results: Iterable[str]) -> None:
        """Record that another process has published the results with these ids."""
        if self._delivered is not None:
            self._delivered.remember(results)

    async def one(self, result: EvaluationResult) -> None:
        """Publish one result, as `all` does."""
        await self.all([result])

    async def all(self, results: Sequence[EvaluationResult]) -> None:
        """Publish results. Returns when the history has them and every other sink has them or has failed.

        A cancelled caller waits until a write in progress ends, because a result in the history counts as published.
        """
        for result in results:
            for listener in self._listeners:
                try:
                    listener(result)
                except Exception as error:  # noqa: BLE001 - as for a sink
                    self._failed(_LISTENERS, error, [result])
        if not results:
            return
        for name, deliver in self._sinks.items():
            try:
                with self._tracer.part(f"deliver to {name}"):
                    await (self._store(deliver, results) if name == _STORAGE else deliver(results))
            except Exception as error:  # noqa: BLE001 - a sink that fails must not stop the others; it is counted
                ids = error.ids if isinstance(error, ResultsRefused) else ()
                self._failed(name, error, [one for one in results if one.id in ids] or results)
            if name == _STORAGE:  # right away: a cancelled caller does not get any further
                self.remember(one.id for one in results)
        if _STORAGE not in self._sinks:
            self.remember(one.id for one in results)

    async def ready(self) -> None:
        """Wait while the history cannot be written: the results of requests read now could not be published."""
        while self._works is not None:
            await self._works.wait()

    async def _store(self, deliver: Deliver, results: Sequence[EvaluationResult]) -> None:
        """Write results to the history, and retry as long as it cannot be written.

        While it fails, one caller at a time tries; the others follow once it has succeeded. Raises errors that a retry
        would not fix.
        """
        while self._works is not None or not await self._stored(deliver, results):
            async with self._trying:
                if self._works is None:
                    continue
                await anyio.sleep(self._pause)
                self._pause = min(2 * self._pause, _LAST_PAUSE)
                if await self._stored(deliver, results):
                    return

    async def _stored(self, deliver: Deliver, results: Sequence[EvaluationResult]) -> bool:
        try:
            with anyio.CancelScope(shield=True):  # the write would happen anyway, and the case be evaluated again
                await deliver(results)
        except InvalidData:
            raise
        except MonitorError as error:
            if self._works is None:
                self._works = anyio.Event()
                self._failing.set(1)
                message = "the history cannot be written; results wait, and their deliveries are not acknowledged"
                self._events.error(Event.SINK_FAILED, message, sink=_STORAGE, error=str(error))
            return False
        if self._works is not None:
            self._works.set()
            self._works, self._pause = None, _FIRST_PAUSE
            self._failing.set(0)
            self._events.info(Event.SINK_RECOVERED, "the history can be written again", sink=_STORAGE)
        return True

    def _failed(self, name: str, error: Exception, results: Sequence[EvaluationResult]) -> None:
        """Count results that a sink or a listener did not take, and log the first of them."""
        self._failures[name].inc(len(results))
        if name == _STORAGE:
            self._unwritten.inc(len(results))
        first = results[0]
        self._events.error(
            Event.SINK_FAILED,
            "a sink did not take results",
            sink=name,
            results=len(results),
            evaluator=first.evaluator,
            request=first.case.request_id,
            error=f"{type(error).__name__}: {error}",
        )
