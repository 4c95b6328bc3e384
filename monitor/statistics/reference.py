"""What a judge says of the canary set while nothing is wrong: a verdict for each case, and how often it wavers.

The first runs of an evaluator's version are its reference. A judge does not always say the same of the same case, so
each case has the verdict of the majority, and the share of verdicts of the minority is the judge's own noise: what is
to be expected of later runs as well. From then on verdicts are held against the majority, and the share of those that
differ has the limits of any other rate (`statistics.rates`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from monitor.statistics.rates import Sums, estimate

RUNS: Final = 9
"""Runs of a reference: three days at three runs a day. Of three runs alone the noise of a judge is known so badly that
one with 10 % raises 0.6 to 0.8 false alarms a month, and of nine at most 0.04 (`benchmarks/canary.py`)."""

Z: Final = 2.0
"""How sure it must be, in standard deviations, that more verdicts have moved than noise explains."""

AT_LEAST: Final = 2
"""Runs within the window that it takes: one alone may have met a provider on a bad day."""

WINDOW: Final = 86400.0
"""Seconds that are looked at."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Verdicts on one case."""

    good: int = 0
    defects: int = 0

    @property
    def judged(self) -> int:
        """How many there are."""
        return self.good + self.defects

    @property
    def minority(self) -> int:
        """How many say what most do not."""
        return min(self.good, self.defects)


@dataclass(frozen=True, slots=True)
class Reference:
    """The verdicts on each case, by the case's id, over `runs` runs."""

    runs: int = 0
    cases: Mapping[str, Tally] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether it is known what to expect."""
        return self.runs >= RUNS

    def with_run(self, verdicts: Mapping[str, bool]) -> Reference:
        """The same with one run more; `verdicts` says of cases by id whether each is a defect."""
        cases = dict(self.cases)
        for case, defect in verdicts.items():
            one = cases.get(case, Tally())
            cases[case] = replace(one, defects=one.defects + 1) if defect else replace(one, good=one.good + 1)
        return Reference(self.runs + 1, cases)

    def verdict(self, case: str) -> bool | None:
        """Whether the case is a defect. None where most runs came to no verdict, or the verdicts are evenly split."""
        one = self.cases.get(case, Tally())
        if 2 * one.judged <= self.runs or one.good == one.defects:
            return None
        return one.defects > one.good

    @property
    def noise(self) -> float:
        """The share of verdicts, 0 to 1/2, that differ from the majority's on their case."""
        judged = sum(one.judged for one in self.cases.values())
        return sum(one.minority for one in self.cases.values()) / judged if judged else 0.0


def surely_moved(moved: int, judged: int) -> float:
    """The lower limit of the share of verdicts that have moved, of `moved` among `judged` ones; 0 where none was."""
    found = estimate(Sums(judged, moved, float(judged), float(moved), float(moved)), Z)
    return found.lower if found is not None else 0.0
