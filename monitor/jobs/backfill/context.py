"""What backfill uses of the process around it, and the scorer that it opens there under a budget of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from monitor.errors import ConfigError
from monitor.judge.pause import Pause
from monitor.judge.prices import tariff
from monitor.judge.settings import Budget, JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import RateScope
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import Scorer, open_scorer
from monitor.stages import Deliver, Runtime
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics, total

_SILENT: Final = frozenset({Event.JUDGE_READY, Event.JUDGE_BUDGET_SPENT})  # the worker says these in its own words


class _BackfillEvents(Events):
    """Logs events as usual, but counts them where nothing is scraped: no alert takes them for live ones."""

    def _emit(self, level: int, event: Event, message: str, fields: dict[str, object]) -> None:
        if event not in _SILENT:
            super()._emit(level, event, message, {**fields, "during": "backfill"})


class BackfillScorer(NamedTuple):
    """A scorer for backfill, and the metrics that its judges count in."""

    scorer: Scorer
    metrics: Metrics

    @property
    def paid(self) -> float:
        """US dollars that the judges' calls have cost so far."""
        return total(self.metrics.judge_cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillContext:
    """What backfill uses of the process around it.

    `evaluators` are those that can work, `versions` theirs in this process, `judges` the settings of all judges by
    name. `deliver` hands a result to the sinks; `known` says which results, by their ids, have a score already; `turn`
    waits for a turn at a judge, by its name, that nothing live wants. `pauses` are those of the live judges, by name.
    `forgets` says whether a case is to be forgotten.
    """

    evaluators: Sequence[ConfiguredEvaluator]
    judges: Mapping[str, JudgeSettings]
    versions: Mapping[str, str]
    deliver: Deliver
    known: Callable[[Collection[str]], Awaitable[set[str]]]
    turn: Callable[[str], AbstractAsyncContextManager[object]]
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    forgets: Callable[[Case], bool] = lambda _case: False
    slices: Sequence[str] = ()

    def check(self, budget: Budget) -> None:
        """Raise `ConfigError` where `budget` is in dollars and a judge's model has no known price. May block."""
        for name in dict.fromkeys(one.judge for one in self.evaluators if one.evaluator.cost == "judge"):
            try:
                tariff(self.judges[name].model_copy(update={"budget": budget}))
            except ConfigError as error:
                raise ConfigError(f"backfill.budget: {error}") from None

    @asynccontextmanager
    async def open_scorer(self, budget: Budget, runtime: Runtime) -> AsyncIterator[BackfillScorer]:
        """Open judges under `budget` for the life of the context; they share the pauses of the live ones.

        Raises `ConfigError` where a judge cannot work.
        """
        metrics, clock, share = Metrics(), runtime.clock, runtime.share
        lent = Runtime(clock=clock, metrics=metrics, events=_BackfillEvents(metrics), health=Health(), share=share)
        opening = open_scorer(
            self.evaluators,
            {name: settings.model_copy(update={"budget": budget}) for name, settings in self.judges.items()},
            runtime=lent,
            slices=self.slices,
            standing=RateScope.BACKFILL,
            pauses=self.pauses,
        )
        async with opening as scorer:
            yield BackfillScorer(scorer, metrics)
