"""A complete trace, and why it was closed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.model.span import LogRecord, RefusedParts, Span


class Closed(StrEnum):
    """Why a trace was closed. Only the first means that it is complete."""

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

    `spans` are ordered by (start, span id), `records` by (time, content), regardless of their order of arrival.
    `probability` (0 < p <= 1) is the probability with which it was kept: upstream samplers times our head sampling.
    `app` is the first service seen in it, `received_at` the arrival of its first part in seconds since the epoch.
    `refused` counts its parts that were refused.
    """

    trace_id: str
    spans: tuple[Span, ...]
    records: tuple[LogRecord, ...] = ()
    closed: Closed = Closed.ROOT_ENDED
    app: str = ""
    source: str = ""
    probability: float = 1.0
    received_at: float = 0.0
    refused: tuple[RefusedParts, ...] = ()
