"""Evaluation of its own for what is judged afterwards: own judges under an own budget, own samplers, own counts."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from monitor.backfill.around import Around
from monitor.errors import ConfigError
from monitor.judge.client import open_judge
from monitor.judge.prices import tariff
from monitor.judge.settings import Budget
from monitor.model.outcome import Standing
from monitor.pipeline.counting import Counting
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.results import Results
from monitor.stages import Deliver, Judge, Runtime
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics, total

_SILENT: Final = frozenset({Event.JUDGE_READY, Event.JUDGE_BUDGET_SPENT})  # the worker says these in its own words


class _Apart(Events):
    """Events that are logged as any others and counted where nobody looks, so that no alert takes them for live."""

    def _emit(self, level: int, event: Event, message: str, fields: dict[str, object]) -> None:
        if event not in _SILENT:
            super()._emit(level, event, message, {**fields, "during": "backfill"})


class _Nothing:
    def remembered(self, result: str) -> bool:  # noqa: ARG002 - the contract's signature
        return False

    def remember(self, results: Iterable[str]) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Judging:
    """The evaluation, and the metrics that its judges count in, which nobody scrapes."""

    evaluation: Evaluation
    metrics: Metrics

    @property
    def paid(self) -> float:
        """US dollars that the judges' calls have cost so far."""
        return total(self.metrics.judge_cost)


def check(around: Around, budget: Budget) -> None:
    """Raises `ConfigError` where `budget` is in dollars and nobody knows the price of a judge's model. May block."""
    for name in dict.fromkeys(one.judge for one in around.assignments if one.evaluator.cost == "judge"):
        try:
            tariff(around.judges[name].model_copy(update={"budget": budget}))
        except ConfigError as error:
            raise ConfigError(f"backfill.budget: {error}") from None


@asynccontextmanager
async def open_judging(around: Around, *, budget: Budget, deliver: Deliver, runtime: Runtime) -> AsyncIterator[Judging]:
    """For the life of the context. Each judge has a `budget` of its own, and the pause of the live one.

    Raises `ConfigError` where a judge cannot work, as with a budget in dollars for a model whose price nobody knows.
    """
    metrics = Metrics()
    apart = Runtime(clock=runtime.clock, metrics=metrics, events=_Apart(metrics), health=Health(), share=runtime.share)
    async with AsyncExitStack() as stack:
        judges: dict[str, Judge] = {}
        for name in dict.fromkeys(one.judge for one in around.assignments if one.evaluator.cost == "judge"):
            own = around.judges[name].model_copy(update={"budget": budget})
            opening = open_judge(own, apart, rng=random.Random(), pause=around.pauses.get(name))
            judges[name] = await stack.enter_async_context(opening)
        evaluation = Evaluation(
            around.assignments,
            judges=judges,
            sinks={"backfill": deliver},
            counting=Counting(metrics),
            delivered=_Nothing(),
            runtime=apart,
            salt=around.salt,
            waiting_limit=sys.maxsize,
            repeat={},
            results=Results(apart, slices=around.slices, standing=Standing.BACKFILL),
        )
        yield Judging(evaluation, metrics)
