"""The tracer that records, on the OpenTelemetry SDK. Importing it takes 0.2 s, so it is imported only if needed.

It samples by itself: work that is not sampled creates no SDK object at all.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Final, Self

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, set_span_in_context

from monitor import __version__
from monitor.clock import Clock
from monitor.telemetry.events import Event
from monitor.telemetry.tracing import NO_FACTS, NOTHING, Fact, Kind, Tracer, Work
from monitor.transport.otlp.exporter_settings import SERVICE

_KINDS: Final = {"internal": SpanKind.INTERNAL, "server": SpanKind.SERVER, "client": SpanKind.CLIENT}

_INT64: Final = 2**63 - 1
_LONGEST: Final = 1024  # characters of a text value

_current: ContextVar[_Recorded | None] = ContextVar("own_work", default=None)


def current() -> Context:
    """Return the trace context of the current work; empty if it is not recorded."""
    work = _current.get()
    return Context() if work is None else set_span_in_context(work.span, Context())


class _Recorded(Work):
    recorded = True

    def __init__(self, span: Span, clock: Clock, *, ends: bool) -> None:
        self.span = span
        self._clock = clock
        self._ends = ends
        self._token: Token[_Recorded | None] | None = None

    def set(self, facts: Mapping[str, Fact]) -> None:
        self.span.set_attributes({name: plain(value) for name, value in facts.items()})

    def fail(self, why: str) -> None:
        self.span.set_attribute("error.type", why)
        self.span.set_status(Status(StatusCode.ERROR))

    def about(self, trace_id: str, span_id: str) -> None:
        try:
            at = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(1))
        except ValueError:
            return  # a row's id may be anything
        if at.is_valid:
            self.span.add_link(at)

    def end(self) -> None:
        self.span.end(_nanoseconds(self._clock.now()))

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _current.reset(self._token)
        if kind is not None:
            self.fail(str(getattr(error, "reason", kind.__name__)))
        if self._ends:
            self.end()


class RecordingTracer(Tracer):
    """Records a share `rate` (0 to 1) of root spans, with their children. `ended` gets each span when it ends."""

    def __init__(
        self,
        ended: Callable[[ReadableSpan], None],
        resource: Resource,
        *,
        rate: float,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        # Ignore the environment: a sampler named there would apply on top of ours.
        provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(_HandOver(ended))
        self._tracer = provider.get_tracer(SERVICE, __version__)
        self._rate = rate
        self._clock = clock
        self._rng = rng

    def begin(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:
        """See `Tracer`."""
        return self._root(name, facts, kind, ends=False)

    def whole(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:
        """See `Tracer`."""
        return self._root(name, facts, kind, ends=True)

    def part(self, name: str, facts: Mapping[str, Fact] = NO_FACTS, kind: Kind = "internal") -> Work:
        """See `Tracer`."""
        work = _current.get()
        if work is None:
            return NOTHING
        return self._start(name, facts, kind, set_span_in_context(work.span, Context()), ends=True)

    def _root(self, name: str, facts: Mapping[str, Fact], kind: Kind, *, ends: bool) -> Work:
        if self._rng.random() >= self._rate:
            return NOTHING
        return self._start(name, facts, kind, Context(), ends=ends)

    def _start(self, name: str, facts: Mapping[str, Fact], kind: Kind, within: Context, *, ends: bool) -> Work:
        span = self._tracer.start_span(
            name,
            within,
            _KINDS[kind],
            {fact: plain(value) for fact, value in facts.items()},
            start_time=_nanoseconds(self._clock.now()),
            record_exception=False,  # its message may contain text of a service
            set_status_on_exception=False,
        )
        return _Recorded(span, self._clock, ends=ends)


class _HandOver(SpanProcessor):
    def __init__(self, ended: Callable[[ReadableSpan], None]) -> None:
        self._ended = ended

    def on_end(self, span: ReadableSpan) -> None:
        self._ended(span)


def plain(value: object) -> Fact:
    """Return a value that can be encoded. A value that cannot be encoded would block the whole batch."""
    if isinstance(value, bool | float) or (isinstance(value, int) and abs(value) <= _INT64):
        return value
    return str(value)[:_LONGEST].encode("utf-8", "replace").decode()


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e6) * 1000  # a float of seconds resolves only microseconds


_SEVERITIES: Final = {
    logging.INFO: (SeverityNumber.INFO, "INFO"),
    logging.WARNING: (SeverityNumber.WARN, "WARN"),
    logging.ERROR: (SeverityNumber.ERROR, "ERROR"),
}
_SCOPE: Final = InstrumentationScope(SERVICE, __version__)


def record(
    level: int, event: Event, message: str, fields: Mapping[str, object], *, at: float, resource: Resource
) -> ReadableLogRecord:
    """Make the record of an event that happened at the wall-clock second `at`."""
    number, text = _SEVERITIES[level]
    attributes = {f"rag_monitor.{name}": plain(value) for name, value in fields.items() if value is not None}
    nanoseconds = round(at * 1e6) * 1000
    return ReadableLogRecord(
        LogRecord(
            timestamp=nanoseconds,
            observed_timestamp=nanoseconds,
            context=current(),
            severity_number=number,
            severity_text=text,
            body=plain(message),
            event_name=f"rag_monitor.{event.value}",
            attributes=attributes,
        ),
        resource,
        _SCOPE,
    )
