"""What people's labels say of a judge, as series: sums, from which PromQL has the corrected rate. Not of the monitor.

`rag-monitor calibrate --metrics` writes them to a file, for the textfile collector of node_exporter.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge


class CalibrationMetrics:
    """Gauges: a file holds all labels that there are, and another file fewer. They add, as counters do."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        names = ("evaluator", "version", "verdict", "truth")
        self.labels = Gauge(
            "ragmonitor_calibration_labels",
            "Results that a person has judged too, by what the judge and the person say: defect or good.",
            names,
            registry=self.registry,
        )
        self.label_weight = Gauge(
            "ragmonitor_calibration_label_weight",
            "The sum of their weights: the traffic that they stand for.",
            names,
            registry=self.registry,
        )
