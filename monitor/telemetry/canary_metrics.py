"""The series of the canary set: the judge watched, apart from all that it says of traffic."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class CanaryMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.canary_verdicts = Counter(
            "ragmonitor_canary_verdicts",
            "Verdicts on the canary set held against the reference: same, stricter (a defect where the reference has"
            " none), milder, unscored. Begins to count when the reference is complete, save for unscored.",
            ("evaluator", "version", "agreement"),
            registry=r,
        )
        self.canary_runs = Counter(
            "ragmonitor_canary_runs",
            "Runs of the canary set that were held against the reference.",
            ("evaluator", "version"),
            registry=r,
        )
        self.canary_tolerance = Gauge(
            "ragmonitor_canary_tolerance_ratio",
            "The share of verdicts that may differ from the reference: the judge's own noise and `canary.tolerance`."
            " No series until the reference is complete.",
            ("evaluator", "version"),
            registry=r,
        )
        self.canary_last_run = Gauge(
            "ragmonitor_canary_last_run_timestamp_seconds",
            "When the last run of the canary set began, in this process or before; 0 where there was none.",
            registry=r,
        )
