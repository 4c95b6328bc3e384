"""Every series that the monitor exports, declared once. `docs/metrics.md` is generated from here.

Never a ratio: ratios do not add over replicas, counters do. Label values come from closed sets or pass a `Capped`.
Children are created once per label set and held by their users; `.labels()` is not for the hot path.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from monitor import __version__
from monitor.telemetry.backfill_metrics import BackfillMetrics
from monitor.telemetry.calibration_metrics import CalibrationMetrics
from monitor.telemetry.canary_metrics import CanaryMetrics
from monitor.telemetry.foreign_metrics import ForeignMetrics
from monitor.telemetry.judge_metrics import JudgeMetrics
from monitor.telemetry.kafka_metrics import KafkaMetrics
from monitor.telemetry.redaction_metrics import RedactionMetrics
from monitor.telemetry.sampling_metrics import SamplingMetrics
from monitor.telemetry.state_metrics import StateMetrics
from monitor.telemetry.trail_metrics import TrailMetrics
from monitor.telemetry.try_metrics import TryMetrics
from monitor.telemetry.verdict_metrics import VerdictMetrics

OVERFLOW = "__other__"
UNKNOWN_APP = "unknown"


def printable(value: str) -> str:
    """A text from outside as a label value that every parser takes: printable, at most 128 characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value[:128])


class Capped:
    """A label value from outside: at most `limit` distinct ones, then `__other__`; made safe for every parser."""

    def __init__(self, limit: int = 200) -> None:
        self._limit = limit
        self._seen: dict[str, str] = {}

    def __call__(self, value: str) -> str:
        """The value to use as a label: printable, at most 128 characters, never a new one beyond the limit."""
        known = self._seen.get(value)
        if known is not None:
            return known
        safe = printable(value)
        if safe not in self._seen:
            if len(self._seen) >= self._limit:
                return OVERFLOW
            self._seen[safe] = safe
        return safe


