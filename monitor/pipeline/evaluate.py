"""From a case to its results: who evaluates it, with which weight, and what came of it.

The only place that catches evaluator faults: whatever goes wrong becomes `Unscored` with a reason and is counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from monitor.errors import JudgeError
from monitor.judge.panel import Panel, Seat
from monitor.model.case import Case
from monitor.model.outcome import (
    Judged,
    Outcome,
    Score,
    Skipped,
    SkippedReason,
    Spending,
    Unscored,
    UnscoredReason,
    result_id,
)
from monitor.pipeline.assignment import Assignment, Tally, versions
from monitor.pipeline.counting import Counting
from monitor.samplers import _consistent
from monitor.stages import Deliver, Evaluator, Judge, Runtime
from monitor.telemetry.events import Event

_log = logging.getLogger(__name__)


class Delivered(Protocol):
    """Which results the sinks have had already, across restarts, so that a repeated case is not judged twice."""

    def remembered(self, result: str) -> bool:
        """Whether the result with this id was delivered."""
        ...

    def remember(self, results: Iterable[str]) -> None:
        """The results with these ids are delivered. Does not wait for the disk."""
        ...


class Evaluation:
    """Runs every assignment over every case.

    Local evaluators run at once, in a worker thread. Judged ones wait for the judge, as many cases at a time as fit
    into `waiting_limit` characters of text; beyond that a judgement is `unscored{overloaded}`, so that a slow judge
    holds up neither the local evaluators nor the receivers.

    Args:
        judges: by name; `assignments` must not hold judged evaluators whose judge is not among them.
        sinks: by the name under which their failures are counted.
        salt: key of the hash that draws: the same in all replicas.
        repeat: by judge, the share of judged cases that are judged twice, 0 to 1.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        *,
        judges: Mapping[str, Judge],
        sinks: Mapping[str, Deliver],
        counting: Counting,
        delivered: Delivered,
        runtime: Runtime,
        salt: str,
        waiting_limit: int,
        repeat: Mapping[str, float],
    ) -> None:
        self._local = [one for one in assignments if one.evaluator.cost == "local"]
        self._judged = [one for one in assignments if one.evaluator.cost == "judge"]
        self._judges = judges
        self._sinks = sinks
        self._sink_failures = {name: runtime.metrics.sink_failures.labels(name) for name in sinks}
        self._counting = counting
        self._delivered = delivered
        self._runtime = runtime
        self._salt = salt
        self._waiting_limit = waiting_limit
        self._waiting = 0
        self._repeat = repeat
        self._repeats = {
            (one.evaluator.name, outcome): runtime.metrics.judge_repeats.labels(one.evaluator.name, outcome)
            for one in self._judged
            for outcome in ("same", "other", "unscored")
        }
        self._versions = versions(assignments, judges)
        for one in assignments:
            counting.declare(one.evaluator, one.defect)

    @property
    def waiting(self) -> int:
        """Characters of text of the cases that wait for the judge now."""
        return self._waiting

    def prepare(self, app: str) -> None:
        """Create all series of `app` at 0, before its first verdict: one born at 1 is invisible to `increase()`."""
        self._counting.prepare(app)

    async def run_local(self, case: Case) -> None:
        """Every local evaluator on `case`, one after the other; returns when the sinks have the results."""
        for assignment in self._local:
            probability = self._draw(assignment, case)
            if probability > 0:
                await self._evaluate(assignment, case, probability)

    def judged_for(self, case: Case) -> list[tuple[Assignment, float]]:
        """The judged evaluators that chose `case`, each with the probability it had."""
        drawn = ((one, self._draw(one, case)) for one in self._judged)
        return [(one, probability) for one, probability in drawn if probability > 0]

    async def run_judged(self, case: Case, chosen: Sequence[tuple[Assignment, float]]) -> None:
        """Every evaluator in `chosen` on `case`, side by side; returns when the sinks have the results."""
        size = len(case.response) + sum(len(document.content) for document in case.retrieved_context)
        if self._waiting and self._waiting + size > self._waiting_limit:
            for assignment, probability in chosen:
                self._counting.selected(case.app, assignment.evaluator.name)
                full = Unscored(UnscoredReason.OVERLOADED, "the queue in front of the judge is full")
                await self._finish(assignment, case, probability, full, Spending())
            return
        self._waiting += size
        try:
            async with anyio.create_task_group() as side_by_side:
                self._start(side_by_side, case, chosen)
        finally:
            self._waiting -= size

    def _start(self, group: TaskGroup, case: Case, chosen: Sequence[tuple[Assignment, float]]) -> None:
        """Begin all evaluations; those of one group and judge on a panel, if there is more than one of them."""
        together = Counter((one.group, one.judge) for one, _ in chosen if one.group)
        panels = {key: Panel(self._judges[key[1]]) for key, number in together.items() if number > 1}
        for assignment, probability in chosen:
            panel = panels.get((assignment.group, assignment.judge))
            seat = panel.seat() if panel is not None else None
            group.start_soon(self._evaluate, assignment, case, probability, seat)

    def _draw(self, assignment: Assignment, case: Case) -> float:
        """The probability with which `case` is chosen, if it is chosen; else 0."""
        probability = assignment.sampler.probability(case)
        if not _consistent.chosen(case.request_id, self._salt, probability):
            return 0.0
        name = assignment.evaluator.name
        done = self._delivered.remembered(result_id(case.request_id, case.span_id, name, self._versions[name]))
        return 0.0 if done else probability

    async def _evaluate(self, assignment: Assignment, case: Case, probability: float, seat: Seat | None = None) -> None:
        evaluator = assignment.evaluator
        self._counting.selected(case.app, evaluator.name)
        clock = self._runtime.clock
        started = clock.monotonic()
        missing = _missing(evaluator, case)
        tally = Tally(seat or self._judges[assignment.judge]) if evaluator.cost == "judge" else None
        outcome: Outcome
        if missing is not None:
            outcome = Skipped(missing)
        else:
            try:
                if tally is None:
                    outcome = await anyio.to_thread.run_sync(_run_local, evaluator, case)
                else:
                    outcome = await evaluator.evaluate(case, tally)
                outcome = _checked(evaluator, outcome)
            except JudgeError as error:
                outcome = Unscored(error.reason, str(error))
            except Exception as error:  # noqa: BLE001 - the one place where evaluator faults are caught, and counted
                self._failed(evaluator, error)
                outcome = Unscored(UnscoredReason.ERROR, type(error).__name__)
        if seat is not None:
            await seat.leave()
        spent = tally.spending(clock.monotonic() - started) if tally else Spending(seconds=clock.monotonic() - started)
        await self._finish(assignment, case, probability, outcome, spent)
        if tally is not None and tally.verdicts and isinstance(outcome, Score):
            await self._judge_again(assignment, case, outcome)

    async def _judge_again(self, assignment: Assignment, case: Case, first: Score) -> None:
        """For a few cases, whether the same judge says the same again. Changes no result."""
        if not _consistent.chosen(case.request_id, f"{self._salt}/repeat", self._repeat.get(assignment.judge, 0.0)):
            return
        evaluator, rule = assignment.evaluator, assignment.defect
        try:
            second = _checked(
                evaluator, await evaluator.evaluate(case, Tally(self._judges[assignment.judge], repeat=1))
            )
        except Exception:  # noqa: BLE001 - what went wrong is counted with the judge's requests, by reason
            agreement = "unscored"
        else:
            same = isinstance(second, Score) and rule.matches(second) == rule.matches(first)
            agreement = "same" if same else "other" if isinstance(second, Score) else "unscored"
        self._repeats[evaluator.name, agreement].inc()

    async def _finish(
        self, assignment: Assignment, case: Case, probability: float, outcome: Outcome, spending: Spending
    ) -> None:
        evaluator = assignment.evaluator
        scored = outcome if isinstance(outcome, Score) else None
        judged = Judged(
            case=case,
            evaluator=evaluator.name,
            version=self._versions[evaluator.name],
            outcome=outcome,
            weight=1 / (case.probability * probability),
            level=evaluator.scale.level(scored.value) if scored else "",
            defect=bool(scored and assignment.defect.matches(scored)),
            spending=spending,
            judged_at=self._runtime.clock.now(),
        )
        self._counting.finished(judged, spending.seconds)
        for name, deliver in self._sinks.items():
            try:
                await deliver(judged)
            except Exception as error:  # noqa: BLE001 - a sink that fails must not stop the others; it is counted
                self._sink_failures[name].inc()
                self._runtime.events.error(
                    Event.SINK_FAILED,
                    "a sink did not take a result",
                    sink=name,
                    error=f"{type(error).__name__}: {error}",
                )
        self._delivered.remember([judged.id])

    def _failed(self, evaluator: Evaluator, error: Exception) -> None:
        _log.debug("evaluator %s failed", evaluator.name, exc_info=error)
        self._runtime.events.error(
            Event.EVALUATOR_FAILED, "an evaluator failed", evaluator=evaluator.name, error=type(error).__name__
        )


def _run_local(evaluator: Evaluator, case: Case) -> Outcome:
    """A local evaluator computes and never waits, so its coroutine ends at the first step, in whatever thread."""
    steps = evaluator.evaluate(case, None)
    try:
        steps.send(None)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
    steps.close()
    raise RuntimeError(f"the local evaluator {evaluator.name} waits for something; declare cost = 'judge'")


def _missing(evaluator: Evaluator, case: Case) -> SkippedReason | None:
    needs = evaluator.needs
    if "context" in needs and not case.retrieved_context:
        return SkippedReason.NO_CONTEXT
    if "history" in needs and not case.request.history:
        return SkippedReason.NO_HISTORY
    if "reference" in needs and case.expected_response is None and case.expected_retrieved_context is None:
        return SkippedReason.NO_REFERENCE
    return None


def _checked(evaluator: Evaluator, outcome: Outcome) -> Outcome:
    """A score off its scale would poison every rate: it is not one."""
    if isinstance(outcome, Score) and not evaluator.scale.holds(outcome.value):
        low, high = evaluator.scale.lowest, evaluator.scale.highest
        return Unscored(UnscoredReason.OUT_OF_RANGE, f"{outcome.value} is not on the scale from {low:g} to {high:g}")
    return outcome
