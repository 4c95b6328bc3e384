"""Scoring cases that are at hand by the rules of the running monitor, without sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from monitor import registry
from monitor.config import Config
from monitor.config.entries import assignment
from monitor.errors import ConfigError
from monitor.model.case import Case
from monitor.operations.progress import Report, ignore
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import EVERY, Chosen, open_scorer, scores_of, with_facts
from monitor.stages import Deliver, Runtime


def choose_evaluators(
    config: Config, names: Sequence[str] | None = None, *, report: Report = ignore
) -> list[ConfiguredEvaluator]:
    """Give the evaluators that are to score, each on every case: those of the configuration, or those in `names`.

    A named one need not be configured. A configured one without a judge is left out, which `report` is told. Raises
    `ConfigError` for a name that does not exist, and for a named evaluator without a judge.
    """
    configured = {one.evaluator.name: one for one in config.assignments}
    found = []
    for name in configured if names is None else dict.fromkeys(names):
        if name not in configured and name not in registry.types("evaluators"):
            known = sorted({*configured, *registry.types("evaluators")} - {"rubric"})
            raise ConfigError(f"evaluators: there is no {name!r}; there are: {', '.join(known)}")
        one = configured.get(name) or assignment({"type": name}, "evaluators")
        if config.works(one):
            found.append(one)
        elif names is not None:
            raise ConfigError(f"evaluators: {name} needs a language model: set judge.model")
        else:
            report(f"{name} is off: it needs a language model, and judge.model is not set")
    if not found:
        raise ConfigError("evaluators: there is none to score with")
    return found


async def score(
    config: Config,
    evaluators: Sequence[ConfiguredEvaluator],
    cases: Sequence[Case],
    *,
    runtime: Runtime,
    deliver: Deliver,
    scored: Callable[[], object],
    known: Callable[[str], bool] = lambda _result: False,
) -> None:
    """Score every case by every evaluator. Give each result to `deliver`, call `scored` as each case is done.

    A result whose id is `known`, which is asked once for each, is left out.

    Local evaluators run one after the other, so that their times are their own; as many cases at once wait for their
    judges as the one that takes most calls at once takes. Raises `ConfigError` where a judge cannot work.
    """
    concurrency = [config.judge_of(one).max_concurrency for one in evaluators if one.evaluator.cost == "judge"]
    slots = anyio.Semaphore(max(concurrency, default=1))
    async with (
        open_scorer(evaluators, config.all_judges, runtime=runtime) as scorer,
        anyio.create_task_group() as tasks,
    ):

        async def judge(case: Case, by: Sequence[Chosen]) -> None:
            try:
                await scorer.score(case, by, each=deliver)
                scored()
            finally:
                slots.release()

        for case in cases:
            due = [(one, EVERY) for one in evaluators if not known(scorer.result_id(one, case))]
            local = [(one, how) for one, how in due if one.evaluator.cost == "local"]
            judged = [(one, how) for one, how in due if one.evaluator.cost == "judge"]
            found = await scorer.score(case, local, each=deliver)
            if not judged:
                scored()
                continue
            await slots.acquire()
            tasks.start_soon(judge, with_facts(case, scores_of(found)), judged)
