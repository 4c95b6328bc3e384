"""Each case with the probability of its kind: of its tenant, its model, its application."""

from __future__ import annotations

from pydantic import Field

from monitor.model.case import Case
from monitor.quantities import Rate
from monitor.stages import FixedSampler


class ByAttribute(FixedSampler):
    """Each case with the rate of its kind. Rates over all kinds stay true: each verdict counts by its weight."""

    attribute: str = Field(min_length=1)
    """What tells the kinds apart: `app`, `model`, or the name of an attribute of the request (`metadata.tenant`)."""

    rates: dict[str, Rate] = Field(min_length=1)
    """By value of the attribute, the share of cases that is judged: `{gold: 50%, free: 1%}`."""

    default: Rate = 1.0
    """The share of cases of any other value, or of none."""

    def probability(self, case: Case) -> float:
        """The rate of the value that `case` has."""
        value = getattr(case, self.attribute) if self.attribute in ("app", "model") else None
        return self.rates.get(value or case.attributes.get(self.attribute, ""), self.default)
