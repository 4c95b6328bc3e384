"""The edges of every evaluator, which its author need not think of: what a case must have, what a score may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monitor.model.case import Case
from monitor.model.outcome import Outcome, Score, SkippedReason, Unscored, UnscoredReason
from monitor.stages import Evaluator


def with_facts(case: Case, local: Mapping[str, Score]) -> Case:
    """The case with what the local evaluators have found out about it, for slices and samplers."""
    facts = {name: text for score in local.values() for name, text in score.facts.items()}
    return replace(case, attributes={**case.attributes, **facts}) if facts else case


def run_local(evaluator: Evaluator, case: Case) -> Outcome:
    """A local evaluator computes and never waits, so its coroutine ends at the first step, in whatever thread."""
    steps = evaluator.evaluate(case, None)
    try:
        steps.send(None)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    steps.close()
    raise RuntimeError(f"the local evaluator {evaluator.name} waits for something; declare cost = 'judge'")


def missing(evaluator: Evaluator, case: Case) -> SkippedReason | None:
    """Why the evaluator does not apply to the case; None where it does."""
    needs = evaluator.needs
    if "context" in needs and not case.retrieved_context:
        return SkippedReason.NO_CONTEXT
    if "history" in needs and not case.request.history:
        return SkippedReason.NO_HISTORY
    if "reference" in needs and case.expected_response is None and case.expected_retrieved_context is None:
        return SkippedReason.NO_REFERENCE
    return None


def checked(evaluator: Evaluator, outcome: Outcome) -> Outcome:
    """A score off its scale would poison every rate: it is not one."""
    if isinstance(outcome, Score) and not evaluator.scale.holds(outcome.value):
        low, high = evaluator.scale.lowest, evaluator.scale.highest
        return Unscored(UnscoredReason.OUT_OF_RANGE, f"{outcome.value} is not on the scale from {low:g} to {high:g}")
    return outcome
