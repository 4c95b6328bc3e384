"""The reference verdicts of a judge on the canary set, and the judge's own noise.

The first runs of an evaluator's version are its reference. A judge does not always give the same verdict on the same
case, so the reference is the majority verdict of each case, and the share of minority verdicts is the judge's noise,
which is expected in later runs too. Later verdicts are compared with the majority; the share that differs gets the same
limits as any other rate (`rates.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from monitor.statistics.rates import Sums, estimate

RUNS: Final = 9
"""Runs of a reference: three days at three runs a day. With three runs, the estimate of a judge's noise is so rough
that a judge with 10 % causes 0.6 to 0.8 false alarms a month; with nine, at most 0.04 (`benchmarks/canary.py`)."""

Z: Final = 2.0
"""The certainty, in standard deviations, that more verdicts have changed than noise explains."""

AT_LEAST: Final = 2
"""The runs needed within the window: a single one may have hit a bad day of the provider."""

WINDOW: Final = 86400.0
"""The window, in seconds."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Verdicts on one case."""

    good: int = 0
    defects: int = 0

    @property
    def judged(self) -> int:
        """The number of verdicts."""
        return self.good + self.defects

    @property
    def minority(self) -> int:
        """The number of minority verdicts."""
        return min(self.good, self.defects)


@dataclass(frozen=True, slots=True)
class Reference:
    """The verdicts by case id, over `runs` runs."""

    runs: int = 0
    cases: Mapping[str, Tally] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether the reference has enough runs."""
        return self.runs >= RUNS

    def with_run(self, verdicts: Mapping[str, bool]) -> Reference:
        """Return the reference with one more run; `verdicts` says, by case id, whether it is a defect."""
        cases = dict(self.cases)
        for case, defect in verdicts.items():
            one = cases.get(case, Tally())
            cases[case] = replace(one, defects=one.defects + 1) if defect else replace(one, good=one.good + 1)
        return Reference(self.runs + 1, cases)

    def verdict(self, case: str) -> bool | None:
        """Return whether the case is a defect; None if most runs gave no verdict or verdicts are evenly split."""
        one = self.cases.get(case, Tally())
        if 2 * one.judged <= self.runs or one.good == one.defects:
            return None
        return one.defects > one.good

    @property
    def noise(self) -> float:
        """The share of verdicts, 0 to 1/2, that differ from the majority of their case."""
        judged = sum(one.judged for one in self.cases.values())
        return sum(one.minority for one in self.cases.values()) / judged if judged else 0.0


def surely_moved(moved: int, judged: int) -> float:
    """Return the lower limit of the share of changed verdicts, `moved` of `judged`; 0 if there is none."""
    found = estimate(Sums.counted(judged, moved), Z)
    return found.lower if found is not None else 0.0
