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
    """See `operations.diagnosis.Live`."""

    def __init__(self, pipeline: Pipeline, assembly: Assembly, clock: Clock) -> None:
        self._pipeline = pipeline
        self._assembly = assembly
        self._clock = clock

    def trail(self, request_id: str) -> RequestRecord | None:
        """What is known so far of a request that is being worked on."""
        return self._pipeline.notes.of(request_id)

    def open_trace(self, request_id: str) -> OpenTrace | None:
        """A trace that more is awaited of."""
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
        """Whether a request is complete and waits to be read."""
        return self._pipeline.is_unread(request_id)

    def waiting(self) -> Mapping[str, int]:
        """By evaluator the cases that it has chosen and that have no outcome yet."""
        return self._pipeline.notes.waiting()

    @property
    def pending(self) -> int:
        """Requests that have not ended."""
        return self._pipeline.pending
