"""What is counted of a request whatever its verdict: which dialect read it, what it came with, tokens and latency."""

from __future__ import annotations

from typing import NamedTuple

from prometheus_client import Counter, Histogram

from monitor.extraction import coverage
from monitor.model.case import Reading
from monitor.telemetry.metrics import Metrics


class _Coverage(NamedTuple):
    requests: Counter
    fields: dict[str, Counter]


class _ServiceSeries(NamedTuple):
    seconds: Histogram
    input_tokens: Counter
    output_tokens: Counter


class ExtractionMetrics:
    """Counts readings. All series of an app and a dialect are created, at 0, with the first of them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._coverage: dict[tuple[str, str], _Coverage] = {}
        self._services: dict[str, _ServiceSeries] = {}

    def count(self, reading: Reading) -> None:
        """Count a reading, if it is a request that its service has answered."""
        came = coverage.came(reading)
        if came is None:
            return
        case = reading.case
        app = self._metrics.app(case.app)
        covered = self._covered(app, case.convention)
        covered.requests.inc()
        for name in came:
            covered.fields[name].inc()
        service = self._service(app)
        if case.seconds is not None:
            service.seconds.observe(case.seconds)
        service.input_tokens.inc((case.usage.input_tokens or 0) / case.probability)
        service.output_tokens.inc((case.usage.output_tokens or 0) / case.probability)

    def _covered(self, app: str, convention: str) -> _Coverage:
        found = self._coverage.get((app, convention))
        if found is None:
            found = self._coverage[app, convention] = _Coverage(
                self._metrics.extracted_requests.labels(app, convention),
                {name: self._metrics.extracted_fields.labels(app, convention, name) for name in coverage.FIELDS},
            )
        return found

    def _service(self, app: str) -> _ServiceSeries:
        found = self._services.get(app)
        if found is None:
            found = self._services[app] = _ServiceSeries(
                self._metrics.service_seconds.labels(app),
                self._metrics.service_tokens.labels(app, "input"),
                self._metrics.service_tokens.labels(app, "output"),
            )
        return found
