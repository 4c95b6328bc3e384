"""The series of judging afterwards, apart from all that rates and alerts look at."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

_RESULT = ("app", "evaluator", "version", "source", "outcome")


class BackfillMetrics:
    """A part of `Metrics`. At every scrape, for each app, evaluator and source: asked = evaluations + pending."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.backfill_asked = Counter(
            "ragmonitor_backfill_asked",
            "Judgements that `rag-monitor backfill` has asked for, those found at the start of the process included."
            " source: kafka, spool, file, missed.",
            ("app", "evaluator", "source"),
            registry=r,
        )
        self.backfill_pending = Gauge(
            "ragmonitor_backfill_pending",
            "Judgements that were asked for and are not made yet.",
            ("app", "evaluator", "source"),
            registry=r,
        )
        self.backfill_evaluations = Counter(
            "ragmonitor_backfill_evaluations",
            "Judgements that were asked for, by what became of them: defect, passed, skipped, unscored, expired (waited"
            " for too long, or cannot be read), known (there was a verdict by then), forgotten (as somebody asked for)."
            " In no rate and no alert.",
            _RESULT,
            registry=r,
        )
        self.backfill_weight = Counter(
            "ragmonitor_backfill_weight",
            "Sum of weights of those that are scored.",
            _RESULT,
            registry=r,
        )
        self.backfill_weight_squares = Counter(
            "ragmonitor_backfill_weight_squares",
            "Sum of squared weights of those that are scored.",
            _RESULT,
            registry=r,
        )
        self.backfill_missed = Counter(
            "ragmonitor_backfill_missed",
            "Judgements that were due while the judge refused: kept for `rag-monitor backfill --missed`, dropped (for"
            " want of room, or as the queue could not be written), or expired, after they were kept.",
            ("app", "evaluator", "fate"),
            registry=r,
        )
        self.spool_retained_bytes = Gauge(
            "ragmonitor_spool_retained_bytes",
            "What the deliveries take that are done with and kept for `rag-monitor backfill --from spool`.",
            registry=r,
        )
        self.spool_retained_dropped = Counter(
            "ragmonitor_spool_retained_dropped",
            "Deliveries of which less than `storage.retain` is kept: for want of room, or of a disk that takes them.",
            registry=r,
        )
        self.backfill_cost = Counter(
            "ragmonitor_backfill_cost_dollars",
            "US dollars that the calls of judging afterwards have cost; not in ragmonitor_judge_cost_dollars_total.",
            registry=r,
        )
