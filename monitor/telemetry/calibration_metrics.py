"""What people's labels say of the judges, as sums, from which PromQL has the corrected rate and its limits."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge


class CalibrationMetrics:
    """A part of `Metrics`, and all that `rag-monitor calibrate --metrics` writes.

    Gauges: a file holds all labels that there are, and another file fewer.
    """

    def __init__(self, r: CollectorRegistry) -> None:
        cells = ("evaluator", "version", "verdict", "truth")
        self.calibration_labels = Gauge(
            "ragmonitor_calibration_labels",
            "Results that a person has judged too, by what the judge and the person say: defect or good.",
            cells,
            registry=r,
        )
        self.calibration_label_weight = Gauge(
            "ragmonitor_calibration_label_weight",
            "The sum of their weights: the traffic that they stand for.",
            cells,
            registry=r,
        )
        self.calibration_label_weight_squares = Gauge(
            "ragmonitor_calibration_label_weight_squares",
            "The sum of their squared weights, for limits.",
            cells,
            registry=r,
        )
        kinds = ("evaluator", "version", "verdict")
        self.calibration_results = Gauge(
            "ragmonitor_calibration_results",
            "The results that the labelled ones were drawn from at random, by what the judge says. No series where they"
            " were chosen in another way (`calibrate` without `--audits`).",
            kinds,
            registry=r,
        )
        self.calibration_result_weight = Gauge(
            "ragmonitor_calibration_result_weight", "The sum of their weights.", kinds, registry=r
        )
        self.calibration_result_weight_squares = Gauge(
            "ragmonitor_calibration_result_weight_squares", "The sum of their squared weights.", kinds, registry=r
        )
