"""A trace: all that came in under one trace id, and why waiting for more of it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.model.span import LogRecord, Span


class Closed(StrEnum):
    """Why a trace was closed. Only the first says that it is whole."""

    ROOT_ENDED = "root_ended"
    IDLE = "idle"
    TOO_OLD = "too_old"
    EVICTED = "evicted"
    TOO_LARGE = "too_large"
    SHUTDOWN = "shutdown"
    HANDED_OVER = "handed_over"


@dataclass(frozen=True, slots=True)
class Trace:
    """All spans and log records of one trace id, decoded.

    `spans` are ordered by (start, span id), `records` by (time, content), whatever order they came in. `probability`
    (0 < p <= 1) is that of being kept so far: upstream samplers times our head sampling. `app` is the service that the
    trace was first seen from, `received_at` the wall-clock second of its first part.
    """

    trace_id: str
    spans: tuple[Span, ...]
    records: tuple[LogRecord, ...] = ()
    closed: Closed = Closed.ROOT_ENDED
    app: str = ""
    source: str = ""
    probability: float = 1.0
    received_at: float = 0.0
