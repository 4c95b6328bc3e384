"""Processes external scores: they are read, counted and delivered like our own, and compared with them.

A user's thumbs-down makes it more likely that the answer is judged. Before the draw, it raises the probability, which
the weight accounts for. After the draw, an answer that is still kept is judged anyway and counted separately.
"""

from __future__ import annotations

from collections import Counter as Tallies
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import anyio

from monitor.extraction.feedback import FeedbackSettings
from monitor.model.ack import Ack
from monitor.model.case import Case, Reading, ReadingStatus, Traffic
from monitor.model.external import FAULTS, ExternalScore, ScoreSource
from monitor.model.outcome import EvaluationResult, Score, result_id
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator, defects_by
from monitor.pipeline.feedback.boost import CASES_BYTES, Agreement, CaseLookup, Past, Unchosen
from monitor.pipeline.feedback.names import ExternalEvaluator, ExternalEvaluators
from monitor.pipeline.live_evaluation import LiveEvaluation
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.pipeline.publish import Publisher
from monitor.pipeline.severe import SevereCases
from monitor.pipeline.traffic import rate_scope
from monitor.stages import Runtime, SamplingDecision
from monitor.statistics.limits import TokenBucket
from monitor.telemetry.events import Event

_OUTCOMES: Final = ("scored", "unscored", "duplicate", "too_many_names", "failed", *FAULTS)
_AT_MOST: Final = 20_000
"""Maximum external scores that may wait; beyond that, senders are asked to retry."""
_AT_ONCE: Final = 32


