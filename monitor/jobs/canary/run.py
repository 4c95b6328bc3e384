"""Evaluates the canary set on a schedule and compares the verdicts with those of the first runs.

The evaluations are the same as in production (same evaluators, groups, judges, budget), but nothing is sampled or
cached, and production neither counts nor stores them. References, the runs of the last day and the time of the last run
are kept in one small file in the storage folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from monitor.errors import MonitorError
from monitor.jobs.canary import CanarySettings
from monitor.model.canary import CanaryRun
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult, Score, Skipped
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import REPEAT_STEP, Scorer
from monitor.stages import Judge, Runtime
from monitor.statistics.reference import WINDOW, Reference, Tally
from monitor.storage.files import write_whole
from monitor.telemetry.events import Event

_MOST: Final = 5
"""References kept for each evaluator, so that a version that comes back still has one."""

_HOPELESS: Final = 3
"""Cases in a row without a verdict after which a run ends early: the judge is unreachable, or its budget is spent."""

AGREEMENTS: Final = ("same", "stricter", "milder", "unscored")


@dataclass(slots=True)
class CanaryReference:
    """The reference of one version of an evaluator on one set of cases, and its runs of the last day."""

    reference: Reference = field(default_factory=Reference)
    runs: list[CanaryRun] = field(default_factory=list)

    def ran(self, run: CanaryRun) -> None:
        """Add a run that was compared with the reference; drop those older than the window."""
        self.runs = [one for one in self.runs if one.at > run.at - WINDOW] + [run]


class CanaryState:
    """The references of all evaluators. `last_run`: the wall-clock second at which the last run began, 0: never."""

    def __init__(self) -> None:
        self.last_run = 0.0
        self._known: dict[tuple[str, str], CanaryReference] = {}

    def of(self, evaluator: str, key: str) -> CanaryReference:
        """Return the reference of an evaluator under `key`: its version, its defect rule and the cases."""
        known = self._known.pop((evaluator, key), None) or CanaryReference()
        self._known[evaluator, key] = known  # the last one used comes last
        mine = [one for one in self._known if one[0] == evaluator]
        for old in mine[:-_MOST]:
            del self._known[old]
        return known

    def items(self) -> Iterator[tuple[tuple[str, str], CanaryReference]]:
        """Yield all references by evaluator and key, the last used ones at the end."""
        yield from self._known.items()


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Run(_Stored):
    at: float = Field(allow_inf_nan=False)
    version: str
    same: int = Field(ge=0)
    stricter: int = Field(ge=0)
    milder: int = Field(ge=0)
    tolerance: float = Field(ge=0, allow_inf_nan=False)


class _StoredReference(_Stored):
    evaluator: str
    key: str
    reference_runs: int = Field(ge=0)
    cases: dict[str, tuple[int, int]]
    runs: list[_Run]


class _StateFile(_Stored):
    last_run: float = Field(allow_inf_nan=False)
    known: list[_StoredReference]


def read(path: Path) -> CanaryState:
    """Read the file at `path`; return an empty state if there is none. Raises `MonitorError` if it cannot be read."""
    state = CanaryState()
    try:
        found = _StateFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return state
    except OSError as error:
        raise MonitorError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise MonitorError(f"{path} is damaged: {error.error_count()} faults in its content") from None
    state.last_run = found.last_run
    for entry in found.known:
        known = state.of(entry.evaluator, entry.key)
        tallies = {case: Tally(*verdicts) for case, verdicts in entry.cases.items()}
        known.reference = Reference(entry.reference_runs, tallies)
        known.runs = [CanaryRun(evaluator=entry.evaluator, **dict(run)) for run in entry.runs]
    return state


def write(path: Path, state: CanaryState) -> None:
    """Replace the file at `path`. Raises `OSError`."""
    content = _StateFile(
        last_run=state.last_run,
        known=[
            _StoredReference(
                evaluator=evaluator,
                key=key,
                reference_runs=known.reference.runs,
                cases={case: (one.good, one.defects) for case, one in known.reference.cases.items()},
                runs=[_Run(**{name: getattr(run, name) for name in _Run.model_fields}) for run in known.runs],
            )
            for (evaluator, key), known in state.items()
        ],
    )
    write_whole(path, content.model_dump_json().encode())


class Canary:
    """Runs the canary set: `cases` by id, evaluated by those of `configured` that ask one of production's judges.

    Its state is in the file `path`. `on_run` gets each run that was compared with a reference and, at the start, those
    of the last day.
    """

    def __init__(
        self,
        settings: CanarySettings,
        evaluators: Sequence[ConfiguredEvaluator],
        *,
        judges: Mapping[str, Judge],
        cases: Mapping[str, Case],
        runtime: Runtime,
        path: Path,
        on_run: Callable[[CanaryRun], None],
    ) -> None:
        self._settings = settings
        self._evaluators = [one for one in evaluators if one.evaluator.cost == "judge"]
        self._scorer = Scorer(self._evaluators, judges, runtime=runtime)
        self._cases = cases
        self._runtime = runtime
        self._path = path
        self._on_run = on_run
        self._versions = self._scorer.versions
        self._keys = {
            one.evaluator.name: _key(self._versions[one.evaluator.name], one, cases) for one in self._evaluators
        }
        self._state = CanaryState()
        self._number = 0

    async def run(self) -> None:
        """Evaluate the set on schedule, until cancelled. Without a schedule or a judge it returns at once."""
        every = self._settings.interval
        if every is None or not self._evaluators:
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
        """Evaluate the set once."""
        self._number += 1
        self._state.last_run = self._runtime.clock.now()
        self._runtime.metrics.canary_last_run.set(self._state.last_run)
        found: dict[str, dict[str, EvaluationResult]] = {name: {} for name in self._versions}
        dollars, hopeless = 0.0, 0
        for case_id, case in self._cases.items():
            judged = await self._scorer.score(case, repeat=self._number * REPEAT_STEP)
            for one in judged:
                found[one.evaluator][case_id] = one
                dollars += one.cost.dollars
            due = [one for one in judged if not isinstance(one.outcome, Skipped)]
            hopeless = hopeless + 1 if due and not any(isinstance(one.outcome, Score) for one in due) else 0
            if hopeless >= _HOPELESS:
                break
        for name, results in found.items():
            self._take(name, results)
        self._runtime.events.info(
            Event.CANARY_JUDGED,
            "the canary set was evaluated" if hopeless < _HOPELESS else "the canary run ended early: no verdicts",
            evaluators=sorted(found),
            dollars=round(dollars, 6),
        )
        try:
            await anyio.to_thread.run_sync(write, self._path, self._state)
        except OSError as error:
            self._failed(f"the canary's reference cannot be saved: {error.strerror}")

    def _take(self, name: str, results: Mapping[str, EvaluationResult]) -> None:
        """Take the results of one evaluator in one run. With verdicts on fewer than half of them, ignore the run."""
        scored = {case: one.defect for case, one in results.items() if isinstance(one.outcome, Score)}
        due = len(self._cases) - sum(isinstance(one.outcome, Skipped) for one in results.values())
        self._count(name, "unscored", due - len(scored))
        if not scored or 2 * len(scored) < due:
            return
        known = self._state.of(name, self._keys[name])
        if known.reference.complete:
            self._compare(name, known, scored)
            return
        known.reference = known.reference.with_run(scored)
        if known.reference.complete:
            self._expose(name, known)
            self._runtime.events.info(
                Event.CANARY_LEARNED,
                "the judge's reference on the canary set is complete; from now on drift is detected",
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
        self._on_run(run)

    async def _recall(self) -> None:
        """Load the references of earlier processes; create all series at 0."""
        try:
            self._state = await anyio.to_thread.run_sync(read, self._path)
        except MonitorError as error:
            self._failed(f"the canary's reference is lost and will be rebuilt: {error}")
        self._runtime.metrics.canary_last_run.set(self._state.last_run)
        for name in self._versions:
            for agreement in AGREEMENTS:
                self._count(name, agreement, 0)
            self._runtime.metrics.canary_runs.labels(name, self._versions[name])
            known = self._state.of(name, self._keys[name])
            if known.reference.complete:
                self._expose(name, known)
            for run in known.runs:
                self._on_run(replace(run, tolerance=self._tolerance(known)))

    def _tolerance(self, known: CanaryReference) -> float:
        return known.reference.noise + self._settings.tolerance

    def _expose(self, name: str, known: CanaryReference) -> None:
        tolerance = self._runtime.metrics.canary_tolerance.labels(name, self._versions[name])
        tolerance.set(self._tolerance(known))

    def _count(self, name: str, agreement: str, number: int) -> None:
        self._runtime.metrics.canary_verdicts.labels(name, self._versions[name], agreement).inc(number)

    def _failed(self, message: str) -> None:
        self._runtime.events.warning(Event.CANARY_FAILED, message)


def _key(version: str, configured: ConfiguredEvaluator, cases: Mapping[str, Case]) -> str:
    """Identify a reference: a different version, defect rule or set of cases gives different verdicts."""
    described = "\n".join([version, str(configured.defect), *cases])
    return hashlib.blake2b(described.encode(), digest_size=8).hexdigest()
