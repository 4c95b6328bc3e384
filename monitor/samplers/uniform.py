"""Gives every case the same probability."""

from __future__ import annotations

from monitor.model.case import Case
from monitor.quantities import Rate
from monitor.stages import FixedSampler


class Uniform(FixedSampler):
    """The same probability for every case."""

    rate: Rate = 1.0
    """The share of cases to evaluate: 0.1 or `10%`."""

    def probability(self, case: Case) -> float:  # noqa: ARG002 - the contract's signature
        """Return `rate`."""
        return self.rate