class FeedbackProcessor:
    """Turns external scores into results.

    `past` looks up requests that are not remembered. A score counts as late `late_after` seconds after it was given.
    `slices` are the attributes by which rates are sliced. `known_at_most` bounds the memory, in bytes, for requests
    whose scores may still arrive.
    """

    def __init__(
        self,
        settings: FeedbackSettings,
        *,
        names: ExternalEvaluators,
        evaluation: LiveEvaluation,
        counting: ResultMetrics,
        publisher: Publisher,
        past: Past,
        agreement: Agreement,
        runtime: Runtime,
        late_after: float,
        slices: Sequence[str] = (),
        topic: Callable[[Case], str] | None = None,
        severe: SevereCases | None = None,
        known_at_most: int = CASES_BYTES // 2,
    ) -> None:
        self._settings = settings.thumbs_down
        self._names = names
        self._evaluation = evaluation
        self._counting = counting
        self._publisher = publisher
        self._agreement = agreement
        self._runtime = runtime
        self._late_after = late_after
        self._known = CaseLookup(past, slices, known_at_most, topic)
        self._unchosen = Unchosen(runtime.clock, wait=settings.thumbs_down.wait, at_most=settings.thumbs_down.max_size)
        self._raises = settings.thumbs_down.probability > 0
        per_hour = settings.thumbs_down.max_per_hour
        self._allowed = TokenBucket(per_hour, runtime.clock.monotonic(), least=1.0, filled=1.0)
        self._severe = severe
        self._waiting: deque[tuple[ExternalScore, ExternalEvaluator | None, Ack | None]] = deque()
        self._disliked: deque[tuple[Case, tuple[ConfiguredEvaluator, ...]]] = deque()
        self._wake = anyio.Event()
        self._working: Tallies[str] = Tallies()
        metrics = runtime.metrics
        metrics.feedback_buffer.set_function(lambda: self._unchosen.size)
        for source in ScoreSource:
            for outcome in _OUTCOMES if source is not ScoreSource.OWN else ():
                metrics.external_scores.labels(source.value, outcome)

    @property
    def backlog(self) -> str:
        """Why no more scores can be taken now; empty if they can."""
        return "too many external scores are waiting" if len(self._waiting) > _AT_MOST else ""

    def take(self, scores: Sequence[ExternalScore], ack: Ack | None) -> None:
        """Take scores; their requests need not be known. Each score holds a share of `ack` until it is delivered."""
        for one in scores:
            call = self._severe is not None and self._severe.is_call(one)
            who = None if call else self._who(one)
            if call or who is not None:
                self._waiting.append((one, who, ack.share() if ack is not None else None))
        self._wake.set()

    async def run(self) -> None:
        """Process the scores taken, until cancelled."""
        room = anyio.Semaphore(_AT_ONCE)
        async with anyio.create_task_group() as group:
            while True:
                while self._waiting or self._disliked:
                    while self._disliked:
                        group.start_soon(self._evaluation.score_disliked, *self._disliked.popleft())
                    if self._waiting:
                        await room.acquire()
                        group.start_soon(self._work_off, *self._waiting.popleft(), room)
                self._wake = anyio.Event()
                await self._wake.wait()

    async def before_sampling(self, reading: Reading) -> None:
        """Process the external scores in the trace of a request; return when they are delivered.

        A case that cannot be judged is remembered here; all other cases are remembered by `after_sampling`.
        """
        if reading.external_scores:
            await self._process_in_trace(reading.external_scores, reading.case)
        if reading.status not in (ReadingStatus.READY, ReadingStatus.NO_REQUEST):
            self._known.remember(reading.case)

    def boost(self, case: Case) -> float:
        """Return the minimum probability with which to judge `case`: 0 for most, more if a user disliked the answer."""
        disliked = self._agreement.disliked(case.request_id) if self._raises else None
        if not disliked or not self._evaluation.not_chosen(case, ()):
            return 0.0
        if not self._allowed.try_take(self._runtime.clock.monotonic()):
            return 0.0
        self._runtime.metrics.feedback_boosted.labels(self._runtime.metrics.app(case.app)).inc()
        return self._settings.probability

    def after_sampling(self, case: Case, chosen: Sequence[tuple[ConfiguredEvaluator, SamplingDecision]]) -> None:
        """Remember `case` and the evaluators that did not choose it, in case of a thumbs-down."""
        self._known.remember(case)
        if self._raises and self._settings.max_size and self._agreement.disliked(case.request_id) is None:
            others = self._evaluation.not_chosen(case, chosen)
            if others:
                self._unchosen.keep(case, others)

    # -- within

    async def _process_in_trace(self, scores: Sequence[ExternalScore], case: Case) -> None:
        """Enter external scores from the trace of `case`.

        A score that links to another request has the weight of the trace that brought it.
        """
        for said in scores:
            who = self._who(said)
            if who is None:
                continue
            one = replace(said, probability=case.probability)
            with self._careful(one):
                if one.linked:
                    await self._enter_later(one, who)
                else:
                    await self._enter(replace(one, request_id=case.request_id), who, case)

    def _who(self, score: ExternalScore) -> ExternalEvaluator | None:
        """Return the external evaluator of a score; if the score cannot be used, count it and return None."""
        who = self._names.of(score.evaluator, score.score_source) if not score.fault else None
        if who is None:
            self._count(score, score.fault or "too_many_names")
        return who

    @contextmanager
    def _careful(self, score: ExternalScore) -> Iterator[None]:
        """Keep a failing score from stopping other scores and the traces."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - any error is counted and logged
            self._count(score, "failed")
            self._runtime.events.error(
                Event.EXTRACTION_FAILED,
                "an external score could not be processed",
                trace_id=score.request_id,
                error=type(error).__name__,
            )

    async def _work_off(
        self, score: ExternalScore, who: ExternalEvaluator | None, ack: Ack | None, room: anyio.Semaphore
    ) -> None:
        try:
            with self._careful(score):
                if who is not None:
                    await self._enter_later(score, who)
                elif self._severe is not None and await self._severe.called(score):
                    self._count(score, "scored")
        finally:
            room.release()
        if ack is not None:
            ack.settle()

    async def _enter_later(self, score: ExternalScore, who: ExternalEvaluator) -> None:
        """Enter a score of an earlier request. A disliked answer is evaluated if it is still kept."""
        case, earlier = await self._known.of(score)
        if not await self._enter(score, who, case, earlier) or not self._raises:
            return
        found = self._unchosen.take(case.request_id)
        if found is not None and self._allowed.try_take(self._runtime.clock.monotonic()):
            self._disliked.append(found)
            self._wake.set()

    async def _enter(
        self, score: ExternalScore, who: ExternalEvaluator, case: Case, earlier: dict[str, bool] | None = None
    ) -> bool:
        """Count and deliver one score of `who` for `case`, once. Return whether it is a user's thumbs-down."""
        judged = self._judged(score, who, case)
        scored = isinstance(judged.outcome, Score)
        votes = scored and score.by_user and case.traffic is Traffic.PRODUCTION
        key = result_id(case.request_id, who.name, judged.version, judged.key)
        repeated = self._publisher.has(key) or self._working[key] > 0
        if not repeated:
            self._working[key] += 1
            try:
                self._count(score, "scored" if scored else "unscored")
                self._counting.selected(judged.case.app, who.name)
                await self._publisher.one(self._counting.finished(judged, None))
            finally:
                del self._working[key]
        else:
            self._count(score, "duplicate")
        if votes:
            self._agreement.voted(case.request_id, judged.case.app, down=judged.defect, earlier=earlier or {})
        return votes and judged.defect and not repeated

    def _count(self, score: ExternalScore, outcome: str) -> None:
        self._runtime.metrics.external_scores.labels(score.score_source.value, outcome).inc()

    def _judged(self, score: ExternalScore, who: ExternalEvaluator, case: Case) -> EvaluationResult:
        now = self._runtime.clock.now()
        outcome, defect = who.ruling.read(score)
        given = min(score.at, now) if score.at > 0 else now
        on = replace(
            case,
            span_id=case.span_id or score.span_id,
            user_id=case.user_id or score.user,
            attributes=self._known.facts_of(case),
            answered_at=given,
        )
        return EvaluationResult(
            case=on,
            evaluator=who.name,
            version=who.source.value,
            outcome=outcome,
            weight=1 / score.probability,
            level=who.scale.level(outcome.value) if isinstance(outcome, Score) else "",
            defect=defect,
            alert_defects=defects_by(who.alert_rules, outcome) if isinstance(outcome, Score) else {},
            evaluated_at=now,
            scope=rate_scope(on, now, self._late_after),
            score_source=who.source,
            key=score.identity,
        )
