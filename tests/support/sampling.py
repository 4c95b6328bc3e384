"""A judged evaluator whose sampler sees the overlap evaluator, and answers with different overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.model.case import Case, Document
from monitor.model.outcome import EvaluationResult
from monitor.stages import Judge, Sampler
from monitor.storage.spool.memory import FirstDraws
from tests.support.evaluators import FakeJudge, JudgedEvaluator, KeptDraws, Memory, case, configured, live, run_local
from tests.support.runtime import runtime, total

UNSUPPORTED = "Elephants from Mars repaired 47 submarines yesterday."


class SamplingBench:
    """The overlap evaluator on every case and a judged one with `sampler`."""

    def __init__(
        self,
        sampler: Sampler,
        *,
        judge: Judge | None = None,
        memory: Memory | None = None,
        draws: FirstDraws | None = None,
    ) -> None:
        self.runtime = runtime()
        self.results: list[EvaluationResult] = []
        self.draws = draws if draws is not None else KeptDraws()
        self.evaluation = live(
            [configured(JudgedEvaluator(), sampler), configured(OverlapGroundedness())],
            judges={"": judge or FakeJudge(score=1)},
            sinks={"test": self.take},
            memory=memory or Memory(),
            draws=self.draws,
            lent=self.runtime,
        )

    async def take(self, results: Sequence[EvaluationResult]) -> None:
        self.results.extend(one for one in results if one.evaluator == "judged")

    async def run(self, one: Case) -> float | None:
        """Return the probability with which `one` was drawn, if it was judged."""
        local = await run_local(self.evaluation, one)
        chosen = self.evaluation.choose(one, local)
        await self.evaluation.score_judged(one, chosen)
        return chosen[0][1].probability if chosen else None

    def total(self, name: str, **labels: str) -> float:
        return total(self.runtime.metrics, f"ragmonitor_{name}", **labels)

    def sampling(self) -> Any:
        return self.evaluation._case_sampler._samplings["judged"]


def answered(number: int, response: str = "The library opens at nine.", **more: Any) -> Case:
    return replace(case(number), retrieved_context=(Document("The library opens at nine."),), response=response, **more)
