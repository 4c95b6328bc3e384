"""Everything that produces results: live scoring, backfill, and the feedback of users and other tools."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from monitor import registry
from monitor.alerts.policy import own_rules
from monitor.app.parts import Parts
from monitor.config import Config
from monitor.jobs.backfill.evaluation import BackfillContext
from monitor.jobs.backfill.run import Backfill
from monitor.jobs.topics import TOPIC, TopicKeeper
from monitor.judge.settings import JudgeSettings
from monitor.model.case import Case
from monitor.model.outcome import EvaluationResult
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.fair_queue import FairQueue
from monitor.pipeline.feedback.boost import Agreement
from monitor.pipeline.feedback.names import ExternalEvaluators
from monitor.pipeline.feedback.processor import FeedbackProcessor
from monitor.pipeline.learned import LearnedOrder, order_for
from monitor.pipeline.live_evaluation import LiveEvaluation, Rechecks
from monitor.pipeline.local_evaluation import LocalReader, ThisProcess, Workers
from monitor.pipeline.metrics.results import ResultMetrics
from monitor.pipeline.metrics.slices import SliceMetrics
from monitor.pipeline.publish import Publisher
from monitor.pipeline.sampling import CaseSampler
from monitor.pipeline.scoring import Scorer
from monitor.pipeline.severe import SevereCases
from monitor.pipeline.workers.pool import WorkerPool
from monitor.statistics.session_products import SessionMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringParts:
    """The parts that produce results, and the rates by slice for the web UI."""

    evaluation: LiveEvaluation
    queue: FairQueue
    publisher: Publisher
    processor: FeedbackProcessor
    external: ExternalEvaluators
    backfill: Backfill
    slicing: SliceMetrics
    severe: SevereCases | None
    learned: LearnedOrder | None


def build_scoring(config: Config, parts: Parts, topics: TopicKeeper) -> ScoringParts:
    """Build the parts that produce results; `topics` are needed for the slice of that name."""
    running, runtime = parts.running, parts.running.runtime
    agreement = Agreement(runtime.metrics, parts.memory.cache("cases") // 2)
    slicing = SliceMetrics(config.slices, runtime.metrics, runtime.clock)
    counting = ResultMetrics(runtime.metrics, slicing, running.generations, SessionMemory(runtime.clock), runtime.clock)
    no_texts = config.storage.texts == "none"  # then no case is kept for later either
    settings = config.backfill.model_copy(update={"retention": 0.0}) if no_texts else config.backfill
    backfill = Backfill(settings, config.storage.path, runtime, parts.versions, texts=config.storage.texts != "none")
    learned = order_for(running.evaluators)
    scorer = Scorer(
        running.evaluators,
        parts.judges,
        runtime=runtime,
        slices=config.slices,
        late_after=config.traffic.late_after,
        topic=_topic(config, topics),
        learned=learned,
    )
    case_sampler, queue = _case_sampler(config, parts, scorer, learned), _queue(config, parts, scorer)
    publisher = Publisher(parts.sinks, parts.spool, runtime, listeners=(*parts.listeners, agreement.on_result))
    share = {name: settings.recheck_share for name, settings in config.all_judges.items()}
    rechecks = Rechecks(scorer, share, salt=config.sampling.salt, metrics=runtime.metrics)

    def missed(one: ConfiguredEvaluator, case: Case, result: EvaluationResult) -> None:
        backfill.miss(case, result)
        parts.judges[one.judge].pause.missed()

    severe = _severe(config, parts)
    evaluation = LiveEvaluation(
        scorer,
        case_sampler,
        queue,
        publisher,
        counting,
        rechecks=rechecks,
        severe=severe,
        runtime=runtime,
        missed=missed,
    )
    external = _external_evaluators(config, counting)
    processor = _processor(
        config,
        parts,
        external,
        evaluation=evaluation,
        publisher=publisher,
        counting=counting,
        agreement=agreement,
        severe=severe,
        topics=topics,
    )
    return ScoringParts(
        evaluation=evaluation,
        queue=queue,
        publisher=publisher,
        processor=processor,
        external=external,
        backfill=backfill,
        slicing=slicing,
        severe=severe,
        learned=learned,
    )


def build_workers(config: Config, parts: Parts) -> Workers:
    """Build the workers that read requests and evaluate them locally."""
    runtime, number, redactor = parts.running.runtime, config.scoring.number, parts.private.redactor
    reader = LocalReader(
        registry.conventions(),
        config.extraction,
        parts.running.evaluators,
        salt=config.sampling.salt,
        redactor=redactor.uncounted() if redactor is not None else None,
        clock=runtime.clock if not number else None,
    )
    if not number:
        return ThisProcess(reader)
    settings = config.scoring
    return WorkerPool(
        reader, number, time_limit=settings.time_limit, runtime=runtime, log=(config.log.level, config.log.style)
    )


def backfill_context(config: Config, parts: Parts, made: ScoringParts, topics: TopicKeeper) -> BackfillContext:
    """Return the parts of the running monitor that backfill uses."""
    return BackfillContext(
        evaluators=parts.running.evaluators,
        judges=config.all_judges,
        versions=parts.versions,
        deliver=made.publisher.one,
        known=parts.running.history.scored_ids,
        turn=made.queue.spare_turn,
        pauses={name: judge.pause for name, judge in parts.judges.items()},
        forgets=lambda case: parts.private.forgets(case, case.answered_at),
        slices=config.slices,
        topic=_topic(config, topics),
    )


def _topic(config: Config, topics: TopicKeeper) -> Callable[[Case], str] | None:
    """Return the function that names the topic of a question; None if no slice needs it."""
    return topics.name_of if TOPIC in config.slices else None


def _case_sampler(config: Config, parts: Parts, scorer: Scorer, learned: LearnedOrder | None) -> CaseSampler:
    return CaseSampler(
        scorer.evaluators,
        versions=scorer.versions,
        draws=parts.spool.draws,
        runtime=parts.running.runtime,
        salt=config.sampling.salt,
        quotas=config.traffic.quotas,
        raises=config.feedback.thumbs_down.probability > 0,
        learned=learned,
    )


def _queue(config: Config, parts: Parts, scorer: Scorer) -> FairQueue:
    return FairQueue(
        {name: _turns(settings) for name, settings in config.all_judges.items()},
        limit=parts.memory.in_hand // 2,  # characters; beyond it cases are overloaded, before deliveries are refused
        shares=config.traffic.weights,
        clock=parts.running.runtime.clock,
        patience=scorer.late_after,
    )


def _external_evaluators(config: Config, counting: ResultMetrics) -> ExternalEvaluators:
    own = {one.evaluator.name for one in config.configured_evaluators}
    expected = {*config.feedback.evaluators, *(policy.evaluator for policy in config.alerts)}
    return ExternalEvaluators(config.feedback, counting, own, expected, own_rules(config.alerts))


def _processor(
    config: Config,
    parts: Parts,
    names: ExternalEvaluators,
    *,
    evaluation: LiveEvaluation,
    publisher: Publisher,
    counting: ResultMetrics,
    agreement: Agreement,
    severe: SevereCases | None,
    topics: TopicKeeper,
) -> FeedbackProcessor:
    return FeedbackProcessor(
        config.feedback,
        names=names,
        evaluation=evaluation,
        counting=counting,
        publisher=publisher,
        past=parts.running.history.by_trace,
        agreement=agreement,
        runtime=parts.running.runtime,
        late_after=config.traffic.late_after,
        slices=config.slices,
        topic=_topic(config, topics),
        severe=severe,
        known_at_most=parts.memory.cache("cases") // 2,
    )


def _severe(config: Config, parts: Parts) -> SevereCases | None:
    """Make the part that judges severe answers again; None if no alert needs it."""
    if parts.running.severe is None:
        return None
    return SevereCases(
        config.alerts,
        config.severe_rules,
        configured=parts.running.evaluators,
        judges=parts.judges,
        log=parts.running.severe,
        file=parts.severe_file,
        runtime=parts.running.runtime,
    )


def _turns(judge: JudgeSettings) -> int:
    """Return how many cases a judge may have at once: enough to keep it busy, but few enough that none waits long.

    Two for each concurrent call, because some cases wait for a retry and make no call. With `requests_per_minute`, no
    more than fit into the time that one call may take.
    """
    busy, pace = 2 * judge.max_concurrency, judge.budget.requests_per_minute
    return busy if pace is None else max(1, min(busy, math.ceil(pace / 60 * judge.timeout)))
