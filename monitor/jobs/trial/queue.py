"""Trials in a running monitor: one at a time, limited per hour, with no effect on anything live."""

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
from monitor.jobs.trial import run as trials
from monitor.jobs.trial.run import TrialResult, of_row
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import Score
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.stages import Runtime
from monitor.statistics.limits import CalendarCap
from monitor.telemetry.metrics import total

MAX_TIMES: Final = 5
"""The most evaluations in one trial."""

TIMEOUT: Final = 300.0
"""Seconds that one trial may take; it then ends with the evaluations finished so far."""

_HOUR: Final = 3600.0
_KEPT, _KEPT_FOR, _TIDY_INTERVAL = 20, _HOUR, 60.0  # results with their texts, in memory only


class Trial:
    """A trial and its progress. `started_at` is wall-clock seconds, `times` the number of evaluations requested."""

    def __init__(self, case: Case, evaluators: Sequence[ConfiguredEvaluator], times: int, started_at: float) -> None:
        self.name = secrets.token_urlsafe(12)
        self.case = case
        self.evaluators = evaluators
        self.times = times
        self.started_at = started_at
        self.result: TrialResult | None = None
        """The evaluations that have finished; None before the first."""
        self.error = ""
        """Why there are fewer evaluations than requested; empty if there are not."""
        self.finished = anyio.Event()

    @property
    def evaluator(self) -> str:
        """The name of the tried evaluator."""
        return self.evaluators[0].evaluator.name

    @property
    def trace_id(self) -> str:
        """The trace of the case."""
        return self.case.request_id

    def progress(self, result: TrialResult) -> None:
        """Take the evaluations that have finished so far."""
        self.result = result


class TrialQueue:
    """Starts trials of the `working` evaluators, at most `per_hour` (1 or more), and carries them out in `run`."""

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
        self._running: Trial | None = None
        self._wake = anyio.Event()

    @property
    def evaluators(self) -> Sequence[str]:
        """The names of the evaluators that can be tried."""
        return list(self._working)

    def start(self, row: Mapping[str, Any], evaluator: str, times: int) -> Trial:
        """Start a trial on the case of a result, `times` from 1 to `MAX_TIMES`. It runs in the background.

        Raises:
            Overloaded: another trial is running, or the limit per hour is reached.
            InvalidData: the result has no texts, or they cannot be read.
            ConfigError: the evaluator is not working, or `times` is out of range.
        """
        one = self._working.get(evaluator)
        if one is None:
            raise ConfigError(f"evaluator: {evaluator!r} is not one of: {', '.join(self._working) or 'none'}")
        if not 1 <= times <= MAX_TIMES:
            raise ConfigError(f"times: {times} is not from 1 to {MAX_TIMES}")
        if self._running is not None:
            raise Overloaded("another trial is running; only one runs at a time", 5.0)
        now = self._runtime.clock.monotonic() - self._started
        self._allowed.turn(now)
        if not self._allowed.fits(1):
            message = f"{self._per_hour} trials have started within this hour, the limit of ui.max_trials_per_hour"
            raise Overloaded(message, math.ceil(self._allowed.ends - now))
        case = of_row(row)
        if case is None:
            raise InvalidData("the texts of this case are not stored; `storage.texts: all` stores those of new traces")
        trial = Trial(case, trials.group(one, self._working.values()), times, self._runtime.clock.now())
        self._allowed.use(1)
        self._running = self._kept[trial.name] = trial
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        self._wake.set()
        return trial

    def find(self, name: str) -> Trial | None:
        """Return the trial of this name; it is kept for an hour and while there are fewer than twenty newer ones."""
        self._tidy()
        return self._kept.get(name)

    async def run(self) -> None:
        """Run started trials until cancelled. Never raises."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._tidy_regularly)
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                trial = self._running
                if trial is None:
                    continue
                try:
                    await self._run(trial)
                finally:
                    self._running = None
                    trial.finished.set()

    async def _run(self, trial: Trial) -> None:
        first = trial.evaluators[0]
        standalone = await anyio.to_thread.run_sync(partial(Runtime.standalone, logs=False))
        try:
            with anyio.move_on_after(TIMEOUT) as limit:
                await trials.run(
                    trial.evaluators,
                    trial.case,
                    trial.times,
                    settings=self._judges[first.judge] if first.evaluator.cost == "judge" else None,
                    runtime=standalone,
                    progress=trial.progress,
                )
            if limit.cancelled_caught:
                trial.error = f"The trial was stopped after {TIMEOUT:.0f} s."
        except MonitorError as error:
            trial.error = f"The evaluator cannot run: {error}"
        except Exception as error:  # noqa: BLE001 - the monitor keeps running
            trial.error = f"The trial failed: {type(error).__name__}."
        finally:
            self._count(trial, total(standalone.metrics.judge_cost))

    def _count(self, trial: Trial, dollars: float) -> None:
        metrics = self._runtime.metrics
        metrics.trials_cost.inc(dollars)
        for run in trial.result.runs if trial.result is not None else ():
            outcome = "scored" if isinstance(run.result.outcome, Score) else "none"
            metrics.trials.labels(trial.evaluator, outcome).inc()

    async def _tidy_regularly(self) -> None:
        while True:
            await anyio.sleep(_TIDY_INTERVAL)
            self._tidy()

    def _tidy(self) -> None:
        too_old = self._runtime.clock.now() - _KEPT_FOR
        for name in [name for name, one in self._kept.items() if one.started_at < too_old]:
            del self._kept[name]