class Metrics(
    VerdictMetrics,
    BackfillMetrics,
    CalibrationMetrics,
    CanaryMetrics,
    ForeignMetrics,
    JudgeMetrics,
    KafkaMetrics,
    RedactionMetrics,
    SamplingMetrics,
    StateMetrics,
    TrailMetrics,
    TryMetrics,
):
    """All series on one registry. The registry is passed in: a test has its own."""

    def __init__(self, registry: CollectorRegistry | None = None, *, label_values: int = 200) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        VerdictMetrics.__init__(self, self.registry)
        BackfillMetrics.__init__(self, self.registry)
        CalibrationMetrics.__init__(self, self.registry)
        CanaryMetrics.__init__(self, self.registry)
        ForeignMetrics.__init__(self, self.registry)
        JudgeMetrics.__init__(self, self.registry)
        KafkaMetrics.__init__(self, self.registry)
        RedactionMetrics.__init__(self, self.registry)
        SamplingMetrics.__init__(self, self.registry)
        StateMetrics.__init__(self, self.registry)
        TrailMetrics.__init__(self, self.registry)
        TryMetrics.__init__(self, self.registry)
        self.app = Capped(label_values)
        """The one way from a service's name to a label `app`."""
        self.model = Capped(label_values)
        r = self.registry

        # -- the way in
        self.requests = Counter(
            "ragmonitor_receiver_requests",
            "Requests that a source has answered; code is the HTTP status or the gRPC status name.",
            ("source", "code"),
            registry=r,
        )
        self.received_bytes = Counter(
            "ragmonitor_receiver_bytes",
            "Bytes received in request bodies, before decompression.",
            ("source",),
            registry=r,
        )
        self.spans = Counter(
            "ragmonitor_spans",
            "Spans by what became of them: kept, sampled_out, duplicate, late, invalid, self, too_large.",
            ("source", "fate"),
            registry=r,
        )
        self.log_records = Counter(
            "ragmonitor_log_records",
            "Log records by fate: kept, sampled_out, duplicate, late, invalid, self, unrelated, too_large, verdict.",
            ("source", "fate"),
            registry=r,
        )
        self.rows = Counter(
            "ragmonitor_rows",
            "Rows (requests with their answers, as JSON) by fate: kept, sampled_out, duplicate, invalid.",
            ("source", "fate"),
            registry=r,
        )

        # -- the ledger
        self.traces_received = Counter(
            "ragmonitor_traces_received",
            "Traces seen, each once, among them those recovered from the spool at start.",
            ("app", "source"),
            registry=r,
        )
        self.traces = Counter(
            "ragmonitor_traces",
            "The ledger: traces by the one place each ended in. Received = the sum of these + pending.",
            ("app", "source", "fate"),
            registry=r,
        )
        self.traces_pending = Gauge(
            "ragmonitor_traces_pending",
            "Traces that are open, queued or being judged.",
            ("app", "source"),
            registry=r,
        )
        self.traces_closed = Counter(
            "ragmonitor_traces_closed", "Traces by why waiting for more of them ended.", ("reason",), registry=r
        )
        self.readings = Counter(
            "ragmonitor_readings",
            "Requests whose service has answered, by the dialect that their traces are written in.",
            ("app", "convention"),
            registry=r,
        )
        self.reading_fields = Counter(
            "ragmonitor_reading_fields",
            "Of these, those that came with a field: question, context, answer, model, session, tokens.",
            ("app", "convention", "field"),
            registry=r,
        )
        self.service_tokens = Counter(
            "ragmonitor_service_tokens",
            "Tokens that the services spent, estimated for all their traffic: each sampled request by its weight.",
            ("app", "direction"),
            registry=r,
        )
        self.service_seconds = Histogram(
            "ragmonitor_service_answer_seconds",
            "How long the services took to answer, of the sampled requests.",
            ("app",),
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250),
            registry=r,
        )

        self._score: dict[str, Histogram] = {}

        self.sink_failures = Counter(
            "ragmonitor_sink_failures", "Results that a sink did not take.", ("sink",), registry=r
        )

        # -- alerts
        self.alert_threshold = Gauge(
            "ragmonitor_alert_threshold_ratio",
            "The configured threshold of the defect rate.",
            ("app", "evaluator", "severity"),
            registry=r,
        )
        self.alert_regression_z = Gauge(
            "ragmonitor_alert_regression_z",
            "How sure a rise of the defect rate against the week before must be, in standard deviations, by window.",
            ("app", "evaluator", "severity", "window"),
            registry=r,
        )
        self.notifications = Counter(
            "ragmonitor_notifications",
            "Alert notifications by receiver and outcome.",
            ("receiver", "outcome"),
            registry=r,
        )

        # -- the house itself
        self.queue_items = Gauge("ragmonitor_queue_items", "Items waiting in a bounded queue.", ("queue",), registry=r)
        self.queue_limit = Gauge(
            "ragmonitor_queue_limit_items", "What a bounded queue holds at most.", ("queue",), registry=r
        )
        self.oldest_pending = Gauge(
            "ragmonitor_oldest_pending_timestamp_seconds",
            "When the oldest trace that is not yet done arrived; 0 when there is none.",
            registry=r,
        )
        self.open_traces = Gauge("ragmonitor_open_traces", "Traces that are not yet complete.", registry=r)
        self.open_traces_bytes = Gauge(
            "ragmonitor_open_traces_bytes", "Memory held by traces that are not yet complete.", registry=r
        )
        self.spool_bytes = Gauge("ragmonitor_spool_bytes", "Bytes of data in the spool.", registry=r)
        self.spool_rows = Gauge("ragmonitor_spool_records", "Deliveries in the spool.", registry=r)
        self.spool_damaged = Counter(
            "ragmonitor_spool_damaged_records",
            "Spool records that could not be read back and were given up.",
            registry=r,
        )
        self.telemetry_items = Counter(
            "ragmonitor_telemetry_items",
            "The monitor's own spans and log records (`telemetry`), by signal (traces, logs) and fate: sent, dropped.",
            ("signal", "fate"),
            registry=r,
        )
        self.events = Counter("ragmonitor_events", "Occurrences worth a log line, by name.", ("event",), registry=r)
        self.evaluator_info = Info(
            "ragmonitor_evaluator",
            "What an evaluator is: version, scale, unit (share, points, score), direction, defect rule; source: own,"
            " or how the verdicts of somebody else's come.",
            ("evaluator",),
            registry=r,
        )
        self.build = Info("ragmonitor_build", "Version of the monitor and of Python.", registry=r)
        self.build.info({"version": __version__, "python": platform.python_version()})

    def score(self, evaluator: str, boundaries: tuple[float, ...]) -> Histogram:
        """The score histogram of one evaluator, with buckets on the steps of its own scale."""
        if evaluator not in self._score:
            self._score[evaluator] = Histogram(
                "ragmonitor_evaluation_score",
                "Scores, unweighted, on the evaluator's own scale. None of a scale that begins below 0.",
                ("app", "evaluator", "version"),
                buckets=boundaries,
                registry=None,
            )
            if len(self._score) == 1:
                self.registry.register(_Merged(self._score))
        return self._score[evaluator]

    def catalogue(self) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
        """Every family: its name as exposed, its type, its labels, its help."""
        families = {id(one): one for one in (*vars(self).values(), *self._score.values())}
        for family in families.values():
            if isinstance(family, MetricWrapperBase):
                kind = str(family._type)  # noqa: SLF001 - the client library offers no way to ask
                suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
                yield f"{family._name}{suffix}", kind, tuple(family._labelnames), family._documentation  # noqa: SLF001


class _Merged(Collector):
    """Histograms of one family with different buckets, exposed as one family."""

    def __init__(self, parts: dict[str, Histogram]) -> None:
        self._parts = parts

    def collect(self) -> Iterator[object]:  # type: ignore[override]
        """One family with the samples of all parts."""
        family = None
        for part in self._parts.values():
            for one in part.collect():
                if family is None:
                    family = one
                else:
                    family.samples.extend(one.samples)
        if family is not None:
            yield family
