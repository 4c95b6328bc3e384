"""Live results by each configured slice: a family of its own beside the totals.

A slice is no label of the families that alerts read, for three reasons. Labels multiply: three slices of twenty values
make 9,261 series of one, a family of their own makes 63. A new value begins a new series, whose first result
`increase()` cannot see: in a family of its own that costs the slice a result, as a label it would bias the whole. And
rules and dashboards need not sum over labels that differ from one configuration to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from prometheus_client import Counter

from monitor.clock import Clock
from monitor.model.outcome import EvaluationResult
from monitor.statistics.rates import Sums
from monitor.statistics.slice_sums import Sliced
from monitor.telemetry.metrics import OVERFLOW, Metrics, printable

MOST_VALUES: Final = 20
"""Values of one slice of one app; further ones are counted under `__other__`."""

FORGET_AFTER: Final = 7 * 86400.0
"""Seconds after which a value that no longer occurs makes room for a new one: the longest window of an alert."""


class _Cells(NamedTuple):
    number: Counter
    weight: Counter
    squares: Counter


_Place = tuple[str, str]  # app and slice


class SliceMetrics:
    """Counts results by slice. Each slice sums to the whole: `__other__` and the empty value are values, too."""

    def __init__(self, names: Sequence[str], metrics: Metrics, clock: Clock) -> None:
        self._names = tuple(names)
        self._metrics = metrics
        self._clock = clock
        self.recent = Sliced(clock)
        """Those of the last day."""
        self._seen: dict[_Place, dict[str, float]] = {}  # the last time of each value
        self._cells: dict[_Place, dict[tuple[str, str, str, bool], _Cells]] = {}

    def count(self, app: str, result: EvaluationResult) -> None:
        """Count a score; `app` is a label value."""
        for name in self._names:
            place = (app, name)
            value = self._value(place, result.case.attributes.get(name, ""))
            cells = self._of(place, result.evaluator, result.version, value)[result.defect]
            cells.number.inc()
            cells.weight.inc(result.weight)
            cells.squares.inc(result.weight**2)
            at = result.case.answered_at or result.evaluated_at
            self.recent.add((app, result.evaluator), name, value, at, Sums.of(result.weight, defect=result.defect))

    def _value(self, place: _Place, given: str) -> str:
        value = printable(given)
        if value in ("", OVERFLOW):
            return value
        now, seen = self._clock.monotonic(), self._seen.setdefault(place, {})
        if value not in seen and len(seen) >= MOST_VALUES:
            oldest = min(seen, key=lambda one: seen[one])
            if now - seen[oldest] <= FORGET_AFTER:
                return OVERFLOW
            del seen[oldest]
            self._remove(place, oldest)
        seen[value] = now
        return value

    def _of(self, place: _Place, evaluator: str, version: str, value: str) -> dict[bool, _Cells]:
        cells = self._cells.setdefault(place, {})
        if (evaluator, version, value, True) not in cells:
            for defect in (False, True):
                labels = (place[0], evaluator, version, place[1], value, str(defect).lower())
                made = _Cells(*(family.labels(*labels) for family in self._families))
                cells[evaluator, version, value, defect] = made
        return {defect: cells[evaluator, version, value, defect] for defect in (False, True)}

    def _remove(self, place: _Place, value: str) -> None:
        self.recent.remove(*place, value)
        cells = self._cells[place]
        for evaluator, version, held, defect in [key for key in cells if key[2] == value]:
            del cells[evaluator, version, held, defect]
            for family in self._families:
                family.remove(place[0], evaluator, version, place[1], held, str(defect).lower())

    @property
    def _families(self) -> tuple[Counter, Counter, Counter]:
        metrics = self._metrics
        return (metrics.slice_evaluations, metrics.slice_weight, metrics.slice_weight_squares)
