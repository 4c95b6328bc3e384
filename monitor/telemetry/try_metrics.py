"""The series of tries from the page: asked for by people, and counted here alone."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class TryMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.tries = Counter(
            "ragmonitor_tries",
            "Times that an evaluator was tried on a case from the page: verdict, none. In no rate and no other family.",
            ("evaluator", "outcome"),
            registry=r,
        )
        self.tries_cost = Counter(
            "ragmonitor_tries_cost_dollars",
            "US dollars that tries from the page have cost; not in ragmonitor_judge_cost_dollars_total.",
            registry=r,
        )
