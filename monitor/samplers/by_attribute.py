"""Gives each case the probability of its kind, such as its tenant, its model or its application."""

from __future__ import annotations

from pydantic import Field, model_validator

from monitor.model.case import Case, app_name
from monitor.quantities import Rate
from monitor.stages import FixedSampler


class ByAttribute(FixedSampler):
    """A sampling rate for each kind of case. Overall defect rates stay unbiased: each result counts by its weight."""

    attribute: str = Field(min_length=1, examples=["tenant"])
    """The attribute that defines the kinds: `app`, `model`, or an attribute of the request, such as `metadata.tenant`.
    """

    rates: dict[str, Rate] = Field(min_length=1, examples=[{"gold": 0.5}])
    """The share of cases to evaluate, by value of the attribute: `{gold: 50%, free: 1%}`."""

    default: Rate = 1.0
    """The share of cases to evaluate with any other value, or without one."""

    @model_validator(mode="after")
    def _named_as_in_cases(self) -> ByAttribute:
        if self.attribute == "app":
            for name in list(self.rates):
                if app_name(name) != name and app_name(name) in self.rates:
                    raise ValueError(f"`rates` has two entries for the app {app_name(name)!r}: remove one")
                self.rates[app_name(name)] = self.rates.pop(name)
        return self

    def probability(self, case: Case) -> float:
        """Return the rate for the attribute's value in `case`."""
        value = getattr(case, self.attribute) if self.attribute in ("app", "model") else None
        return self.rates.get(value or case.attributes.get(self.attribute, ""), self.default)
