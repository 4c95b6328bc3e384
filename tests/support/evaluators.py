"""Evaluators of a few lines, a scripted judge, and live scoring around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import anyio

from monitor.model.case import Case, Document, Request
from monitor.model.outcome import DefectRule, EvaluationResult, Level, Outcome, Scale, Score
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.fair_queue import FairQueue
from monitor.pipeline.live_evaluation import LiveEvaluation, Rechecks
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.pipeline.publish import Publisher
from monitor.pipeline.sampling import CaseSampler
from monitor.pipeline.scoring import Scorer, scores_of
from monitor.pipeline.traffic import Quota
from monitor.samplers.uniform import Uniform
from monitor.stages import Deliver, Evaluator, Judge, Prompt, Question, Runtime, Sampler, Verdict
from monitor.storage.spool.memory import FirstDraws
from tests.support.runtime import runtime

FIVE = Scale(1, 5, "higher", tuple(Level(str(n), n) for n in range(1, 6)), whole=True)


class LocalEvaluator(Evaluator):
    """Gives `value` to every case; a negative value makes it raise."""

    name: ClassVar[str] = "local"
    version: ClassVar[str] = "1"
    scale: ClassVar[Scale] = FIVE
    needs: ClassVar[frozenset] = frozenset({"context", "response"})
    default_defect: ClassVar[DefectRule] = DefectRule("below", 3)
    value: float = 2

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        if self.value < 0:
            raise RuntimeError("broken")
        return Score(self.value, "because")


class JudgedEvaluator(LocalEvaluator):
    """Gives the score that the judge answers."""

    name: ClassVar[str] = "judged"
    cost: ClassVar[str] = "judge"

    async def evaluate(self, case: Case, judge: Judge | None) -> Outcome:
        assert judge is not None
        verdict = await judge.ask(Question("q", "", {}, {}))
        return Score(verdict.data["score"], "because")


class FakeJudge:
    """Answers `score` or raises `error`, for a quarter of a dollar, after waiting for `gate`."""

    model = "fake/model"
    max_characters = 400_000

    def __init__(self, score: Any = 4, error: Exception | None = None, gate: anyio.Event | None = None) -> None:
        self.score, self.error, self.gate = score, error, gate

    async def ask(self, question: Question | Prompt) -> Verdict:
        if self.gate:
            await self.gate.wait()
        if self.error:
            raise self.error
        return Verdict({"score": self.score}, self.model, dollars=0.25, input_tokens=10, output_tokens=5)


class Memory:
    """Remembers which results were delivered."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def remembered(self, result: str) -> bool:
        return result in self.ids

    def remember(self, results: Iterable[str]) -> None:
        self.ids.update(results)


class KeptDraws(FirstDraws):
    """First draws, kept in memory only, in order: probability and target by key."""

    def __init__(self) -> None:
        super().__init__(lambda: None, 1024**2)
        self.kept: dict[str, tuple[float, float]] = {}

    def keep_draw(self, key: str, probability: float, target: float) -> None:
        self.kept[key] = (probability, target)
        super().keep_draw(key, probability, target)


def case(number: int = 0, context: str = "facts", **more: Any) -> Case:
    documents = (Document(context),) if context else ()
    return Case(
        request_id=f"{number:032x}", request=Request("q"), retrieved_context=documents, response="a", app="shop", **more
    )


def configured(evaluator: Evaluator, sampler: Sampler | None = None, **more: Any) -> ConfiguredEvaluator:
    """Return an evaluator configured with its own defect rule; by default it draws every case."""
    return ConfiguredEvaluator(evaluator, sampler or Uniform(rate=1.0), evaluator.default_defect, **more)


def live(
    evaluators: Sequence[ConfiguredEvaluator],
    *,
    judges: Mapping[str, Judge] | None = None,
    sinks: Mapping[str, Deliver] | None = None,
    lent: Runtime | None = None,
    counting: ResultMetrics | None = None,
    memory: Memory | None = None,
    draws: FirstDraws | None = None,
    queue: FairQueue | None = None,
    quotas: Mapping[str, Quota] | None = None,
    raises: bool = False,
    recheck: float = 0.0,
    slices: Sequence[str] = (),
    late_after: float = math.inf,
    listeners: Sequence[Callable[[EvaluationResult], None]] = (),
    **more: Any,
) -> LiveEvaluation:
    """Return live scoring as the application builds it, with the salt `s`."""
    lent = lent or runtime()
    scorer = Scorer(evaluators, judges or {}, runtime=lent, slices=slices, late_after=late_after)
    return LiveEvaluation(
        scorer,
        CaseSampler(
            evaluators,
            versions=scorer.versions,
            draws=draws,
            runtime=lent,
            salt="s",
            quotas=quotas,
            raises=raises,
        ),
        queue or FairQueue({}, limit=1_000_000, shares={}, clock=lent.clock, patience=late_after),
        Publisher(sinks or {}, memory, lent, listeners=listeners),
        counting or ResultMetrics(lent.metrics, clock=lent.clock),
        rechecks=Rechecks(scorer, dict.fromkeys(judges or {}, recheck), salt="s", metrics=lent.metrics),
        runtime=lent,
        **more,
    )


async def run_local(evaluation: LiveEvaluation, one: Case) -> dict[str, Score]:
    """Score `one` locally, deliver the results, and return their scores."""
    results = await evaluation.score_local(one)
    await evaluation.deliver(results)
    return scores_of(results)
