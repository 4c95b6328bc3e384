"""From a case to its results: the evaluators at work, what is judged afterwards, and verdicts of others."""

from __future__ import annotations

import math
from dataclasses import dataclass

from monitor.app.parts import Parts
from monitor.backfill.around import Around
from monitor.backfill.run import Backfill
from monitor.config import Config
from monitor.judge.settings import JudgeSettings
from monitor.pipeline.counting import Counting
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.foreign.desk import Desk
from monitor.pipeline.foreign.disliked import Agreement
from monitor.pipeline.foreign.names import Foreigners
from monitor.pipeline.publish import Publisher
from monitor.pipeline.results import Results
from monitor.pipeline.slicing import Slicing

_WAITING_FOR_THE_JUDGE = 64 * 1024 * 1024  # characters of cases, before judgements are given up as overloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Who makes results, and where what is counted by slices is looked up."""

    evaluation: Evaluation
    desk: Desk
    backfill: Backfill
    slicing: Slicing


def judging(config: Config, parts: Parts) -> Judging:
    """All that makes results."""
    running, runtime = parts.running, parts.running.runtime
    agreement = Agreement(runtime.metrics)
    parts.sinks["feedback"] = agreement.heard
    slicing = Slicing(config.slices, runtime.metrics, runtime.clock)
    counting = Counting(runtime.metrics, slicing)
    no_texts = config.storage.texts == "none"  # then no case is kept for later, either
    missed = config.backfill.model_copy(update={"retention": 0.0}) if no_texts else config.backfill
    backfill = Backfill(missed, config.storage, runtime, parts.versions)
    evaluation = Evaluation(
        running.assignments,
        judges=parts.judges,
        pauses={name: judge.pause for name, judge in parts.judges.items()},
        sinks=parts.sinks,
        counting=counting,
        delivered=parts.spool,
        draws=parts.spool.draws,
        runtime=runtime,
        salt=config.sampling.salt,
        waiting_limit=_WAITING_FOR_THE_JUDGE,
        repeat={name: settings.recheck_share for name, settings in config.all_judges.items()},
        missed=backfill.miss,
        turns={name: _turns(settings) for name, settings in config.all_judges.items()},
        shares=config.traffic.weights,
        quotas=config.traffic.quotas,
        results=Results(
            runtime,
            slices=config.slices,
            late_after=config.traffic.late_after,
            generations=running.generations,
        ),
        raises=config.feedback.thumbs_down.probability > 0,
    )
    desk = _desk(config, parts, evaluation, counting, agreement)
    return Judging(evaluation=evaluation, desk=desk, backfill=backfill, slicing=slicing)


def around(config: Config, parts: Parts, evaluation: Evaluation) -> Around:
    """What judging afterwards uses of what runs."""
    return Around(
        assignments=parts.running.assignments,
        judges=config.all_judges,
        versions=parts.versions,
        deliver=evaluation.deliver_one,
        known=parts.running.history.verdicts,
        turn=evaluation.spare_turn,
        pauses={name: judge.pause for name, judge in parts.judges.items()},
        forgets=lambda case: parts.private.forgets(case, case.answered_at),
        slices=config.slices,
        salt=config.sampling.salt,
    )


def _desk(config: Config, parts: Parts, evaluation: Evaluation, counting: Counting, agreement: Agreement) -> Desk:
    """Where verdicts of others come in."""
    own = {one.evaluator.name for one in config.assignments}
    expected = {*config.feedback.evaluators, *(policy.evaluator for policy in config.alerts)}
    return Desk(
        config.feedback,
        names=Foreigners(config.feedback, counting, own, expected),
        evaluation=evaluation,
        counting=counting,
        delivery=Publisher(parts.sinks, parts.spool, parts.running.runtime),
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
