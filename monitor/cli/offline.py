"""Scoring cases that are already there by the rules of the running monitor, for the commands that look at files."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TextIO

import anyio

from monitor import registry
from monitor.config import Config
from monitor.config.entries import assignment
from monitor.errors import ConfigError
from monitor.judge.client import open_judge
from monitor.model.case import Case
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.counting import Counting
from monitor.pipeline.edges import with_facts
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.publish import Delivered
from monitor.samplers.uniform import Uniform
from monitor.stages import Deliver, Drawn, Judge, Runtime
from monitor.trying.apart import Nothing, paid, runtime

__all__ = ["Nothing", "chosen", "paid", "runtime", "score"]


def chosen(config: Config, names: str | None, notes: TextIO) -> list[Assignment]:
    """Who scores: those configured, or those named (`a,b`), configured or not; each scores every case.

    A configured one that has no judge is left out, which is noted. Raises `ConfigError` for a name that nobody has, and
    for one that was asked for but has no judge.
    """
    configured = {one.evaluator.name: one for one in config.assignments}
    found = []
    for name in _listed(names) if names is not None else configured:
        if name not in configured and name not in registry.types("evaluators"):
            known = sorted({*configured, *registry.types("evaluators")} - {"rubric"})
            raise ConfigError(f"--evaluators: there is no {name!r}; there are: {', '.join(known)}")
        one = configured.get(name) or assignment({"type": name}, "--evaluators")
        if config.works(one):
            found.append(replace(one, sampler=Uniform(rate=1.0)))
        elif names is not None:
            raise ConfigError(f"--evaluators: {name} asks a language model: configure judge.model")
        else:
            notes.write(f"{name} is off: it asks a language model, and no judge.model is configured\n")
    if not found:
        raise ConfigError("--evaluators: there is none to score with")
    return found


def _listed(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


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
    """Give every result to `deliver`, save those `delivered` already; call `scored` as each case is done.

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
