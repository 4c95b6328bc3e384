"""A monitor in this process, as seen through a `MonitorClient`: its counters, and the answers of its JSON API."""

from __future__ import annotations

from monitor.errors import MonitorError
from monitor.operations.monitor_client import Samples
from monitor.operations.watch.watcher import Watcher
from monitor.telemetry.metrics import Metrics


class FakeMonitor:
    """Counts with the product's own declarations; replaces a `MonitorClient`."""

    url = "http://127.0.0.1:9464"

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.overview: dict[str, object] | None = None
        self.away = False
        self.metrics.alert_threshold.labels("shop", "groundedness", "warning").set(0.1)
        self.metrics.alert_threshold.labels("shop", "groundedness", "critical").set(0.3)

    def judge(self, number: int, defects: int, weight: float = 10.0, app: str = "shop") -> None:
        """Count this many scored answers."""
        for defect, many in (("true", defects), ("false", number - defects)):
            labels = (app, "groundedness", "v1", "low", defect)
            self.metrics.evaluations.labels(*labels).inc(many)
            self.metrics.evaluation_weight.labels(*labels).inc(many * weight)
            self.metrics.evaluation_weight_squares.labels(*labels).inc(many * weight**2)
        self.metrics.traces_received.labels(app, "otlp_http").inc(number)
        self.metrics.traces.labels(app, "otlp_http", "read").inc(number)
        self.metrics.requests_found.labels(app, "otlp_http").inc(number)
        self.metrics.requests_ended.labels(app, "otlp_http", "evaluated").inc(number)

    def samples(self, names: object) -> Samples:
        if self.away:
            raise MonitorError(f"{self.url}: no monitor responds: Connection refused")
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in self.metrics.registry.collect():
            for sample in family.samples:
                if sample.name in names:  # type: ignore[operator]
                    found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return Samples(found)

    def document(self, path: str) -> dict[str, object] | None:
        return self.overview

    def watcher(self) -> Watcher:
        return Watcher(self)  # type: ignore[arg-type]
