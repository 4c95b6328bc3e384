"""Every case with the same probability."""

from __future__ import annotations

from monitor.model.case import Case
from monitor.quantities import Rate
from monitor.stages import FixedSampler


class Uniform(FixedSampler):
    """Every case with the same probability, whatever it holds."""

    rate: Rate = 1.0
    """The share of cases that is judged: 0.1 or `10%`."""

    def probability(self, case: Case) -> float:  # noqa: ARG002 - the contract's signature
        """`rate`, for every case."""
        return self.rate
