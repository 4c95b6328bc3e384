"""The series of evaluators' states, and of verdicts that contradict themselves."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class StateMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.evaluator_state = Gauge(
            "ragmonitor_evaluator_state",
            "1 for the state that the evaluator is in now, 0 for the others: never_run, ok, degraded, overloaded,"
            " paused, error. docs/states.md says what each means.",
            ("evaluator", "state"),
            registry=r,
        )
        self.contradictions = Counter(
            "ragmonitor_contradictions",
            "Verdicts whose explanation says the opposite of their score, by how they were counted: defect or passed."
            " The score stands as it is.",
            ("app", "evaluator", "counted"),
            registry=r,
        )
