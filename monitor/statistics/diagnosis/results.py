"""The result of a diagnosis: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from monitor.statistics.diagnosis.cases import Factor
from monitor.statistics.diagnosis.excess import RiseShare
from monitor.statistics.diagnosis.onset import Onset
from monitor.statistics.rates import Estimate

How: TypeAlias = Literal["worse", "more"]
"""`worse`: the answers with a factor are worse than those of others and than before. `more`: they were always bad, and
there are more of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFactor:
    """A factor that explains a part of a rise.

    `parts`: the two slices of a pair, otherwise the factor itself. `z`: how certain, in standard deviations. `onset`:
    of its own cases; for `more`, of all cases; None if they show no step. `inside` and `outside`: the rate since the
    onset with and without it, with 95 % limits; `before`: its own rate before the onset, pulled towards the rate of the
    rest if it had hardly any bad answers then. `cases` and `bad`: how many since the onset. `part_now` and
    `part_before`: the weighted part of all answers that has it. `likewise`: factors that most of the same bad answers
    have.
    """

    factor: Factor
    parts: tuple[Factor, ...]
    how: How
    z: float
    share: RiseShare
    onset: Onset | None
    inside: Estimate | None
    outside: Estimate | None
    before: float
    cases: int
    bad: int
    part_now: float
    part_before: float
    likewise: tuple[Factor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What stands out in a risen rate.

    `state`: `found`; `nothing_stands_out`; `no_rise`, no final part of the cases has a higher rate than the part before
    it; `too_few_before`, there are not enough bad answers before it for a comparison.
    `judged`, `bad`: since the onset. `rate_before`, `rate_since`: with 95 % limits. `switched`: factors that nearly all
    answers have had since the onset and hardly any before. `visible`: the smallest share of the rise, 0 to 1, at which
    a factor would have been found 4 times in 5; None: no factor would. `looked`: when the last answer of this look was
    judged, in seconds since 1970; None: there are too few for a first look. `next_look`: how many more bad answers it
    takes until the next, or the first, look at an alert; None: this was a single look, at all answers.
    """

    state: Literal["found", "nothing_stands_out", "no_rise", "too_few_before"]
    onset: Onset | None = None
    judged: int = 0
    bad: int = 0
    rate_before: Estimate | None = None
    rate_since: Estimate | None = None
    factors: tuple[FoundFactor, ...] = ()
    switched: tuple[Factor, ...] = ()
    visible: float | None = None
    looked: float | None = None
    next_look: int | None = None

    @property
    def awaits_first_look(self) -> bool:
        """Whether an alert has too few bad answers so far to name a cause."""
        return self.looked is None and self.next_look is not None
