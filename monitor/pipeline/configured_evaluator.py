"""A configured evaluator: its sampler, its defect rule and its judge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from monitor.model.outcome import DefectRule, Score
from monitor.stages import Evaluator, Sampler

DEFAULT_JUDGE = ""
"""Name of the judge in the section `judge`; the judges in `judges` have their names there."""


@dataclass(frozen=True, slots=True)
class ConfiguredEvaluator:
    """A configured evaluator. Evaluators with the same `group` and `judge` share one call per case.

    `alert_rules` are the own defect rules of alerts on it. `optional`: if it lacks something it needs, such as a judge,
    the monitor runs without it.
    """

    evaluator: Evaluator
    sampler: Sampler
    defect: DefectRule
    judge: str = DEFAULT_JUDGE
    group: str = ""
    alert_rules: tuple[DefectRule, ...] = ()
    optional: bool = False

    @property
    def ranks(self) -> bool:
        """Whether its scores only rank answers: none is a defect, and they are not part of any rate."""
        return self.defect.kind == "never"


def defects_by(rules: Iterable[DefectRule], score: Score) -> dict[str, bool]:
    """Return, by the name of each rule, whether `score` is a defect."""
    return {rule.name: rule.matches(score) for rule in rules}
