"""Publish results: to everything in this process that listens, then to the history; remember which were published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from monitor.model.outcome import EvaluationResult
from monitor.stages import Deliver, Runtime
from monitor.storage.spool import Spool
from monitor.telemetry.events import Event

_LISTENERS: Final = "listeners"


class Publisher:
    """Publishes results to `sinks`, the history first; their failures are counted under their names.

    These are the sinks that take a result at once. All others follow the history, see `followers`.

    `delivered` remembers across restarts which results were published; None: nothing does. `listeners` get a result
    before the sinks, since a slow disk must not hold up an alert: they compute and return at once, and one that fails
    is counted as the sink `listeners`.
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

    def has(self, result: str) -> bool:
        """Return whether the result with this id was published."""
        return self._delivered is not None and self._delivered.remembered(result)

    def remember(self, results: Iterable[str]) -> None:
        """Note that another process has published the results with these ids."""
        if self._delivered is not None:
            self._delivered.remember(results)

    async def one(self, result: EvaluationResult) -> None:
        """Publish one result, as `all` does."""
        await self.all([result])

    async def all(self, results: Sequence[EvaluationResult]) -> None:
        """Publish results. Returns when every sink has them, or has failed to take them, which is counted."""
        for result in results:
            for listener in self._listeners:
                try:
                    listener(result)
                except Exception as error:  # noqa: BLE001 - as for a sink
                    self._failed(_LISTENERS, error)
        if not results:
            return
        for name, deliver in self._sinks.items():
            try:
                with self._tracer.part(f"deliver to {name}"):
                    await deliver(results)
            except Exception as error:  # noqa: BLE001 - a sink that fails must not stop the others; it is counted
                self._failed(name, error, len(results))
        self.remember(one.id for one in results)

    def _failed(self, name: str, error: Exception, results: int = 1) -> None:
        self._failures[name].inc(results)
        self._events.error(
            Event.SINK_FAILED, "a sink did not take results", sink=name, error=f"{type(error).__name__}: {error}"
        )
