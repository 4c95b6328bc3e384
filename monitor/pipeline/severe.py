"""Judges severe answers a second time, counts the outcomes, and remembers which cases people called right or wrong."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread

from monitor.alerts.policy import AlertPolicy
from monitor.alerts.severe import SevereLog
from monitor.errors import MonitorError
from monitor.judge.reworded import RewordedJudge
from monitor.model.case import Case
from monitor.model.external import ExternalScore, ScoreSource
from monitor.model.outcome import DefectRule, EvaluationResult, RateScope, Score
from monitor.model.severe import SecondJudgement, SevereCall, SevereCase, SevereOutcome
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.scoring import EVERY, Scorer
from monitor.stages import Judge, Runtime
from monitor.storage.severe_cases import MOST, SevereCaseFile
from monitor.telemetry.events import Event

_CALLS = frozenset(SevereCall)
_DATABASE: Final = "severe_cases"
_WRITE_AGAIN: Final = 1.0
"""Seconds between two attempts to write pending records."""


class SevereCases:
    """Judges each severe live answer again before anyone is paged.

    Args:
        policies: alert policies; those with `severe` name the second judge.
        rules: the rule that decides what is severe, by evaluator.
        configured: the active evaluators.
        judges: the open judges, by name.
        log: the confirmed cases; the alerts read it.
        file: the same on disk; None keeps them in memory only.
        runtime: provides clock, metrics and events.
    """

    def __init__(
        self,
        policies: Sequence[AlertPolicy],
        rules: Mapping[str, DefectRule],
        *,
        configured: Sequence[ConfiguredEvaluator],
        judges: Mapping[str, Judge],
        log: SevereLog,
        file: SevereCaseFile | None,
        runtime: Runtime,
    ) -> None:
        second = {one.evaluator: one.severe.judge for one in policies if one.severe is not None}
        watched = {one.evaluator.name: one for one in configured if one.evaluator.name in rules}
        self._rules = {name: rules[name] for name in watched}
        self._again = {name: _Again(one, second[name], judges, runtime) for name, one in watched.items()}
        self._log = log
        self._file = file
        self._runtime = runtime
        self._unwritten: deque[Callable[[SevereCaseFile], None]] = deque()
        self._writes = anyio.Lock()
        self._failing = False
        self._failing_gauge = runtime.metrics.database_failing.labels(_DATABASE)
        self._lost = runtime.metrics.database_unwritten.labels(_DATABASE)

    def prepare(self, app: str) -> None:
        """Create the series of an app at 0, so that the first confirmed case is an increase."""
        metrics, label = self._runtime.metrics, self._runtime.metrics.app(app)
        for name in self._rules:
            metrics.severe_confirmed.labels(label, name)
            for outcome in SevereOutcome:
                metrics.severe_verdicts.labels(label, name, outcome.value)
            for call in SevereCall:
                metrics.severe_called.labels(label, name, call.value)

    async def check(self, case: Case, first: EvaluationResult) -> EvaluationResult:
        """Judge the answer again if `first` is severe and counts in rates; return it with the second judgement."""
        rule = self._rules.get(first.evaluator)
        if rule is None or first.scope is not RateScope.LIVE:
            return first
        if not isinstance(first.outcome, Score) or not rule.matches(first.outcome):
            return first
        second = await self._again[first.evaluator].judge(case)
        outcome, score = SevereOutcome.UNSCORED, None
        if isinstance(second.outcome, Score):
            outcome = SevereOutcome.CONFIRMED if rule.matches(second.outcome) else SevereOutcome.REFUTED
            score = second.outcome.value
        app = self._runtime.metrics.app(case.app)
        self._runtime.metrics.severe_verdicts.labels(app, first.evaluator, outcome.value).inc()
        self._runtime.events.info(
            Event.SEVERE_CASE,
            f"an answer was judged severe; the second judgement: {outcome}",
            app=app,
            evaluator=first.evaluator,
            trace_id=case.request_id,
        )
        said = SecondJudgement(outcome, score, second.cost.model)
        return replace(first, second=said, cost=first.cost.with_another(second.cost))

    async def settle(self, case: Case, result: EvaluationResult) -> None:
        """Record the case if its second judgement agrees. Call this once the result is stored: a page links to it."""
        if result.second is None or result.second.outcome is not SevereOutcome.CONFIRMED:
            return
        app = self._runtime.metrics.app(case.app)
        found = SevereCase(app, result.evaluator, self._runtime.clock.now(), case.request_id)
        session = case.session_id or case.user_id or case.request_id
        if not self._log.confirm(found, session):
            return
        self._runtime.metrics.severe_confirmed.labels(found.app, found.evaluator).inc()
        if self._file is not None:
            await self._kept(lambda file: file.add(found))

    async def called(self, score: ExternalScore) -> bool:
        """Record a person's call, if `score` is one; return whether it is.

        A call is feedback under the name of an evaluator with `severe`, with the label `right` or `wrong`.
        """
        if not self.is_call(score):
            return False
        call = SevereCall(score.label)
        before = self._log.call(score.request_id, score.evaluator, call)
        if before is None:
            self._runtime.events.warning(
                Event.SEVERE_CASE, "a call on an answer that is not a confirmed severe case", trace_id=score.request_id
            )
            return True
        if before.call is None:
            self._runtime.metrics.severe_called.labels(before.app, before.evaluator, call.value).inc()
        if self._file is not None:
            await self._kept(lambda file: file.call(score.request_id, score.evaluator, call))
        return True

    def is_call(self, score: ExternalScore) -> bool:
        """Return whether `score` is a person's call on a severe case."""
        posted = score.score_source is ScoreSource.FEEDBACK and score.value is None
        return posted and score.evaluator in self._rules and score.label in _CALLS

    async def run(self) -> None:
        """Retry pending writes until cancelled, and a last time then."""
        try:
            while True:
                await anyio.sleep(_WRITE_AGAIN)
                await self._write()
        finally:
            with anyio.CancelScope(shield=True):
                await self._write()
            self._lost.inc(len(self._unwritten))

    async def _kept(self, write: Callable[[SevereCaseFile], None]) -> None:
        """Write to the file. A write that fails is retried later, in order; meanwhile the case is known in memory."""
        if len(self._unwritten) >= MOST:
            self._unwritten.popleft()
            self._lost.inc()
        self._unwritten.append(write)
        if not self._failing:
            await self._write()

    async def _write(self) -> None:
        if self._file is None:
            return
        async with self._writes:
            while self._unwritten:
                try:
                    await anyio.to_thread.run_sync(self._unwritten[0], self._file)
                except MonitorError as error:
                    if not self._failing:
                        message = "severe cases cannot be written; they are written later"
                        self._runtime.events.error(Event.SINK_FAILED, message, error=str(error))
                    self._failing = True
                    self._failing_gauge.set(1)
                    return
                self._unwritten.popleft()
            self._failing = False
            self._failing_gauge.set(0)


class _Again:
    """The second judgement by one evaluator: from another judge, or from the same judge with a reworded prompt."""

    def __init__(
        self, one: ConfiguredEvaluator, name: str | None, judges: Mapping[str, Judge], runtime: Runtime
    ) -> None:
        chosen = one.judge if name is None else name
        judge: Judge = RewordedJudge(judges[chosen]) if chosen == one.judge else judges[chosen]
        self._one = replace(one, judge=chosen, group="")
        self._scorer = Scorer([self._one], {chosen: judge}, runtime=runtime)

    async def judge(self, case: Case) -> EvaluationResult:
        """Judge `case` once more."""
        (result,) = await self._scorer.score(case, [(self._one, EVERY)])
        return result
