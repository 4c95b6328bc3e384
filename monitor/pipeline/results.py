"""From an outcome to a result: what it weighs, whether it counts, which versions stand behind it, what goes along."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from monitor.content import slices as facts
from monitor.model.case import Case
from monitor.model.generation import Generation
from monitor.model.outcome import Judged, Outcome, Score, Selection, Spending, Standing
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.generations import Generations
from monitor.pipeline.traffic import standing
from monitor.stages import Runtime


class Results:
    """Makes results.

    Args:
        slices: the attributes by which rates are sliced; they stay with the results.
        late_after: seconds after its answer from which a verdict is late.
        generations: is told of the versions behind each live verdict.
        standing: how all results stand, where their cases do not decide it.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        slices: Sequence[str] = (),
        late_after: float = math.inf,
        generations: Generations | None = None,
        standing: Standing | None = None,
    ) -> None:
        self._runtime = runtime
        self._slices = tuple(slices)
        self._generations = generations
        self._standing = standing
        self.late_after = late_after

    def is_late(self, case: Case) -> bool:
        """Whether a verdict reached now would be late."""
        return standing(case, self._runtime.clock.now(), self.late_after) is Standing.LATE

    def make(
        self,
        assignment: Assignment,
        version: str,
        case: Case,
        outcome: Outcome,
        *,
        selection: Selection,
        spending: Spending,
        stands: Standing | None = None,
    ) -> Judged:
        """The result of an evaluation that ends now; `selection` is how its evaluator came to choose the case.

        `stands`: how the result stands, where the case does not decide it.
        """
        evaluator, now = assignment.evaluator, self._runtime.clock.now()
        scored = outcome if isinstance(outcome, Score) else None
        judged = Judged(
            case=replace(case, attributes=facts.allowed(case, self._slices)),
            evaluator=evaluator.name,
            version=version,
            outcome=outcome,
            weight=1 / (case.probability * selection.probability),
            level=evaluator.scale.level(scored.value) if scored else "",
            defect=bool(scored and assignment.defect.matches(scored)),
            spending=spending,
            judged_at=now,
            standing=stands or self._standing or standing(case, now, self.late_after),
            generation=Generation(
                evaluator=version,
                judge=spending.model,
                prompt=facts.value(case, "prompt.version"),
                index=facts.value(case, "index.version"),
                service=facts.value(case, "service.version"),
            ),
            selection=selection,
        )
        told = evaluator.cost == "local" or spending.attempts > 0  # else no judge has said which model it is
        if self._generations is not None and scored is not None and told and judged.standing is Standing.LIVE:
            app = self._runtime.metrics.app(case.app)
            self._generations.saw(app, evaluator.name, judged.generation, now)
        return judged
