"""The series of backfill. Each step changes both sides of the balance at once, on the event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from monitor.jobs.backfill.store import DONE, BackfillGroup
from monitor.telemetry.metrics import Metrics


class BackfillSeries:
    """Counts by app, evaluator and source; all series of such a group exist at 0 from its first item on."""

    def __init__(self, metrics: Metrics, versions: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._versions = versions
        self._prepared: set[tuple[str, str, str]] = set()
        self.pending: Counter[BackfillGroup] = Counter()
        """Requested items that have not ended."""

    def asked(self, groups: Mapping[BackfillGroup, int]) -> None:
        """Count requested items."""
        for group, number in groups.items():
            labels = self._labels(group)
            self.pending[group] += number
            self._metrics.backfill_requested.labels(*labels).inc(number)
            self._metrics.backfill_pending.labels(*labels).inc(number)

    def ended(self, group: BackfillGroup, outcome: str, *, number: int = 1, weight: float | None = None) -> None:
        """Count items that ended with `outcome`, one of `store.DONE`; `weight` is that of a single scored one."""
        labels = app, evaluator, source = self._labels(group)
        whole = (app, evaluator, self._versions[evaluator], source, outcome)
        self.pending[group] -= number
        self._metrics.backfill_pending.labels(*labels).dec(number)
        self._metrics.backfill_evaluations.labels(*whole).inc(number)
        if weight is not None:
            self._metrics.backfill_weight.labels(*whole).inc(weight)
            self._metrics.backfill_weight_squares.labels(*whole).inc(weight**2)

    def missed(self, groups: Iterable[BackfillGroup], outcome: str) -> None:
        """Count missed evaluations that were `kept`, `dropped` or `expired`."""
        for group in groups:
            self._metrics.backfill_missed.labels(self._app(group.app), group.evaluator, outcome).inc()

    def paid(self, dollars: float) -> None:
        """Count the cost."""
        self._metrics.backfill_cost.inc(dollars)

    def _labels(self, group: BackfillGroup) -> tuple[str, str, str]:
        metrics = self._metrics
        labels = self._app(group.app), group.evaluator, group.source
        if labels not in self._prepared:
            self._prepared.add(labels)
            app, evaluator, source = labels
            for outcome in DONE:
                metrics.backfill_evaluations.labels(app, evaluator, self._versions[evaluator], source, outcome)
            for family in (metrics.backfill_weight, metrics.backfill_weight_squares):
                for outcome in ("defect", "passed"):
                    family.labels(app, evaluator, self._versions[evaluator], source, outcome)
        return labels

    def _app(self, app: str) -> str:
        return self._metrics.app(app)
