"""Scores given cases by the rules of the running monitor, without sampling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio

from monitor import registry
from monitor.config import Config
from monitor.config.entries import read_evaluator
from monitor.errors import ConfigError
from monitor.errors.explanation import nearest
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult
from monitor.operations.progress import Report, ignore
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import EVERY, Chosen, Scorer, open_scorer, scores_of, with_facts
from monitor.stages import Runtime


def choose_evaluators(
    config: Config, names: Sequence[str] | None = None, *, report: Report = ignore
) -> list[ConfiguredEvaluator]:
    """Return the evaluators that score every case: those of the configuration, or those in `names`.

    A named evaluator need not be configured. A configured one without a judge is left out, and `report` is told.
    Raises `ConfigError` for a name that does not exist, and for a named evaluator without a judge.
    """
    configured = {one.evaluator.name: one for one in config.configured_evaluators}
    found = []
    for name in configured if names is None else dict.fromkeys(names):
        if name not in configured and name not in registry.types("evaluators"):
            known = sorted({*configured, *registry.types("evaluators")} - {"rubric"})
            hint = nearest(name, known)
            raise ConfigError(f"evaluators: there is no {name!r}{hint}; there are: {', '.join(known)}")
        one = configured.get(name) or read_evaluator({"type": name}, "evaluators")
        if config.works(one):
            found.append(one)
        elif names is not None:
            raise ConfigError(f"evaluators: {name} needs a language model: set judge.model")
        else:
            report(f"{name} is off: it needs a language model, and judge.model is not set")
    if not found:
        raise ConfigError("evaluators: name at least one evaluator to score with")
    return found


async def score(
    config: Config,
    evaluators: Sequence[ConfiguredEvaluator],
    cases: Sequence[Case],
    *,
    runtime: Runtime,
    deliver: Callable[[EvaluationResult], Awaitable[None]],
    scored: Callable[[], object],
    known: Callable[[str], bool] = lambda _result: False,
) -> None:
    """Score every case by every evaluator, as `score_cases` does, with the judges of the configuration.

    Raises `ConfigError` if a judge cannot work.
    """
    concurrency = [config.judge_of(one).max_concurrency for one in evaluators if one.evaluator.cost == "judge"]
    async with open_scorer(evaluators, config.all_judges, runtime=runtime) as scorer:
        await score_cases(
            scorer,
            cases,
            max_concurrency=max(concurrency, default=1),
            each=deliver,
            scored=lambda _at, _results: scored(),
            known=known,
        )


async def score_cases(
    scorer: Scorer,
    cases: Sequence[Case],
    *,
    max_concurrency: int,
    scored: Callable[[int, list[EvaluationResult]], object],
    each: Callable[[EvaluationResult], Awaitable[None]] | None = None,
    known: Callable[[str], bool] = lambda _result: False,
) -> None:
    """Score every case by every evaluator.

    Local evaluators run one after another, so that their timings do not overlap. At most `max_concurrency` cases at
    once wait for their judges.

    Args:
        scorer: has the evaluators.
        cases: the cases to score.
        max_concurrency: the maximum number of cases that ask their judges at once.
        scored: called when a case is done, with its position and its results, those of local evaluators first.
        each: awaited with each result as soon as it is available.
        known: returns whether to leave out the result with this id; called once for each.
    """
    slots = anyio.Semaphore(max_concurrency)
    async with anyio.create_task_group() as tasks:

        async def judge(at: int, case: Case, by: Sequence[Chosen], local: list[EvaluationResult]) -> None:
            try:
                scored(at, local + await scorer.score(case, by, each=each))
            finally:
                slots.release()

        for at, case in enumerate(cases):
            due = [(one, EVERY) for one in scorer.evaluators if not known(scorer.result_id(one, case))]
            local = [(one, how) for one, how in due if one.evaluator.cost == "local"]
            judged = [(one, how) for one, how in due if one.evaluator.cost == "judge"]
            found = await scorer.score(case, local, each=each)
            if not judged:
                scored(at, found)
                continue
            await slots.acquire()
            tasks.start_soon(judge, at, with_facts(case, scores_of(found)), judged, found)
