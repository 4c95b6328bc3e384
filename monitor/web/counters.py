"""What the monitor's own counters say about each app: how traces ended, and evaluations without a score."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import Counter, Gauge, Info

from monitor.model.external import ScoreSource
from monitor.telemetry.metrics import Metrics, samples

Pair = tuple[str, str]
"""An app and an evaluator."""


@dataclass(slots=True)
class TraceCounts:
    """One app's traces since the process started.

    `ended` counts the requests in traces that were read, and the traces without any, by outcome. `contexts` sums the
    weights of answers by context status.
    """

    received: int = 0
    pending: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    contexts: dict[str, float] = field(default_factory=dict)

    @property
    def context_shares(self) -> dict[str, float]:
        """Return the share of all answers with each context status; empty if there are no answers."""
        every = sum(self.contexts.values())
        return {status: weight / every for status, weight in self.contexts.items()} if every else {}

    @property
    def not_evaluated(self) -> str:
        """How the traces that were not evaluated ended: `3 no_request, 1 incomplete`."""
        parts = [f"{number} {outcome}" for outcome, number in self.ended.items() if outcome != "evaluated"]
        return ", ".join([*parts, f"{self.pending} pending"] if self.pending else parts)


@dataclass(frozen=True, slots=True)
class CounterValues:
    """Trace counts by app; selected, unscored and skipped cases by app and evaluator, the latter two also by reason.

    `external` maps each evaluator whose scores come from outside to how they arrive.
    """

    traces: Mapping[str, TraceCounts]
    selected: Mapping[Pair, int]
    unscored: Mapping[Pair, Mapping[str, int]]
    skipped: Mapping[Pair, Mapping[str, int]]
    external: Mapping[str, str]


def read_counters(metrics: Metrics) -> CounterValues:
    """Return a consistent snapshot; call it on the event loop, where the counters change."""
    traces: defaultdict[str, TraceCounts] = defaultdict(TraceCounts)
    for labels, number in _samples(metrics.traces_received):
        traces[labels["app"]].received += number
    for labels, number in _samples(metrics.traces_pending):
        traces[labels["app"]].pending += number
    for labels, number in (*_samples(metrics.requests_ended), *_samples(metrics.traces)):
        ended = traces[labels["app"]].ended
        if number and labels["outcome"] != "read":
            ended[labels["outcome"]] = ended.get(labels["outcome"], 0) + number
    for labels, weight in samples(metrics.context_weight):
        traces[labels["app"]].contexts[labels["status"]] = weight
    selected = {(labels["app"], labels["evaluator"]): number for labels, number in _samples(metrics.selected)}
    unscored, skipped = _by_reason(metrics.unscored), _by_reason(metrics.skipped)
    return CounterValues(dict(traces), selected, unscored, skipped, external_evaluators(metrics))


def external_evaluators(metrics: Metrics) -> dict[str, str]:
    """Return the evaluators whose scores come from outside, mapped to how the scores arrive."""
    sources = {labels["evaluator"]: labels["source"] for labels, _ in _samples(metrics.evaluator_info)}
    return {name: source for name, source in sorted(sources.items()) if source != ScoreSource.OWN}


def _by_reason(family: Counter) -> dict[Pair, dict[str, int]]:
    found: defaultdict[Pair, dict[str, int]] = defaultdict(dict)
    for labels, number in _samples(family):
        if number:
            found[labels["app"], labels["evaluator"]][labels["reason"]] = number
    return dict(found)


def _samples(family: Counter | Gauge | Info) -> list[tuple[dict[str, str], int]]:
    return [(labels, int(value)) for labels, value in samples(family)]
