"""The series of the trails that explain what became of requests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

OUTCOMES = ("kept", "shed", "failed")


class TrailMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.trails = Counter(
            "ragmonitor_trails",
            "Requests whose trail was to be kept, for `rag-monitor why`: kept; shed, since too many waited to be"
            " written; failed, since the disk did not take them. No series where `storage.trails` is 0.",
            ("outcome",),
            registry=r,
        )
