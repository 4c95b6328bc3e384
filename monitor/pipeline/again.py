"""For a few cases, whether the same judge says the same again: measured, and changes no result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.pipeline import edges
from monitor.pipeline.assignment import Assignment, Tally
from monitor.stages import Judge, Runtime
from monitor.statistics import consistent_sampling


class JudgingAgain:
    """Has a share of the judged cases judged twice.

    `share`: by judge, 0 to 1. `salt`: as in `Evaluation`.
    """

    def __init__(
        self,
        assignments: Iterable[Assignment],
        judges: Mapping[str, Judge],
        share: Mapping[str, float],
        *,
        salt: str,
        runtime: Runtime,
    ) -> None:
        self._judges = judges
        self._share = share
        self._salt = salt
        self._repeats = {
            (one.evaluator.name, outcome): runtime.metrics.judge_repeats.labels(one.evaluator.name, outcome)
            for one in assignments
            for outcome in ("same", "other", "unscored")
        }

    async def judge(self, assignment: Assignment, case: Case, first: Score) -> None:
        """Where `case` is among the few: judge it again, and count whether that agrees with `first`."""
        if not consistent_sampling.chosen(
            case.request_id, f"{self._salt}/repeat", self._share.get(assignment.judge, 0.0)
        ):
            return
        evaluator, rule = assignment.evaluator, assignment.defect
        try:
            second = edges.checked(
                evaluator, await evaluator.evaluate(case, Tally(self._judges[assignment.judge], repeat=1))
            )
        except Exception:  # noqa: BLE001 - what went wrong is counted with the judge's requests, by reason
            agreement = "unscored"
        else:
            same = isinstance(second, Score) and rule.matches(second) == rule.matches(first)
            agreement = "same" if same else "other" if isinstance(second, Score) else "unscored"
        self._repeats[evaluator.name, agreement].inc()
