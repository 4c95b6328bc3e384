"""Judges the canary set on a schedule and holds the verdicts against those of the first runs.

The evaluations are those of production (same evaluators, groups, judges, budget), but no sampler draws, no cache
answers, and nothing that production counts or keeps hears of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from monitor.errors import MonitorError
from monitor.jobs.canary import state
from monitor.jobs.canary.settings import CanarySettings
from monitor.jobs.canary.state import CanaryReference, CanaryState
from monitor.model.canary import CanaryRun
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Score, Skipped
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import REPEAT_STEP, Scorer
from monitor.stages import Judge, Runtime
from monitor.telemetry.events import Event

_HOPELESS: Final = 3
"""Cases in a row without any verdict after which a run is given up: the judge cannot be reached, or its budget is
spent."""

AGREEMENTS: Final = ("same", "stricter", "milder", "unscored")


class Canary:
    """The canary set at work.

    Args:
        assignments: who evaluates; those that ask no judge are left out.
        judges: by name, those of production.
        cases: by id.
        path: the file that it remembers by.
        heard: is told of each run that was held against a reference; of those of the last day at the beginning.
    """

    def __init__(
        self,
        settings: CanarySettings,
        assignments: Sequence[ConfiguredEvaluator],
        *,
        judges: Mapping[str, Judge],
        cases: Mapping[str, Case],
        runtime: Runtime,
        path: Path,
        heard: Callable[[CanaryRun], None],
    ) -> None:
        self._settings = settings
        self._assignments = [one for one in assignments if one.evaluator.cost == "judge"]
        self._scorer = Scorer(self._assignments, judges, runtime=runtime)
        self._cases = cases
        self._runtime = runtime
        self._path = path
        self._heard = heard
        self._versions = self._scorer.versions
        self._keys = {
            one.evaluator.name: _key(self._versions[one.evaluator.name], one, cases) for one in self._assignments
        }
        self._state = CanaryState()
        self._number = 0

    async def run(self) -> None:
        """Judge the set every `every` seconds, until cancelled. Without a schedule or a judge returns at once."""
        every = self._settings.interval
        if every is None or not self._assignments:
            return
        await self._recall()
        clock = self._runtime.clock
        wait = max(self._settings.initial_delay, min(self._state.last_run + every - clock.now(), every))
        while True:
            await anyio.sleep(wait)
            began = clock.monotonic()
            await self.once()
            wait = max(0.0, began + every - clock.monotonic())

    async def once(self) -> None:
        """One run."""
        self._number += 1
        self._state.last_run = self._runtime.clock.now()
        self._runtime.metrics.canary_last_run.set(self._state.last_run)
        found: dict[str, dict[str, EvaluationResult]] = {name: {} for name in self._versions}
        dollars, hopeless = 0.0, 0
        for case_id, case in self._cases.items():
            judged = await self._scorer.score(case, repeat=self._number * REPEAT_STEP)
            for one in judged:
                found[one.evaluator][case_id] = one
                dollars += one.spending.dollars
            due = [one for one in judged if not isinstance(one.outcome, Skipped)]
            hopeless = hopeless + 1 if due and not any(isinstance(one.outcome, Score) for one in due) else 0
            if hopeless >= _HOPELESS:
                break
        for name, results in found.items():
            self._take(name, results)
        self._runtime.events.info(
            Event.CANARY_JUDGED,
            "the canary set was judged" if hopeless < _HOPELESS else "the canary set was given up: no verdicts come",
            evaluators=sorted(found),
            dollars=round(dollars, 6),
        )
        try:
            await anyio.to_thread.run_sync(state.write, self._path, self._state)
        except OSError as error:
            self._failed(f"what the canary has learned cannot be kept: {error.strerror}")

    def _take(self, name: str, results: Mapping[str, EvaluationResult]) -> None:
        """What one evaluator has said in one run. Where less than half of it came about, the run tells nothing."""
        scored = {case: one.defect for case, one in results.items() if isinstance(one.outcome, Score)}
        due = len(self._cases) - sum(isinstance(one.outcome, Skipped) for one in results.values())
        self._count(name, "unscored", due - len(scored))
        if not scored or 2 * len(scored) < due:
            return
        known = self._known(name)
        if known.reference.complete:
            self._compare(name, known, scored)
            return
        known.reference = known.reference.with_run(scored)
        if known.reference.complete:
            self._expose(name, known)
            self._runtime.events.info(
                Event.CANARY_LEARNED,
                "it is known what the judge says of the canary set; from now on it is watched",
                evaluator=name,
                version=self._versions[name],
                noise=round(known.reference.noise, 4),
            )

    def _compare(self, name: str, known: CanaryReference, scored: Mapping[str, bool]) -> None:
        usual = {case: known.reference.verdict(case) for case in scored}
        pairs = [(now, was) for case, now in scored.items() if (was := usual[case]) is not None]
        run = CanaryRun(
            at=self._runtime.clock.now(),
            evaluator=name,
            version=self._versions[name],
            same=sum(now == was for now, was in pairs),
            stricter=sum(now and not was for now, was in pairs),
            milder=sum(was and not now for now, was in pairs),
            tolerance=self._tolerance(known),
        )
        known.ran(run)
        for agreement, number in (("same", run.same), ("stricter", run.stricter), ("milder", run.milder)):
            self._count(name, agreement, number)
        self._runtime.metrics.canary_runs.labels(name, self._versions[name]).inc()
        self._heard(run)

    async def _recall(self) -> None:
        """Take up what earlier processes have learned; create all series, at 0."""
        try:
            self._state = await anyio.to_thread.run_sync(state.read, self._path)
        except MonitorError as error:
            self._failed(f"what the canary has learned is lost, it begins anew: {error}")
        self._runtime.metrics.canary_last_run.set(self._state.last_run)
        for name in self._versions:
            for agreement in AGREEMENTS:
                self._count(name, agreement, 0)
            self._runtime.metrics.canary_runs.labels(name, self._versions[name])
            known = self._known(name)
            if known.reference.complete:
                self._expose(name, known)
            for run in known.runs:
                self._heard(replace(run, tolerance=self._tolerance(known)))

    def _known(self, name: str) -> CanaryReference:
        return self._state.of(name, self._keys[name])

    def _tolerance(self, known: CanaryReference) -> float:
        return known.reference.noise + self._settings.tolerance

    def _expose(self, name: str, known: CanaryReference) -> None:
        tolerance = self._runtime.metrics.canary_tolerance.labels(name, self._versions[name])
        tolerance.set(self._tolerance(known))

    def _count(self, name: str, agreement: str, number: int) -> None:
        self._runtime.metrics.canary_verdicts.labels(name, self._versions[name], agreement).inc(number)

    def _failed(self, message: str) -> None:
        self._runtime.events.warning(Event.CANARY_FAILED, message)


def _key(version: str, assignment: ConfiguredEvaluator, cases: Mapping[str, Case]) -> str:
    """What a reference belongs to: another version, defect rule or set of cases has other verdicts."""
    told = "\n".join([version, str(assignment.defect), *cases])
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
