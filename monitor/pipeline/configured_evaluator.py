"""An evaluator as it is configured: what samples for it, what it calls a defect, which judge it asks."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.outcome import DefectRule
from monitor.stages import Evaluator, Sampler

DEFAULT_JUDGE = ""
"""The name of the judge that the section `judge` describes; others have the names that `judges` gives them."""


@dataclass(frozen=True, slots=True)
class ConfiguredEvaluator:
    """A configured evaluator. Those of one `group` and `judge` are asked in one call about the same case."""

    evaluator: Evaluator
    sampler: Sampler
    defect: DefectRule
    judge: str = DEFAULT_JUDGE
    group: str = ""
