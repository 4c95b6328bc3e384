"""Finds answers whose retrieved texts were not sent, so that evaluators of the context skip them."""

from __future__ import annotations

from typing import ClassVar

from monitor.model.case import Case, ContextStatus
from monitor.model.outcome import DefectRule, Outcome, Scale, Score, Skipped, SkippedReason
from monitor.stages import Evaluator, Judge, Measures, Needs

_RECORDED, _NOT_RECORDED = 0.0, 1.0


class ContextNotRecorded(Evaluator):
    """Whether texts of the context are missing: 0 `recorded`, 1 `not_recorded`.

    Its rate is over the answers with a retrieval. An answer with missing texts is skipped by every evaluator that needs
    the context, so a high rate means that groundedness and similar evaluators cover few answers. An answer without a
    retrieval is skipped.
    """

    name: ClassVar[str] = "context_not_recorded"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.points("recorded", "not_recorded", better="lower")
    needs: ClassVar[frozenset[Needs]] = frozenset()
    measures: ClassVar[Measures | None] = "retrieval"
    default_defect: ClassVar[DefectRule] = DefectRule("at_least", _NOT_RECORDED)
    definition: ClassVar[str] = "own"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`. Skipped if there was no retrieval."""
        if case.context_status is ContextStatus.NO_RETRIEVAL:
            return Skipped(SkippedReason.NO_RETRIEVAL)
        if case.context_status is not ContextStatus.NOT_RECORDED:
            return Score(_RECORDED, "The texts of the context were recorded.", "recorded")
        number = sum(not one.content for one in case.retrieved_context)
        of = f" of {number} retrieved {'document' if number == 1 else 'documents'}" if number else ""
        return Score(_NOT_RECORDED, f"The texts{of} were not sent, or were cut.", "not_recorded")
