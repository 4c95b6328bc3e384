"""Judges of its own for what is judged afterwards, under a budget of its own, counted where nobody looks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from monitor.backfill.around import Around
from monitor.errors import ConfigError
from monitor.judge.prices import tariff
from monitor.judge.settings import Budget
from monitor.model.outcome import Standing
from monitor.pipeline.scoring import Scorer, open_scorer
from monitor.stages import Runtime
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics, total

_SILENT: Final = frozenset({Event.JUDGE_READY, Event.JUDGE_BUDGET_SPENT})  # the worker says these in its own words


class _Apart(Events):
    """Events that are logged as any others and counted where nobody looks, so that no alert takes them for live."""

    def _emit(self, level: int, event: Event, message: str, fields: dict[str, object]) -> None:
        if event not in _SILENT:
            super()._emit(level, event, message, {**fields, "during": "backfill"})


class Judging(NamedTuple):
    """The scorer, and the metrics that its judges count in, which nobody scrapes."""

    scorer: Scorer
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
async def open_judging(around: Around, *, budget: Budget, runtime: Runtime) -> AsyncIterator[Judging]:
    """For the life of the context. Each judge has a `budget` of its own, and the pause of the live one.

    Raises `ConfigError` where a judge cannot work, as with a budget in dollars for a model whose price nobody knows.
    """
    metrics = Metrics()
    apart = Runtime(clock=runtime.clock, metrics=metrics, events=_Apart(metrics), health=Health(), share=runtime.share)
    judges = {name: settings.model_copy(update={"budget": budget}) for name, settings in around.judges.items()}
    opening = open_scorer(
        around.assignments,
        judges,
        runtime=apart,
        slices=around.slices,
        standing=Standing.BACKFILL,
        pauses=around.pauses,
    )
    async with opening as scorer:
        yield Judging(scorer, metrics)
