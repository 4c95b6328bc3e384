"""What every view is, and those of rates beside the rate of the whole."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class View(BaseModel):
    """A value that is shown. Times are seconds since 1970, durations seconds, rates shares from 0 to 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class SliceRate(View):
    """The rate of one value of a slice, as that of the whole."""

    value: str
    """Empty for the answers that state none."""
    others: bool
    """Whether these are all values beyond the first twenty, together."""
    judged: int
    defects: int
    rate: float | None
    lower: float | None
    upper: float | None
    enough: bool
    """False where too few were judged for the rate to say anything."""


class Slice(View):
    """Rates by one configured slice; the values with enough judged first, and of them the worst."""

    name: str
    since: float
    """The answers since then, whatever window was asked for: a day at most, and not before the process started."""
    values: list[SliceRate]


class Corrected(View):
    """A rate as people would have judged it, by the labels that they gave to results of this version of the judge."""

    rate: float
    lower: float
    upper: float
    labelled_defects: int
    labelled_good: int
