"""Publish results: to everything in this process that listens, then to every sink; remember which were published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import anyio

from monitor.model.outcome import EvaluationResult
from monitor.stages import Deliver, Runtime
from monitor.storage.spool import Spool
from monitor.telemetry.events import Event

_LISTENERS: Final = "listeners"


class Publisher:
    """Publishes results to `sinks`, one after the other; their failures are counted under their names.

    `delivered` remembers across restarts which results were published; None: nothing does. `listeners` hear a result
    before the sinks, since a slow sink must not hold up an alert: they compute and return at once, and one that fails
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
        """Publish one result. Returns when every sink has it, or has failed to take it, which is counted."""
        for hear in self._listeners:
            try:
                hear(result)
            except Exception as error:  # noqa: BLE001 - as for a sink
                self._failed(_LISTENERS, error)
        for name, deliver in self._sinks.items():
            try:
                with self._tracer.part(f"deliver to {name}"):
                    await deliver(result)
            except Exception as error:  # noqa: BLE001 - a sink that fails must not stop the others; it is counted
                self._failed(name, error)
        self.remember([result.id])

    async def all(self, results: Sequence[EvaluationResult]) -> None:
        """Publish several results side by side, so that the answer of a broker is waited for only once."""
        async with anyio.create_task_group() as side_by_side:
            for result in results:
                side_by_side.start_soon(self.one, result)

    def _failed(self, name: str, error: Exception) -> None:
        self._failures[name].inc()
        self._events.error(
            Event.SINK_FAILED, "a sink did not take a result", sink=name, error=f"{type(error).__name__}: {error}"
        )
