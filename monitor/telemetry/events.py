"""Events: a single call writes the log line and counts the event, so that neither can be forgotten."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from monitor.telemetry.metrics import Metrics


class Event(StrEnum):
    """The closed set of events. The values are also the values of the metric label `event`."""

    STARTED = "started"
    LISTENING = "listening"
    STOPPING = "stopping"
    STOPPED = "stopped"
    RELOADED = "reloaded"
    RELOAD_FAILED = "reload_failed"
    REQUEST_REFUSED = "request_refused"
    REQUEST_INVALID = "request_invalid"
    UNAUTHENTICATED = "unauthenticated"
    RECEIVER_FAILED = "receiver_failed"
    SPOOL_FULL = "spool_full"
    SPOOL_FAILED = "spool_failed"
    SPOOL_RECOVERED = "spool_recovered"
    DATABASE_DAMAGED = "database_damaged"
    STATE_FAILED = "state_failed"
    STATE_RECOVERED = "state_recovered"
    SPOOL_REPLAYED = "spool_replayed"
    MEMORY_SHORT = "memory_short"
    REQUEST_SET_ASIDE = "request_set_aside"
    WORKER_REPLACED = "worker_replaced"
    NO_WORKERS = "no_workers"
    EXTRACTION_FAILED = "extraction_failed"
    EVALUATOR_FAILED = "evaluator_failed"
    EVALUATOR_OFF = "evaluator_off"
    BOOST_PAUSED = "boost_paused"
    SERVICE_VERSION_CHANGED = "service_version_changed"
    NON_PRODUCTION_TRAFFIC = "non_production_traffic"
    JUDGE_BREAKER_OPENED = "judge_breaker_opened"
    JUDGE_BREAKER_CLOSED = "judge_breaker_closed"
    JUDGE_BROKEN = "judge_broken"
    JUDGE_PAUSED = "judge_paused"
    JUDGE_RESUMED = "judge_resumed"
    JUDGE_KEY_FAILED = "judge_key_failed"
    JUDGE_BUDGET_SPENT = "judge_budget_spent"
    JUDGE_READY = "judge_ready"
    SEVERE_CASE = "severe_case"
    CANARY_JUDGED = "canary_judged"
    CANARY_LEARNED = "canary_learned"
    CANARY_FAILED = "canary_failed"
    CALIBRATION_READ = "calibration_read"
    CALIBRATION_FAILED = "calibration_failed"
    SINK_BEGINS = "sink_begins"
    SINK_FAILED = "sink_failed"
    SINK_RECOVERED = "sink_recovered"
    SINK_REJECTED = "sink_rejected"
    SINK_EXPIRED = "sink_expired"
    BACKFILL_WAITS = "backfill_waits"
    BACKFILL_FAILED = "backfill_failed"
    KAFKA_UNREACHABLE = "kafka_unreachable"
    KAFKA_BACK = "kafka_back"
    KAFKA_REFUSED = "kafka_refused"
    KAFKA_JOINED = "kafka_joined"
    KAFKA_REBUILT = "kafka_rebuilt"
    KAFKA_POLL_STUCK = "kafka_poll_stuck"
    KAFKA_PARTITION_STUCK = "kafka_partition_stuck"
    KAFKA_TOPIC_MISSING = "kafka_topic_missing"
    KAFKA_EXPIRED = "kafka_expired"
    KAFKA_UNKEYED = "kafka_unkeyed"
    KAFKA_FIELDS_UNREAD = "kafka_fields_unread"
    TEXTS_VIEWED = "texts_viewed"
    TEXTS_EXPORTED = "texts_exported"
    TEXTS_TRIED = "texts_tried"
    TEXTS_FORGOTTEN = "texts_forgotten"
    INCIDENT_NOTED = "incident_noted"
    REVIEWER_SIGNED_IN = "reviewer_signed_in"
    REVIEWER_REFUSED = "reviewer_refused"
    ANSWER_LABELLED = "answer_labelled"
    TOKENS_READABLE = "tokens_readable"
    AUDIT_FAILED = "audit_failed"
    ALERT_FIRING = "alert_firing"
    ALERT_RESOLVED = "alert_resolved"
    ALERT_DIAGNOSED = "alert_diagnosed"
    DIAGNOSIS_FAILED = "diagnosis_failed"
    NOTIFICATION_FAILED = "notification_failed"
    DIGEST_SENT = "digest_sent"
    DIGEST_FAILED = "digest_failed"
    REQUEST_LOG_FAILED = "request_log_failed"
    REQUEST_LOG_RECOVERED = "request_log_recovered"
    TELEMETRY_FAILED = "telemetry_failed"
    TELEMETRY_BACK = "telemetry_back"


EventListener: TypeAlias = Callable[[int, Event, str, Mapping[str, object]], None]
"""A listener: gets the logging level, the event, its message and its fields. It must be quick and never raise, and may
be called in any thread."""


class Events:
    """Writes events to the log and counts them in `ragmonitor_events_total`."""

    def __init__(self, metrics: Metrics, logger: logging.Logger | None = None) -> None:
        self._counters = {event: metrics.events.labels(event.value) for event in Event}
        self._logger = logger if logger is not None else logging.getLogger("monitor")
        self._also: list[EventListener] = []

    def also(self, listener: EventListener) -> None:
        """Also call `listener` for every event from now on, regardless of the log level."""
        self._also.append(listener)

    def info(self, event: Event, message: str, **fields: object) -> None:
        """Report an expected event. `fields` are structured data: never text from the traffic, never a secret."""
        self._emit(logging.INFO, event, message, fields)

    def warning(self, event: Event, message: str, **fields: object) -> None:
        """Report an event that may need attention."""
        self._emit(logging.WARNING, event, message, fields)

    def error(self, event: Event, message: str, **fields: object) -> None:
        """Report an event that needs attention."""
        self._emit(logging.ERROR, event, message, fields)

    def _emit(self, level: int, event: Event, message: str, fields: dict[str, object]) -> None:
        self._counters[event].inc()
        self._logger.log(level, message, extra={"event": event.value, "fields": fields})
        for listener in self._also:
            listener(level, event, message, fields)
