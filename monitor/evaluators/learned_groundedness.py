"""Orders answers by how likely they are ungrounded, as learned from the verdicts of a judge and from labels."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.model.case import Case
from monitor.model.outcome import DefectRule, Outcome, Scale, Score
from monitor.stages import Judge


class LearnedGroundedness(OverlapGroundedness):
    """An order of all answers that starts as that of `overlap_groundedness` and learns, for each app, from verdicts.

    The score is the probability, 0 to 1, that an answer is no defect, higher is better. It is computed from nine
    measures of the overlap with the context, by a small model that begins with the score of `overlap_groundedness`
    alone and learns from each verdict of a judge on a sampled answer, and from people's labels. So it shows among the
    answers that no judge has seen those that look like the defects found so far.

    It only ranks: no score is a defect, and no rate or alert is made of it. A rate of learned scores that is corrected
    by the judged answers is hardly narrower than that of the judged answers alone, below 10 % of defects. What is
    learned holds for one app, one version of the judged evaluator and its judge's model; with others it begins again.
    """

    name: ClassVar[str] = "learned_groundedness"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = Scale.share(defect_likely=0.0, defect_possible=0.5, defect_unlikely=0.9)
    rescores: ClassVar[str] = OverlapGroundedness.name
    default_defect: ClassVar[DefectRule] = DefectRule("never")

    learns_from: str | None = None
    """The judged evaluator whose verdicts teach it; it must measure grounding. Default: the first such one of
    `evaluators` that has a judge."""

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        """Measure `case` as `overlap_groundedness` does; the monitor makes the score of it."""
        found = await super().evaluate(case, judge)
        return replace(found, label=self.scale.level(found.value)) if isinstance(found, Score) else found
