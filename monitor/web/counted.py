"""What the monitor's own counters say: where traces ended, and what came to no verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import Counter, Gauge, Info

from monitor.model.external import ScoreSource
from monitor.telemetry.metrics import Metrics, samples

Pair = tuple[str, str]


@dataclass(slots=True)
class Ledger:
    """One app's traces since the process started: `received` is the sum of `ended` and `pending`."""

    received: int = 0
    pending: int = 0
    ended: dict[str, int] = field(default_factory=dict)

    @property
    def in_words(self) -> str:
        """Where those ended that were not judged: `3 not_rag, 1 incomplete`."""
        parts = [f"{number} {outcome}" for outcome, number in self.ended.items() if outcome != "evaluated"]
        return ", ".join([*parts, f"{self.pending} not yet done"] if self.pending else parts)


@dataclass(frozen=True, slots=True)
class Counted:
    """By app the ledger; by app and evaluator what was begun, and what came to no verdict by reason.

    `foreign` are the evaluators that are not ours and have said something, and how their verdicts come.
    """

    ledgers: Mapping[str, Ledger]
    selected: Mapping[Pair, int]
    unscored: Mapping[Pair, Mapping[str, int]]
    skipped: Mapping[Pair, Mapping[str, int]]
    foreign: Mapping[str, str]


def counted(metrics: Metrics) -> Counted:
    """All of it at one moment: called on the event loop, where it changes."""
    ledgers: defaultdict[str, Ledger] = defaultdict(Ledger)
    for labels, number in _samples(metrics.traces_received):
        ledgers[labels["app"]].received += number
    for labels, number in _samples(metrics.traces_pending):
        ledgers[labels["app"]].pending += number
    for labels, number in _samples(metrics.traces):
        ended = ledgers[labels["app"]].ended
        if number:
            ended[labels["outcome"]] = ended.get(labels["outcome"], 0) + number
    selected = {(labels["app"], labels["evaluator"]): number for labels, number in _samples(metrics.selected)}
    unscored, skipped = _by_reason(metrics.unscored), _by_reason(metrics.skipped)
    return Counted(dict(ledgers), selected, unscored, skipped, foreign(metrics))


def foreign(metrics: Metrics) -> dict[str, str]:
    """The evaluators that are not ours and have said something, by name, and how: one of `ScoreSource`."""
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
