"""From a case to its results: the evaluators at work, what is judged afterwards, and verdicts of others."""

from __future__ import annotations

import math
from dataclasses import dataclass

from monitor.app.parts import Parts
from monitor.backfill.around import Around
from monitor.backfill.run import Backfill
from monitor.config import Config
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import Judged
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.counting import Counting
from monitor.pipeline.drawing import Drawing
from monitor.pipeline.evaluate import LiveEvaluation, Rechecks
from monitor.pipeline.fair import FairQueue
from monitor.pipeline.foreign.desk import Desk
from monitor.pipeline.foreign.disliked import Agreement
from monitor.pipeline.foreign.names import Foreigners
from monitor.pipeline.publish import Publisher
from monitor.pipeline.scoring import Scorer
from monitor.pipeline.slicing import Slicing
from monitor.stages import Runtime

_WAITING_FOR_THE_JUDGE = 64 * 1024 * 1024  # characters of cases, before judgements are given up as overloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Who makes results, and where what is counted by slices is looked up."""

    evaluation: LiveEvaluation
    queue: FairQueue
    publisher: Publisher
    desk: Desk
    backfill: Backfill
    slicing: Slicing


def judging(config: Config, parts: Parts) -> Judging:
    """All that makes results."""
    running, runtime = parts.running, parts.running.runtime
    agreement = Agreement(runtime.metrics)
    parts.sinks["feedback"] = agreement.heard
    slicing = Slicing(config.slices, runtime.metrics, runtime.clock)
    counting = Counting(runtime.metrics, slicing, running.generations)
    no_texts = config.storage.texts == "none"  # then no case is kept for later, either
    settings = config.backfill.model_copy(update={"retention": 0.0}) if no_texts else config.backfill
    backfill = Backfill(settings, config.storage, runtime, parts.versions)
    scorer = Scorer(
        running.assignments,
        parts.judges,
        runtime=runtime,
        slices=config.slices,
        late_after=config.traffic.late_after,
    )
    drawing, queue = _drawing(config, parts, scorer), _queue(config, scorer, runtime)
    publisher = Publisher(parts.sinks, parts.spool, runtime, listeners=parts.listeners)
    share = {name: settings.recheck_share for name, settings in config.all_judges.items()}
    rechecks = Rechecks(scorer, share, salt=config.sampling.salt, metrics=runtime.metrics)

    def missed(one: Assignment, case: Case, judged: Judged) -> None:
        backfill.miss(case, judged)
        parts.judges[one.judge].pause.missed()

    evaluation = LiveEvaluation(
        scorer, drawing, queue, publisher, counting, rechecks=rechecks, runtime=runtime, missed=missed
    )
    desk = _desk(config, parts, evaluation=evaluation, publisher=publisher, counting=counting, agreement=agreement)
    return Judging(
        evaluation=evaluation, queue=queue, publisher=publisher, desk=desk, backfill=backfill, slicing=slicing
    )


def around(config: Config, parts: Parts, made: Judging) -> Around:
    """What judging afterwards uses of what runs."""
    return Around(
        assignments=parts.running.assignments,
        judges=config.all_judges,
        versions=parts.versions,
        deliver=made.publisher.one,
        known=parts.running.history.verdicts,
        turn=made.queue.spare_turn,
        pauses={name: judge.pause for name, judge in parts.judges.items()},
        forgets=lambda case: parts.private.forgets(case, case.answered_at),
        slices=config.slices,
    )


def _drawing(config: Config, parts: Parts, scorer: Scorer) -> Drawing:
    return Drawing(
        scorer.evaluators,
        versions=scorer.versions,
        draws=parts.spool.draws,
        runtime=parts.running.runtime,
        salt=config.sampling.salt,
        quotas=config.traffic.quotas,
        raises=config.feedback.thumbs_down.probability > 0,
    )


def _queue(config: Config, scorer: Scorer, runtime: Runtime) -> FairQueue:
    return FairQueue(
        {name: _turns(settings) for name, settings in config.all_judges.items()},
        limit=_WAITING_FOR_THE_JUDGE,
        shares=config.traffic.weights,
        clock=runtime.clock,
        patience=scorer.late_after,
    )


def _desk(
    config: Config,
    parts: Parts,
    *,
    evaluation: LiveEvaluation,
    publisher: Publisher,
    counting: Counting,
    agreement: Agreement,
) -> Desk:
    """Where verdicts of others come in."""
    own = {one.evaluator.name for one in config.assignments}
    expected = {*config.feedback.evaluators, *(policy.evaluator for policy in config.alerts)}
    return Desk(
        config.feedback,
        names=Foreigners(config.feedback, counting, own, expected),
        evaluation=evaluation,
        counting=counting,
        delivery=publisher,
        delivered=parts.spool,
        past=parts.running.history,
        agreement=agreement,
        runtime=parts.running.runtime,
        late_after=config.traffic.late_after,
        slices=config.slices,
    )


def _turns(judge: JudgeSettings) -> int:
    """How many cases may be at a judge at once: enough to keep it busy, few enough that nobody waits long behind them.

    Two for each call it takes at once, since some wait to try again and make no call. Under a pace no more than fit
    into the time that one call may take.
    """
    busy, pace = 2 * judge.max_concurrency, judge.budget.requests_per_minute
    return busy if pace is None else max(1, min(busy, math.ceil(pace / 60 * judge.timeout)))
