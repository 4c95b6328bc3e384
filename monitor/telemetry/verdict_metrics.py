"""The series of verdicts: those that count, how long they take, by what they are sliced, and those kept apart.

What holds verdicts has the label `version`: the evaluator's, with its options and the judge's model. Another version is
another instrument, whose verdicts are never added to these. A process has one of each evaluator, so the label costs no
series, save while a change is rolled out.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class VerdictMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.evaluations = Counter(
            "ragmonitor_evaluations",
            "Scored evaluations: the number judged.",
            ("app", "evaluator", "version", "level", "defect"),
            registry=r,
        )
        self.evaluation_weight = Counter(
            "ragmonitor_evaluation_weight",
            "Sum of weights (1 / probability of having been chosen) of scored evaluations: the traffic they stand for.",
            ("app", "evaluator", "version", "level", "defect"),
            registry=r,
        )
        self.evaluation_weight_squares = Counter(
            "ragmonitor_evaluation_weight_squares",
            "Sum of squared weights of scored evaluations, for the limits of a rate.",
            ("app", "evaluator", "version", "level", "defect"),
            registry=r,
        )
        self.evaluation_score_weighted = Counter(
            "ragmonitor_evaluation_score_weighted",
            "Sum of weight times (score - lowest score of the scale): for weighted mean scores.",
            ("app", "evaluator", "version"),
            registry=r,
        )
        self.unscored = Counter(
            "ragmonitor_unscored",
            "Evaluations that were due and came to no verdict, by reason. They add to no rate.",
            ("app", "evaluator", "reason"),
            registry=r,
        )
        self.skipped = Counter(
            "ragmonitor_skipped",
            "Evaluations that do not apply to the case, by reason.",
            ("app", "evaluator", "reason"),
            registry=r,
        )
        self.selected = Counter(
            "ragmonitor_evaluations_selected",
            "Evaluations begun. Selected = scored + late + disliked + of other traffic + unscored + skipped + pending.",
            ("app", "evaluator"),
            registry=r,
        )
        self.evaluations_pending = Gauge(
            "ragmonitor_evaluations_pending",
            "Evaluations queued or in flight.",
            ("app", "evaluator"),
            registry=r,
        )
        self.evaluation_duration = Histogram(
            "ragmonitor_evaluation_duration_seconds",
            "Wall clock of one evaluation, waiting for the judge included.",
            ("evaluator",),
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 2.5, 5, 10, 30, 60, 120),
            registry=r,
        )
        self.evaluation_lag = Histogram(
            "ragmonitor_evaluation_lag_seconds",
            "From the service's answer to the verdict on it, of production traffic, late verdicts included.",
            ("evaluator",),
            buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600, 10800, 43200, 86400),
            registry=r,
        )
        self.late_evaluations = Counter(
            "ragmonitor_late_evaluations",
            "Evaluations that ended later after the service's answer than `traffic.late_after`, by outcome: passed,"
            " defect, unscored, skipped. They add to no other rate.",
            ("app", "evaluator", "version", "outcome"),
            registry=r,
        )
        self.late_weight = Counter(
            "ragmonitor_late_evaluation_weight",
            "Sum of weights of those that passed or are defects.",
            ("app", "evaluator", "version", "outcome"),
            registry=r,
        )
        self.late_weight_squares = Counter(
            "ragmonitor_late_evaluation_weight_squares",
            "Sum of squared weights of those that passed or are defects.",
            ("app", "evaluator", "version", "outcome"),
            registry=r,
        )
        self.traffic_evaluations = Counter(
            "ragmonitor_traffic_evaluations",
            "Evaluations of traffic that is not production, by its class (experiment, synthetic, internal) and by"
            " outcome: passed, defect, unscored, skipped. They add to no other rate.",
            ("app", "evaluator", "version", "traffic", "outcome"),
            registry=r,
        )
        self.traffic_weight = Counter(
            "ragmonitor_traffic_evaluation_weight",
            "Sum of weights of those that passed or are defects.",
            ("app", "evaluator", "version", "traffic", "outcome"),
            registry=r,
        )
        self.traffic_weight_squares = Counter(
            "ragmonitor_traffic_evaluation_weight_squares",
            "Sum of squared weights of those that passed or are defects.",
            ("app", "evaluator", "version", "traffic", "outcome"),
            registry=r,
        )
        self.slice_evaluations = Counter(
            "ragmonitor_slice_evaluations",
            "The scored evaluations of `ragmonitor_evaluations_total` once more, by each configured slice and its value"
            " (20 of an app, then `__other__`; empty where a case has none). Begins with the first verdict of a value.",
            ("app", "evaluator", "version", "slice", "value", "defect"),
            registry=r,
        )
        self.slice_weight = Counter(
            "ragmonitor_slice_evaluation_weight",
            "The same of `ragmonitor_evaluation_weight_total`.",
            ("app", "evaluator", "version", "slice", "value", "defect"),
            registry=r,
        )
        self.slice_weight_squares = Counter(
            "ragmonitor_slice_evaluation_weight_squares",
            "The same of `ragmonitor_evaluation_weight_squares_total`.",
            ("app", "evaluator", "version", "slice", "value", "defect"),
            registry=r,
        )
        self.generation_info = Gauge(
            "ragmonitor_generation_info",
            "1 for each combination of versions that verdicts come from: of the evaluator, the judge's model, the"
            " prompt, the index, the service. Gone an hour after its last verdict.",
            ("app", "evaluator", "fingerprint", "version", "judge", "prompt", "index", "service"),
            registry=r,
        )
        self.generation_start = Gauge(
            "ragmonitor_generation_start_timestamp_seconds",
            "When verdicts of the newest generation began; no series where there was only one.",
            ("app", "evaluator"),
            registry=r,
        )
