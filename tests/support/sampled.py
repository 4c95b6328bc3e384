"""Cases for samplers, with the local evaluator's measurements."""

from __future__ import annotations

from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.model.case import Case, Document
from monitor.model.outcome import Score
from monitor.pipeline.local_evaluation import run_local

GOOD, BAD = "The library opens at nine.", "Elephants from Mars repaired 47 submarines in Paris yesterday."
OVERLAP = "overlap_groundedness"


def case(response: str = GOOD, number: int = 0, **more) -> Case:
    context = (Document("The library opens at nine o'clock. Bring your card."),)
    return Case(request_id=f"{number:032x}", retrieved_context=context, response=response, app="shop", **more)


def local(response: str = GOOD) -> dict[str, Score]:
    score = run_local(OverlapGroundedness(), case(response))
    assert isinstance(score, Score)
    return {OVERLAP: score}
