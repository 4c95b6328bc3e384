"""From a case to its results: who evaluates it, when its judge has a turn for it, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import MappingProxyType

import anyio
from anyio.abc import TaskGroup

from monitor.judge.panel import Panel, Seat
from monitor.judge.pause import Pause
from monitor.model.case import Case
from monitor.model.outcome import (
    Judged,
    Outcome,
    Score,
    Selection,
    Spending,
    Standing,
    Unscored,
    UnscoredReason,
    result_id,
)
from monitor.pipeline import edges, noting
from monitor.pipeline.again import JudgingAgain
from monitor.pipeline.assignment import Assignment, Tally, versions
from monitor.pipeline.counting import Counting
from monitor.pipeline.drawing import Drawing, Draws
from monitor.pipeline.fair import BACKFILL, LATE, Client, FairQueue
from monitor.pipeline.publish import Delivered, Publisher, tell_of
from monitor.pipeline.results import Results
from monitor.pipeline.traffic import Quota
from monitor.stages import Deliver, Drawn, Judge, Lesson, Runtime

_NO_SCORES: Mapping[str, Score] = MappingProxyType({})


class Evaluation:
    """Runs every assignment over every case.

    Local evaluators run at once, in a worker thread. Judged ones wait for their turn at the judge, apps in fairness, as
    many cases at a time as fit into `waiting_limit` characters of text; beyond that a judgement is
    `unscored{overloaded}`, so that a slow judge holds up neither the local evaluators nor the receivers.

    Args:
        judges: by name; `assignments` must not hold judged evaluators whose judge is not among them.
        pauses: those of the judges, by name: each is told of the judgements that it costs.
        sinks: by the name under which their failures are counted.
        draws: keeps the first probability of each case; None where no case can come again.
        salt: key of the hash that draws: the same in all replicas.
        repeat: by judge, the share of judged cases that are judged twice, 0 to 1.
        turns: by judge, how many cases may be at it at once; a judge that is not named takes all.
        shares: weights by app at the judges, > 0; 1 for others.
        quotas: of judgements, by app; `"*"` is for each app that is not named.
        results: what makes them; by default nothing is ever late.
        raises: whether `judged_for` will be asked to raise probabilities.
        missed: is told of each judgement that was not made as its judge refuses; quick, never raises.
    """

    def __init__(
        self,
        assignments: Sequence[Assignment],
        *,
        judges: Mapping[str, Judge],
        sinks: Mapping[str, Deliver],
        counting: Counting,
        delivered: Delivered,
        draws: Draws | None = None,
        runtime: Runtime,
        salt: str,
        waiting_limit: int,
        repeat: Mapping[str, float],
        turns: Mapping[str, int] | None = None,
        shares: Mapping[str, float] | None = None,
        quotas: Mapping[str, Quota] | None = None,
        results: Results | None = None,
        pauses: Mapping[str, Pause] | None = None,
        raises: bool = False,
        missed: Callable[[Case, Judged], None] = lambda _case, _judged: None,
    ) -> None:
        self._local = [one for one in assignments if one.evaluator.cost == "local"]
        self._judged = [one for one in assignments if one.evaluator.cost == "judge"]
        self._judges = judges
        self._pauses = pauses or {}
        self._missed = missed
        self._delivery = Publisher(sinks, delivered, runtime)
        self._counting = counting
        self._delivered = delivered
        self._runtime = runtime
        self._results = results or Results(runtime)
        self._queue = FairQueue(
            turns or {},
            limit=waiting_limit,
            shares=shares or {},
            clock=runtime.clock,
            patience=self._results.late_after,
        )
        self._again = JudgingAgain(self._judged, judges, repeat, salt=salt, runtime=runtime)
        self._versions = versions(assignments, judges)
        self._drawing = Drawing(
            assignments, versions=self._versions, draws=draws, runtime=runtime, salt=salt, quotas=quotas, raises=raises
        )
        for one in assignments:
            counting.declare(one.evaluator, one.defect, self._versions[one.evaluator.name])

    @property
    def waiting(self) -> int:
        """Characters of text of the cases that wait for a judge or are with one now."""
        return self._queue.size

    def spare_turn(self, judge: str) -> AbstractAsyncContextManager[bool]:
        """A turn at `judge` when nobody else waits for one, for what is judged afterwards; held for the context."""
        return self._queue.turn(judge, Client("", BACKFILL), 0)

    def prepare(self, app: str) -> None:
        """Create all series of `app` at 0, before its first verdict: one born at 1 is invisible to `increase()`."""
        self._counting.prepare(app)
        self._drawing.prepare(app)

    def heard(self, lesson: Lesson, *, delivered: bool) -> None:
        """A result of an earlier process or of another replica: the samplers learn from it, once.

        `delivered`: what all replicas read has it, so that a case which comes here after another replica's end is not
        judged again, nor a part of it: where the offset that was committed lay between the messages of one trace, the
        rest of that trace is read alone.
        """
        if delivered:
            self._delivered.remember([lesson.result])
        self._drawing.recall(lesson)

    async def run_local(self, case: Case) -> dict[str, Score]:
        """Every local evaluator on `case`, one after the other; their scores, when the sinks have the results."""
        scores, results = await self.score_local(case)
        await self.deliver(results)
        return scores

    async def deliver_one(self, judged: Judged) -> None:
        """Returns when the sinks have the result."""
        await self._delivery.one(judged)

    async def deliver(self, results: Sequence[Judged]) -> None:
        """Returns when the sinks have `results`."""
        await self._delivery.all(results)

    async def score_local(self, case: Case) -> tuple[dict[str, Score], list[Judged]]:
        """Every local evaluator on `case`, one after the other: their scores, and results that are to be delivered."""
        scores: dict[str, Score] = {}
        results: list[Judged] = []
        for assignment in self._local:
            drawn = self._draw(assignment, case, scores)
            if drawn is not None:
                name = assignment.evaluator.name
                self._counting.selected(case.app, name)
                judged = await self._evaluate(assignment, case, drawn, self._runtime.clock.monotonic())
                results.append(judged)
                if isinstance(judged.outcome, Score):
                    scores[name] = judged.outcome
        return scores, results

    def judged_for(
        self, case: Case, local: Mapping[str, Score] = _NO_SCORES, at_least: float = 0.0
    ) -> list[tuple[Assignment, Drawn]]:
        """The judged evaluators that chose `case`, and how; `local` are the scores of the local ones.

        `at_least` as in `Drawing.draw`.
        """
        drawn = ((one, self._draw(one, case, local, at_least)) for one in self._judged)
        return [(one, how) for one, how in drawn if how is not None]

    def others(self, case: Case, chosen: Sequence[tuple[Assignment, Drawn]]) -> tuple[Assignment, ...]:
        """The judged evaluators that apply to `case` and did not choose it."""
        judged_by = {one.evaluator.name for one, _ in chosen}
        left = (one for one in self._judged if one.evaluator.name not in judged_by)
        return tuple(one for one in left if edges.missing(one.evaluator, case) is None)

    async def run_disliked(self, case: Case, assignments: Sequence[Assignment]) -> None:
        """As `run_judged`, for a case that was not chosen until its user disliked it: its results stand apart."""
        how = Drawn(1.0, 1.0, standing=Standing.DISLIKED)
        new = [one for one in assignments if not self._delivered.remembered(self._id(one, case))]
        await self.run_judged(case, [(one, how) for one in new])

    def _id(self, one: Assignment, case: Case) -> str:
        return result_id(case.request_id, one.evaluator.name, self._versions[one.evaluator.name])

    async def run_judged(self, case: Case, chosen: Sequence[tuple[Assignment, Drawn]]) -> None:
        """Every evaluator in `chosen` on `case`, side by side; returns when the sinks have the results."""
        for assignment, _ in chosen:
            self._counting.selected(case.app, assignment.evaluator.name)
        async with anyio.create_task_group() as side_by_side:
            for judge in dict.fromkeys(assignment.judge for assignment, _ in chosen):
                side_by_side.start_soon(self._at_judge, judge, case, [one for one in chosen if one[0].judge == judge])

    async def _at_judge(self, judge: str, case: Case, chosen: Sequence[tuple[Assignment, Drawn]]) -> None:
        """Those in `chosen` that ask `judge`: they take their turn together, for they may sit on one panel."""
        began = self._runtime.clock.monotonic()
        client = Client(case.app, LATE if self._results.is_late(case) else case.traffic)
        async with AsyncExitStack() as turn:
            with self._runtime.tracer.part("wait for the judge"):
                granted = await turn.enter_async_context(self._queue.turn(judge, client, case.text_length))
            if granted:
                async with anyio.create_task_group() as side_by_side:
                    self._start(side_by_side, case, chosen, began)
                return
        for assignment, drawn in chosen:
            full = Unscored(UnscoredReason.OVERLOADED, "the queue in front of the judge is full")
            await self._delivery.one(self._finish(assignment, case, drawn, full, Spending()))

    def _start(self, group: TaskGroup, case: Case, chosen: Sequence[tuple[Assignment, Drawn]], began: float) -> None:
        """Begin all evaluations; those of one group and judge on a panel, if there is more than one of them."""
        together = Counter((one.group, one.judge) for one, _ in chosen if one.group)
        panels = {key: Panel(self._judges[key[1]]) for key, number in together.items() if number > 1}
        for assignment, drawn in chosen:
            panel = panels.get((assignment.group, assignment.judge))
            seat = panel.seat() if panel is not None else None
            group.start_soon(self._evaluate_judged, assignment, case, drawn, began, seat)

    def _draw(
        self, assignment: Assignment, case: Case, local: Mapping[str, Score] = _NO_SCORES, at_least: float = 0.0
    ) -> Drawn | None:
        """How `case` was drawn, if it was chosen and is not judged yet."""
        evaluator, note = assignment.evaluator, noting.current()
        missing = edges.missing(evaluator, case)
        drawn = self._drawing.draw(assignment, case, local, applies=missing is None, at_least=at_least)
        if note is not None and missing is not None:
            note.add(evaluator.name, missing=missing.value)
        if drawn is None:
            return None
        key = result_id(case.request_id, evaluator.name, self._versions[evaluator.name])
        if not self._delivered.remembered(key):
            return drawn
        if note is not None:
            note.add(evaluator.name, chosen=False, repeated=True)
        return None

    async def _evaluate_judged(
        self, assignment: Assignment, case: Case, drawn: Drawn, began: float, seat: Seat | None
    ) -> None:
        if (note := noting.current()) is not None:
            note.admitted(assignment.evaluator.name)
        with self._runtime.tracer.part(f"evaluate {assignment.evaluator.name}") as work:
            judged = await self._evaluate(assignment, case, drawn, began, seat)
            if work.recorded:
                tell_of(judged, work)
        await self._delivery.one(judged)
        asked = judged.spending.attempts > 0 or judged.spending.cached  # else it was scored by rule
        if asked and isinstance(judged.outcome, Score):
            await self._again.judge(assignment, case, judged.outcome)

    async def _evaluate(
        self, assignment: Assignment, case: Case, drawn: Drawn, began: float, seat: Seat | None = None
    ) -> Judged:
        evaluator, clock = assignment.evaluator, self._runtime.clock
        tally = Tally(seat or self._judges[assignment.judge]) if evaluator.cost == "judge" else None
        outcome = await edges.outcome_of(evaluator, case, tally, self._runtime.events)
        if seat is not None:
            await seat.leave()
        spent = tally.spending(clock.monotonic() - began) if tally else Spending(seconds=clock.monotonic() - began)
        return self._finish(assignment, case, drawn, outcome, spent)

    def _finish(self, assignment: Assignment, case: Case, drawn: Drawn, outcome: Outcome, spending: Spending) -> Judged:
        version = self._versions[assignment.evaluator.name]
        selection = Selection(drawn.probability, drawn.target, drawn.inputs, drawn.shift)
        judged = self._results.make(
            assignment, version, case, outcome, selection=selection, spending=spending, stands=drawn.standing
        )
        self._counting.finished(judged, spending.seconds)
        self._drawing.judged(drawn, case, judged)
        if isinstance(outcome, Unscored) and outcome.reason is UnscoredReason.PAUSED:
            self._missed(case, judged)
            if (pause := self._pauses.get(assignment.judge)) is not None:
                pause.missed()
        if (note := noting.current()) is not None:
            note.finished(judged)
        return judged
