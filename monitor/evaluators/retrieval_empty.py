"""Finds answers after a retrieval that found nothing: an empty index, a search that fails without an error."""

from __future__ import annotations

from typing import ClassVar

from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Outcome, Scale, Score
from monitor.stages import Evaluator, Judge, Measures, Needs

_FOUND, _EMPTY = 0.0, 1.0


class RetrievalEmpty(Evaluator):
    """Whether the retrieval found nothing: 0 `found`, 1 `empty`. Its rate is over the answers with a retrieval.

    An answer without a retrieval is skipped, and so is an answer whose retrieval was not recorded. Results of tools and
    attached texts count as found.
    """

    name: ClassVar[str] = "retrieval_empty"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.points("found", "empty", better="lower")
    needs: ClassVar[frozenset[Needs]] = frozenset({"context"})
    measures: ClassVar[Measures | None] = "retrieval"
    default_defect: ClassVar[DefectRule] = DefectRule("at_least", _EMPTY)
    definition: ClassVar[str] = "own"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:  # noqa: ARG002 - the contract's signature
        """Score `case`."""
        if not case.retrieved_context:
            return Score(_EMPTY, "A retrieval took place and found nothing.", "empty")
        number = len(case.retrieved_context)
        return Score(_FOUND, f"The model was given {number} {'source' if number == 1 else 'sources'}.", "found")
