"""Evaluates as many cases per day as a budget allows, each with the same probability."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.samplers._budget import Budgeted, SamplingBudget
from monitor.stages import Evaluator, PastResult, Runtime, Sampling, SamplingDecision


class BudgetSampler(Budgeted):
    """A budget of evaluations or dollars per day. The share of cases follows from the traffic, the same for all."""

    def open(self, evaluator: Evaluator, runtime: Runtime) -> Sampling:
        """Start with a share of 10 %. After an hour it follows the traffic."""
        return _Spending(self, evaluator, runtime)


class _Spending:
    adaptive = True

    def __init__(self, options: BudgetSampler, evaluator: Evaluator, runtime: Runtime) -> None:
        self._budget = SamplingBudget(options, evaluator.name, runtime)

    def draw(self, case: Case, local: Mapping[str, Score], part: float = 1.0) -> SamplingDecision:  # noqa: ARG002 - the contract's
        return self._budget.draw(None, part=part)

    def learn(self, case: Case, drawn: SamplingDecision, *, defect: bool | None, dollars: float) -> None:  # noqa: ARG002 - as above
        self._budget.paid(dollars)

    def recall(self, lesson: PastResult) -> None:
        self._budget.paid(lesson.dollars)
