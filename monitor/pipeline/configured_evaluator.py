"""A configured evaluator: its sampler, its defect rule and its judge."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.outcome import DefectRule
from monitor.stages import Evaluator, Sampler

DEFAULT_JUDGE = ""
"""Name of the judge in the section `judge`; others have their names in `judges`."""


@dataclass(frozen=True, slots=True)
class ConfiguredEvaluator:
    """A configured evaluator. Those with the same `group` and `judge` share one call per case."""

    evaluator: Evaluator
    sampler: Sampler
    defect: DefectRule
    judge: str = DEFAULT_JUDGE
    group: str = ""
