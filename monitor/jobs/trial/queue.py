"""Tries in a running monitor: one at a time, at most so many an hour, and nothing live hears of them."""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread

from monitor.errors import ConfigError, InvalidData, MonitorError, Overloaded
from monitor.jobs.trial import run as judging
from monitor.jobs.trial.kept import of_row
from monitor.jobs.trial.run import TrialResult
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.stages import Runtime
from monitor.statistics.limits import CalendarCap
from monitor.telemetry.metrics import total

MOST_TIMES: Final = 5
"""Times that one try asks at most."""

LONGEST: Final = 300.0
"""Seconds that one try may take; then it ends with the times that it had."""

_HOUR: Final = 3600.0
_KEPT, _KEPT_FOR, _TIDY_EVERY = 20, _HOUR, 60.0  # what was tried, with its texts, in memory alone


class Trial:
    """One try that somebody asked for, as far as it has come. `began` is wall-clock seconds, `times` how many."""

    def __init__(self, case: Case, who: Sequence[ConfiguredEvaluator], times: int, began: float) -> None:
        self.name = secrets.token_urlsafe(12)
        self.case = case
        self.who = who
        self.times = times
        self.began = began
        self.tried: TrialResult | None = None
        self.fault = ""
        """Why there are not as many times as were asked for; empty where there are."""
        self.over = anyio.Event()

    @property
    def evaluator(self) -> str:
        """The name of the one that is tried."""
        return self.who[0].evaluator.name

    @property
    def trace_id(self) -> str:
        """Of the case."""
        return self.case.request_id

    def show(self, tried: TrialResult) -> None:
        """What there is so far."""
        self.tried = tried


class TrialQueue:
    """Begins tries, and carries them out in `run`.

    Args:
        per_hour: how many may begin within an hour, 1 or more.
        working: the evaluators that can work.
        judges: the settings of every judge, by name.
    """

    def __init__(
        self,
        per_hour: int,
        working: Sequence[ConfiguredEvaluator],
        judges: Mapping[str, JudgeSettings],
        *,
        runtime: Runtime,
    ) -> None:
        self._per_hour = per_hour
        self._working = {one.evaluator.name: one for one in working}
        self._judges = judges
        self._runtime = runtime
        self._allowed = CalendarCap(per_hour, _HOUR)
        self._started = runtime.clock.monotonic()  # the hours are counted from here: no jump of the wall clock matters
        self._kept: OrderedDict[str, Trial] = OrderedDict()
        self._under_way: Trial | None = None
        self._begins = anyio.Event()

    @property
    def evaluators(self) -> Sequence[str]:
        """Those that can be tried, by name."""
        return list(self._working)

    def begin(self, row: Mapping[str, Any], evaluator: str, times: int) -> Trial:
        """Begin one on the case of a result, `times` from 1 to `MOST_TIMES`. It goes on by itself, whoever waits.

        Raises `Overloaded` while another one goes on, and after the last one of an hour; `InvalidData` where the result
        has no texts, or they cannot be read; `ConfigError` where the evaluator is none that can work.
        """
        one = self._working.get(evaluator)
        if one is None:
            raise ConfigError(f"evaluator: {evaluator!r} is not one of: {', '.join(self._working) or 'none'}")
        if not 1 <= times <= MOST_TIMES:
            raise ConfigError(f"times: {times} is not from 1 to {MOST_TIMES}")
        if self._under_way is not None:
            raise Overloaded("another try goes on; there is one at a time", 5.0)
        now = self._runtime.clock.monotonic() - self._started
        self._allowed.turn(now)
        if not self._allowed.fits(1):
            message = f"{self._per_hour} tries have begun within this hour, ui.max_trials_per_hour allows no more"
            raise Overloaded(message, math.ceil(self._allowed.ends - now))
        case = of_row(row)
        if case is None:
            raise InvalidData("the texts of this case are not kept: `storage.texts: all` keeps those to come")
        trial = Trial(case, judging.group(one, self._working.values()), times, self._runtime.clock.now())
        self._allowed.use(1)
        self._under_way = self._kept[trial.name] = trial
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        self._begins.set()
        return trial

    def find(self, name: str) -> Trial | None:
        """The one of this name, for an hour and as long as there are not many newer ones."""
        self._tidy()
        return self._kept.get(name)

    async def run(self) -> None:
        """Carry out what has begun, until cancelled. Never raises."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._tidy_now_and_then)
            while True:
                await self._begins.wait()
                self._begins = anyio.Event()
                trial = self._under_way
                if trial is None:
                    continue
                try:
                    await self._try(trial)
                finally:
                    self._under_way = None
                    trial.over.set()

    async def _try(self, trial: Trial) -> None:
        first = trial.who[0]
        aside = await anyio.to_thread.run_sync(partial(Runtime.standalone, logs=False))
        try:
            with anyio.move_on_after(LONGEST) as limit:
                await judging.run(
                    trial.who,
                    trial.case,
                    trial.times,
                    settings=self._judges[first.judge] if first.evaluator.cost == "judge" else None,
                    runtime=aside,
                    shown=trial.show,
                )
            if limit.cancelled_caught:
                trial.fault = f"It took longer than {LONGEST:.0f} s and was cut off."
        except MonitorError as error:
            trial.fault = f"It cannot be tried: {error}"
        except Exception as error:  # noqa: BLE001 - whatever it is, the monitor goes on
            trial.fault = f"It came to nothing: {type(error).__name__}."
        finally:
            self._count(trial, total(aside.metrics.judge_cost))

    def _count(self, trial: Trial, paid: float) -> None:
        metrics = self._runtime.metrics
        metrics.trials_cost.inc(paid)
        for once in trial.tried.times if trial.tried is not None else ():
            outcome = "verdict" if isinstance(once.judged.outcome, Score) else "none"
            metrics.trials.labels(trial.evaluator, outcome).inc()

    async def _tidy_now_and_then(self) -> None:
        while True:
            await anyio.sleep(_TIDY_EVERY)
            self._tidy()

    def _tidy(self) -> None:
        too_old = self._runtime.clock.now() - _KEPT_FOR
        for name in [name for name, one in self._kept.items() if one.began < too_old]:
            del self._kept[name]
