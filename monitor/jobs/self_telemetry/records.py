"""Turns an event of the monitor into an OpenTelemetry log record. Imports the SDK."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from monitor import __version__
from monitor.jobs.self_telemetry.spans import current, plain
from monitor.telemetry.events import Event
from monitor.transport.otlp.exporter_settings import SERVICE

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
    told = {f"rag_monitor.{name}": plain(value) for name, value in fields.items() if value is not None}
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
            attributes=told,
        ),
        resource,
        _SCOPE,
    )
