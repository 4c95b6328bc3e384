"""Scoring cases that are at hand by the rules of the running monitor, without sampling."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

import anyio

from monitor import registry
from monitor.config import Config
from monitor.config.entries import assignment
from monitor.errors import ConfigError
from monitor.judge.client import open_judge
from monitor.model.case import Case
from monitor.operations.progress import Report, ignore
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.counting import Counting
from monitor.pipeline.edges import with_facts
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.publish import Delivered
from monitor.samplers.uniform import Uniform
from monitor.stages import Deliver, Drawn, Judge, Runtime


def choose_evaluators(
    config: Config, names: Sequence[str] | None = None, *, report: Report = ignore
) -> list[Assignment]:
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
            found.append(replace(one, sampler=Uniform(rate=1.0)))
        elif names is not None:
            raise ConfigError(f"evaluators: {name} needs a language model: set judge.model")
        else:
            report(f"{name} is off: it needs a language model, and judge.model is not set")
    if not found:
        raise ConfigError("evaluators: there is none to score with")
    return found


async def score(
    config: Config,
    assignments: Sequence[Assignment],
    cases: Sequence[Case],
    *,
    runtime: Runtime,
    deliver: Deliver,
    delivered: Delivered,
    scored: Callable[[], object],
) -> None:
    """Give every result to `deliver`, except those already `delivered`; call `scored` as each case is done.

    Local evaluators run one after the other, so that their times are their own; as many cases at once wait for their
    judges as the one that takes most calls at once takes. Raises `ConfigError` where a judge cannot work.
    """
    asked = {one.judge: config.judge_of(one) for one in assignments if one.evaluator.cost == "judge"}
    async with AsyncExitStack() as stack:
        judges: dict[str, Judge] = {}
        for name, settings in asked.items():
            judges[name] = await stack.enter_async_context(open_judge(settings, runtime, rng=random.Random()))
        evaluation = Evaluation(
            assignments,
            judges=judges,
            sinks={"results": deliver},
            counting=Counting(runtime.metrics),
            delivered=delivered,
            runtime=runtime,
            salt=config.sampling.salt,
            waiting_limit=sys.maxsize,  # there is time to wait: `slots` bounds what waits at once
            repeat={},
        )
        slots = anyio.Semaphore(max((settings.max_concurrency for settings in asked.values()), default=1))

        async def judge(case: Case, by: Sequence[tuple[Assignment, Drawn]]) -> None:
            try:
                await evaluation.run_judged(case, by)
                scored()
            finally:
                slots.release()

        async with anyio.create_task_group() as judging:
            for case in cases:
                local = await evaluation.run_local(case)
                known = with_facts(case, local)
                by = evaluation.judged_for(known, local)
                if not by:
                    scored()
                    continue
                await slots.acquire()
                judging.start_soon(judge, known, by)
