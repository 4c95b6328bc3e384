"""Live results by configured slice, in separate families beside the totals.

A slice is not a label of the families that alerts read, for three reasons. Labels multiply: three slices of twenty
values turn one series into 9,261, separate families into 63. A new value starts a new series, and `increase()` misses
its first result: in a separate family that costs the slice one result; as a label it would bias the total. And rules
and dashboards need not sum over labels that differ between configurations.

Confidence limits of a slice account for sessions, too: a slice sums the products that its answers add to the total.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from prometheus_client import Counter

from monitor.clock import Clock
from monitor.model.outcome import EvaluationResult
from monitor.pipeline.metrics.sessions import PAIRS
from monitor.statistics.rates import Sums
from monitor.statistics.session_products import alone
from monitor.statistics.slice_sums import Sliced
from monitor.telemetry.metrics import OVERFLOW, Metrics, printable

MOST_VALUES: Final = 20
"""Maximum values of one slice of one app; further values are counted under `__other__`."""

FORGET_AFTER: Final = 7 * 86400.0
"""Seconds after which a value that no longer occurs makes room for a new one: the longest window of an alert."""


class _Cells(NamedTuple):
    number: Counter
    weight: Counter
    squares: Counter


class _Value(NamedTuple):
    """The series of one value of a slice for one evaluator and version: cells by `defect`, and products."""

    cells: dict[bool, _Cells]
    products: tuple[Counter, ...]


_Place = tuple[str, str]  # app and slice


class SliceMetrics:
    """Counts results by slice. Each slice adds up to the total: `__other__` and the empty value are values, too."""

    def __init__(self, names: Sequence[str], metrics: Metrics, clock: Clock) -> None:
        self._names = tuple(names)
        self._metrics = metrics
        self._clock = clock
        self.recent = Sliced(clock)
        """Sums of the last day."""
        self._seen: dict[_Place, dict[str, float]] = {}  # when each value last occurred
        self._values: dict[_Place, dict[tuple[str, str, str], _Value]] = {}

    def count(self, app: str, result: EvaluationResult) -> None:
        """Count a score, and what it adds to the products of its session; `app` is a label value."""
        products = result.session_products.get("") or alone(result.weight, defect=result.defect)
        for name in self._names:
            place = (app, name)
            value = self._value(place, result.case.attributes.get(name, ""))
            found = self._of(place, result.evaluator, result.version, value)
            cells = found.cells[result.defect]
            cells.number.inc()
            cells.weight.inc(result.weight)
            cells.squares.inc(result.weight**2)
            for counter, product in zip(found.products, products, strict=True):
                counter.inc(product)
            at = result.case.answered_at or result.evaluated_at
            one = Sums.of(result.weight, defect=result.defect, products=products)
            self.recent.add((app, result.evaluator), name, value, at, one)

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

    def _of(self, place: _Place, evaluator: str, version: str, value: str) -> _Value:
        values = self._values.setdefault(place, {})
        found = values.get((evaluator, version, value))
        if found is None:
            labels = (place[0], evaluator, version, place[1], value)
            cells = {
                defect: _Cells(*(family.labels(*labels, str(defect).lower()) for family in self._families))
                for defect in (False, True)
            }
            products = tuple(self._metrics.slice_session_products.labels(*labels, of) for of in PAIRS)
            found = values[evaluator, version, value] = _Value(cells, products)
        return found

    def _remove(self, place: _Place, value: str) -> None:
        self.recent.remove(*place, value)
        values = self._values[place]
        for evaluator, version, held in [key for key in values if key[2] == value]:
            del values[evaluator, version, held]
            labels = (place[0], evaluator, version, place[1], held)
            for family in self._families:
                for defect in ("false", "true"):
                    family.remove(*labels, defect)
            for of in PAIRS:
                self._metrics.slice_session_products.remove(*labels, of)

    @property
    def _families(self) -> tuple[Counter, Counter, Counter]:
        metrics = self._metrics
        return (metrics.slice_evaluations, metrics.slice_weight, metrics.slice_weight_squares)
