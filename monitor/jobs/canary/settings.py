"""The options under `canary:` in the configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, field_validator, model_validator

from monitor.jobs.canary.cases import load
from monitor.quantities import Rate, parse_duration
from monitor.stages import Component

_LONGEST: Final = 8 * 3600.0


class CanarySettings(Component):
    """A fixed set of cases that the judge is asked about on a schedule, so that a change of the judge itself shows."""

    interval: Annotated[float | None, BeforeValidator(parse_duration)] = 8 * 3600.0
    """How long from the beginning of one run to that of the next, at most `8h`; `off` (or null): no canary. A
    run costs an evaluation of each case by each judged evaluator, past the cache and out of the judge's budget: by
    default 72 a day for each evaluator and process."""

    cases: Path | None = None
    """A file of your own cases, rows as `rag-monitor evaluate` reads them; a relative path begins at the configuration
    file. Choose some that are clear and some on the border: those move first. Default: the 24 that ship."""

    initial_delay: Annotated[float, BeforeValidator(parse_duration)] = 600.0
    """How long after the start the first run begins at the earliest, so that a process that does not live long pays
    nothing. A restart does not bring the next run forward."""

    tolerance: Annotated[Rate, Field(gt=0, lt=1)] = 0.05
    """The share of verdicts that may differ from the reference, beyond the judge's own noise. See
    docs/statistics.md."""

    @field_validator("interval", mode="wrap")
    @classmethod
    def _off_or_often(cls, given: object, read: Callable[[object], float]) -> float | None:
        if given is None or given is False or given == "off":  # YAML reads a bare `off` as false
            return None
        seconds = read(given)
        if not 0 < seconds <= _LONGEST:
            raise ValueError("must be above 0 and at most 8h, for the alert looks at several runs of a day; or `off`")
        return seconds

    @model_validator(mode="after")
    def _cases_can_be_read(self) -> CanarySettings:
        if self.interval is not None and self.cases is not None:
            load(self.cases)
        return self
