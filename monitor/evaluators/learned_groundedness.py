"""Ranks answers by how likely they are to be ungrounded, as learned from a judge's verdicts and from labels."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Outcome, Scale, Score
from monitor.stages import Judge


class LearnedGroundedness(OverlapGroundedness):
    """A ranking of all answers that starts like `overlap_groundedness` and learns, for each app, from verdicts.

    The score is the probability, 0 to 1, that an answer is not a defect, higher is better. It is computed from nine
    measures of the overlap with the context, by a small model that begins with the score of `overlap_groundedness`
    alone and learns from each verdict of a judge on a sampled answer, and from people's labels. So it finds, among the
    answers that no judge has seen, those that look like the defects found so far.

    It only ranks: no score is a defect, and it has no rate and no alert. Below 10 % of defects, the interval of a rate
    from learned scores, corrected by the judged answers, is hardly narrower than that from the judged answers alone. It
    learns separately for each app, version of the judged evaluator and judge model, and starts over when one changes.
    """

    name: ClassVar[str] = "learned_groundedness"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(defect_likely=0.0, defect_possible=0.5, defect_unlikely=0.9)
    rescores: ClassVar[str] = OverlapGroundedness.name
    default_defect: ClassVar[DefectRule] = DefectRule("never")

    learns_from: str | None = None
    """The judged evaluator to learn from; it must measure grounding. Default: the first such evaluator in `evaluators`
    that has a judge."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Measure `case` as `overlap_groundedness` does; the monitor computes the score from the measures."""
        found = await super().evaluate(case, judge)
        return replace(found, label=self.scale.level(found.value)) if isinstance(found, Score) else found
