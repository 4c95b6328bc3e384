"""The series of the judge: its calls, what they cost, how steady it is."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class JudgeMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.judge_requests = Counter(
            "ragmonitor_judge_requests",
            "Calls to the judge's provider by outcome: ok, cached, or the reason of the failure.",
            ("model", "outcome"),
            registry=r,
        )
        self.judge_tokens = Counter(
            "ragmonitor_judge_tokens", "Tokens spent on judging.", ("model", "direction"), registry=r
        )
        self.judge_cost = Counter(
            "ragmonitor_judge_cost_dollars", "US dollars spent on judging.", ("model",), registry=r
        )
        self.judge_breaker_open = Gauge(
            "ragmonitor_judge_breaker_open",
            "1 while calls to the model are held back after failures.",
            ("model",),
            registry=r,
        )
        self.judge_repeats = Counter(
            "ragmonitor_judge_repeats",
            "Cases judged a second time, by whether both verdicts agree that it is a defect: same, other, unscored.",
            ("evaluator", "outcome"),
            registry=r,
        )
        self.judge_duration = Histogram(
            "ragmonitor_judge_request_duration_seconds",
            "Wall clock of one call to the judge's provider.",
            ("model",),
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60),
            registry=r,
        )
