"""A running pipeline, looked at from outside: where one request is now. Asked on the event loop; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.clock import Clock
from monitor.model.request_log import RequestRecord
from monitor.pipeline.assembly import Assembly
from monitor.pipeline.introspection.explain import OpenTrace
from monitor.pipeline.run import Pipeline

_TRACE_ID = 32


class LiveRequests:
    """Where requests of a running pipeline are now."""

    def __init__(self, pipeline: Pipeline, assembly: Assembly, clock: Clock) -> None:
        self._pipeline = pipeline
        self._assembly = assembly
        self._clock = clock

    def trail(self, request_id: str) -> RequestRecord | None:
        """Return what is known so far of a request in progress."""
        return self._pipeline.notes.of(request_id)

    def open_trace(self, request_id: str) -> OpenTrace | None:
        """Return a trace that is not complete yet."""
        try:
            found = self._assembly.look(bytes.fromhex(request_id)) if len(request_id) == _TRACE_ID else None
        except ValueError:
            return None
        if found is None:
            return None
        until = self._clock.now() + max(found.due - self._clock.monotonic(), 0.0)
        counts = (found.spans, found.records)
        return OpenTrace(found.app, found.source, found.received_at, until, *counts, found.root_ended)

    def is_unread(self, request_id: str) -> bool:
        """Whether a request is complete and waits for extraction."""
        return self._pipeline.is_unread(request_id)

    def waiting(self) -> Mapping[str, int]:
        """Return by evaluator the selected cases that have no outcome yet."""
        return self._pipeline.notes.waiting()

    @property
    def pending(self) -> int:
        """The number of requests that have not ended."""
        return self._pipeline.pending
