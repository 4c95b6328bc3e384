"""The series of redaction: how much was masked."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class RedactionMetrics:
    """A part of `Metrics`."""

    def __init__(self, r: CollectorRegistry) -> None:
        self.redacted = Counter(
            "ragmonitor_redacted",
            "Values of personal data that were masked (`redaction`), each once a case, by type. No series where it is"
            " off.",
            ("type",),
            registry=r,
        )
