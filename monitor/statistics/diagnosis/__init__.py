"""Finds when a rate rose and what its bad answers have in common: pure functions, no clock, no random numbers.

The onset comes first, then a search for factors among the answers since then. `diagnose` looks once. `diagnose_alert`
looks again while an alert lasts, at set numbers of bad answers. Both name something in at most one of 20 rises without
a cause. `python -m benchmarks.diagnosis` measures what is found, and how often falsely.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from monitor.statistics.diagnosis.cases import Factor, JudgedCase, Prepared, tally
from monitor.statistics.diagnosis.looks import FIRST_LOOK, looks_at, next_look, spent
from monitor.statistics.diagnosis.onset import find_step
from monitor.statistics.diagnosis.results import Diagnosis
from monitor.statistics.diagnosis.search import LEAST_BAD_BEFORE, FactorSearch

FALSE_FINDINGS: Final = 0.05
"""The share of rises without a cause for which something may be named, at one look or at any of the looks of an alert:
about 2 % in simulations."""


def diagnose(cases: Iterable[JudgedCase], search_from: float) -> Diagnosis:
    """Find what the bad answers of a rise have in common, at one look. The order of the cases does not matter.

    Args:
        cases: judged answers, up to now: of the days before `search_from` as a baseline, and all since then.
        search_from: the earliest time, in seconds since 1970, at which the rise may have begun. One length of the
            alert's window before that window is right.

    Raises `ValueError` for a weight that is not positive and finite, or a time that is not finite.
    """
    return _Rise(cases, search_from).look(math.inf, FALSE_FINDINGS)


def diagnose_alert(cases: Iterable[JudgedCase], search_from: float, fired: float) -> Diagnosis:
    """Find what the bad answers of an alert have in common: the result of its last look.

    So the result stays the same from one look to the next, at any time and for everyone.

    Args:
        cases: as in `diagnose`.
        search_from: as in `diagnose`; the same at all times of one alert.
        fired: when the alert began to fire, in seconds since 1970.

    Raises `ValueError` as `diagnose` does.
    """
    rise = _Rise(cases, search_from)
    last = deque(rise.looks(fired), maxlen=1)
    return last[0] if last else replace(rise.look(math.inf, 0.0), looked=None, next_look=rise.before_first_look(fired))


def alert_looks(cases: Iterable[JudgedCase], search_from: float, fired: float) -> Iterator[Diagnosis]:
    """Yield the result of each look at an alert, in order; nothing before the first. Arguments as `diagnose_alert`.

    A look uses only the answers that were judged by then. `FALSE_FINDINGS` is spent over all looks (`looks.spent`).
    What a look has named stays named as long as later looks find its answers worse than others, in one test each.
    Otherwise it is withdrawn.
    """
    return _Rise(cases, search_from).looks(fired)


class _Rise:
    """The cases of one rise, made ready once for all looks at it."""

    def __init__(self, cases: Iterable[JudgedCase], search_from: float) -> None:
        self._prepared = Prepared(cases)
        rows = self._prepared.rows
        split = next((index for index, row in enumerate(rows) if row.time >= search_from), len(rows))
        self._baseline, self._searched = rows[:split], rows[split:]
        self._usual = tally(self._baseline)

    def look(self, until: float, level: float, named: Collection[Factor] = ()) -> Diagnosis:
        """Diagnose from the cases judged up to a time, at a level of false findings: at 0 nothing is named."""
        if self._usual.bad < LEAST_BAD_BEFORE:
            return Diagnosis(state="too_few_before")
        searched = [row for row in self._searched if row.known <= until]
        step = find_step(searched, self._usual.rate)
        if step is None:
            return Diagnosis(state="no_rise")
        before, after = [*self._baseline, *searched[: step.lowest]], searched[step.best :]
        search = FactorSearch(self._prepared, before, after, step, searched, level=level, named=named)
        return replace(search.diagnosis(), looked=max(row.known for row in searched))

    def looks(self, fired: float) -> Iterator[Diagnosis]:
        """Yield the result of each look at an alert."""
        begun, later = self._counted(fired)
        named: list[Factor] = []
        last = 0.0
        for bad in looks_at(begun, begun + len(later)):
            until = later[bad - begun - 1] if bad > begun else fired
            found = self.look(until, FALSE_FINDINGS * (spent(bad) - last), named)
            named, last = [one.factor for one in found.factors], spent(bad)
            yield replace(found, next_look=next_look(bad) - bad)

    def before_first_look(self, fired: float) -> int:
        """Return how many more bad answers the first look at an alert needs."""
        begun, later = self._counted(fired)
        return FIRST_LOOK - begun - len(later)

    def _counted(self, fired: float) -> tuple[int, list[float]]:
        """Return the number of bad cases since the onset when an alert fired, and when each later one was judged."""
        known = [row for row in self._searched if row.known <= fired]
        step = find_step(known, self._usual.rate)
        begun = 0 if step is None else sum(row.bad for row in known[step.best :])
        return begun, sorted(row.known for row in self._searched if row.bad and row.known > fired)
