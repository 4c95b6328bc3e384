"""What is learned from verdicts, by app, and how well the learned and the initial order predicted them."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from monitor.statistics.defect_model import INPUTS, DefectModel

_APPS: Final = 200
_SLOPE: Final = 1.2  # the middle of the values fitted on twelve labelled sets, from -0.1 to 3.1
_VERDICTS: Final = 2_000

NEEDED: Final = 30
"""The defects, and as many good answers, that the verdicts must include before an order is rated."""


def first_slopes(*, grounding: bool, slope: float | None = None) -> tuple[float, ...]:
    """Return the initial slopes of a model: `slope`, by default 1.2 for verdicts on grounding and 0 for others.

    It is how much one standard deviation of missing overlap raises the log odds of a defect.
    """
    expected = _SLOPE if grounding else 0.0
    return (expected if slope is None else slope, *(0.0 for _ in INPUTS[1:]))


class Learners:
    """The models of the 200 apps with the latest verdicts. All begin with the same `slopes`."""

    def __init__(self, slopes: Sequence[float]) -> None:
        self._slopes = tuple(slopes)
        self._apps: OrderedDict[str, DefectModel] = OrderedDict()
        self._new = DefectModel(self._slopes)

    def of(self, app: str) -> DefectModel:
        """Return the model of an app; an untaught one if it had no verdicts. Do not teach it."""
        return self._apps.get(app, self._new)

    def to_teach(self, app: str) -> DefectModel:
        """Return the model of an app, to be taught a verdict."""
        found = self._apps.get(app)
        if found is None:
            found = self._apps[app] = DefectModel(self._slopes)
            if len(self._apps) > _APPS:
                self._apps.popitem(last=False)
        self._apps.move_to_end(app)
        return found


class OrderStanding(NamedTuple):
    """How well two orders predicted the verdicts: `before` learning and `learned`, as AUROCs; None with too few.

    `defects` of the `verdicts`, at most the newest 2,000, found a defect. `taught` is the number of all verdicts and
    labels that the model has learned from.
    """

    taught: int = 0
    verdicts: int = 0
    defects: int = 0
    before: float | None = None
    learned: float | None = None

    @property
    def learned_leads(self) -> bool:
        """Whether the learned order predicted the verdicts better than the initial one."""
        return self.before is not None and self.learned is not None and self.learned > self.before


class Foretold:
    """The newest verdicts of one app, each with both dangers of its case before the verdict (higher is worse)."""

    def __init__(self) -> None:
        self._columns = [array("d") for _ in range(4)]  # weight, both dangers, 1 for a defect
        self._found: tuple[float | None, float | None] | None = None

    def add(self, weight: float, before: float, learned: float, *, defect: bool) -> None:
        """Note a verdict that stands for `weight` cases, relative to an even draw."""
        for column, value in zip(self._columns, (weight, before, learned, defect), strict=True):
            column.append(value)
            if len(column) >= 2 * _VERDICTS:
                del column[:_VERDICTS]
        self._found = None

    def standing(self, taught: int) -> OrderStanding:
        """Compare the two orders; takes some milliseconds after a new verdict."""
        weights, before, learned, defective = (column[-_VERDICTS:] for column in self._columns)
        defects = int(sum(defective))
        if min(defects, len(defective) - defects) < NEEDED:
            return OrderStanding(taught, len(defective), defects)
        if self._found is None:
            one, other = (zip(dangers, weights, defective, strict=True) for dangers in (before, learned))
            self._found = weighted_auroc(one), weighted_auroc(other)
        return OrderStanding(taught, len(defective), defects, *self._found)


def weighted_auroc(cases: Iterable[tuple[float, float, float]]) -> float | None:
    """Return the AUROC of cases, each with its danger, its weight and whether it is a defect; ties count half.

    None unless there are defects and good cases of some weight.
    """
    bad = good = found = 0.0
    for _, tied in groupby(sorted(cases, reverse=True), key=itemgetter(0)):
        sums = [0.0, 0.0]
        for _, weight, defect in tied:
            sums[int(defect)] += weight
        found += sums[0] * (bad + sums[1] / 2)
        good += sums[0]
        bad += sums[1]
    return found / bad / good if bad > 0 and good > 0 else None
