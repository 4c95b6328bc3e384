"""The edges of every evaluator, which its author need not think of: what a case must have, what a score may be.

What goes wrong within an evaluator is caught here: it becomes `Unscored` with a reason, and is told.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

import anyio.to_thread

from monitor.errors import JudgeError
from monitor.judge.contradiction import contradicts
from monitor.model.case import Case
from monitor.model.outcome import Outcome, Score, Skipped, SkippedReason, Unscored, UnscoredReason
from monitor.stages import Evaluator, Judge
from monitor.telemetry.events import Event, Events

_log = logging.getLogger(__name__)


def with_facts(case: Case, local: Mapping[str, Score]) -> Case:
    """The case with what the local evaluators have found out about it, for slices and samplers."""
    facts = {name: text for score in local.values() for name, text in score.facts.items()}
    return replace(case, attributes={**case.attributes, **facts}) if facts else case


async def outcome_of(evaluator: Evaluator, case: Case, judge: Judge | None, events: Events) -> Outcome:
    """What comes of the evaluator on `case`, whatever goes wrong. `judge`: None for a local one, which has a thread."""
    lacks = missing(evaluator, case)
    if lacks is not None:
        return Skipped(lacks)
    try:
        if judge is None:
            found = await anyio.to_thread.run_sync(run_local, evaluator, case)
        else:
            found = await evaluator.evaluate(case, judge)
        return checked(evaluator, found)
    except JudgeError as error:
        return Unscored(error.reason, str(error))
    except Exception as error:  # noqa: BLE001 - the one place where evaluator faults are caught, and counted
        _log.debug("evaluator %s failed", evaluator.name, exc_info=error)
        events.error(
            Event.EVALUATOR_FAILED, "an evaluator failed", evaluator=evaluator.name, error=type(error).__name__
        )
        return Unscored(UnscoredReason.ERROR, type(error).__name__)


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
    """A score off its scale would poison every rate: it is not one. One that its explanation contradicts is marked."""
    if isinstance(outcome, Score) and not evaluator.scale.holds(outcome.value):
        low, high = evaluator.scale.lowest, evaluator.scale.highest
        return Unscored(UnscoredReason.OUT_OF_RANGE, f"{outcome.value} is not on the scale from {low:g} to {high:g}")
    if not isinstance(outcome, Score) or evaluator.cost != "judge":
        return outcome
    if contradicts(outcome.explanation, outcome.value, evaluator.scale, evaluator.name):
        return replace(outcome, contradicts=True)
    return outcome
