"""One life of the monitor, with one configuration: it restores stored state, runs the pipeline, then drains.

Each reload begins another life in the same process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import anyio

from monitor import __version__, registry
from monitor.alerts.diagnosed import DiagnosedAlerts, DiagnosisLine
from monitor.alerts.engine import AlertEngine, run_alerts
from monitor.alerts.incidents import IncidentTracker
from monitor.alerts.kept import kept_of, restored
from monitor.alerts.policy import own_rules
from monitor.alerts.state import AlertState, AlertTracker
from monitor.app import warm_start
from monitor.app.digest import DigestSender
from monitor.app.memory import MemoryWatch
from monitor.app.parts import Parts, Process, Running, open_parts
from monitor.app.reload import Ending
from monitor.app.scoring import ScoringParts, backfill_context, build_scoring, build_workers
from monitor.config import Config
from monitor.config import limits as memory_limits
from monitor.errors import MonitorError
from monitor.jobs import calibration
from monitor.jobs.canary import load as load_canary
from monitor.jobs.canary.run import Canary
from monitor.jobs.diagnosis import alert_request
from monitor.jobs.diagnosis.words import alert_line
from monitor.jobs.incidents import IncidentKeeper
from monitor.jobs.incidents.investigation import Investigation
from monitor.jobs.label_lessons import LabelLessons
from monitor.jobs.reports import HistoryReports
from monitor.jobs.review import ReviewQueue
from monitor.jobs.review.reviewers import Reviewers
from monitor.jobs.topics import TopicKeeper
from monitor.jobs.trial.queue import TrialQueue
from monitor.model.external import USER_FEEDBACK, ScoreSource
from monitor.operations.diagnosis import Diagnostics
from monitor.pipeline.assembly.traces import Assembly
from monitor.pipeline.learned import LearnedOrder
from monitor.pipeline.run import Pipeline
from monitor.pipeline.traffic import TrafficRules
from monitor.privacy import pseudonyms
from monitor.stages import Runtime
from monitor.storage import files
from monitor.storage.history.reader import HistoryReader
from monitor.telemetry.events import Event
from monitor.web.context import PageContext, ReviewParts
from monitor.web.mount import mount
from monitor.web.rates import qualities

_ALERTS: Final = "alerts"
_PUBLISHED_LAST: Final = 2_000
"""Published results that the spool may have missed in a crash: it records them only every half second."""


async def live(
    config: Config,
    process: Process,
    ending: Ending,
    *,
    started: Callable[[Running], None],
    up: Callable[[Runtime, anyio.Event], Coroutine[Any, Any, None]],
    alerts_every: float,
) -> None:
    """Run the monitor until `ending`, then drain.

    `started` is called before the receivers listen; `up` runs beside them and gets the event that is set once all
    listen. `alerts_every`: seconds between two checks of the alerts. Raises `ConfigError` (possibly within an exception
    group) if it can never work: a port in use, a folder that cannot be written, a model without a price under a budget.
    """
    config, clock = config.as_run(), process.clock
    plan = memory_limits.plan(config)
    config = memory_limits.within(config, plan)
    async with AsyncExitStack() as stack:
        parts = await open_parts(config, process, plan, stack)
        topics = _topic_keeper(config, parts)
        made = build_scoring(config, parts, topics)
        await _restore(config, parts, made)
        assembly = Assembly(config.assembly)
        pipeline = _pipeline(config, parts, made, assembly)
        replay = await _replayed_results(config, parts, made)
        reports = HistoryReports(config.storage.path / files.HISTORY, config.slices, topics, clock)
        trials, incidents = _trial_queue(config, parts), _incident_keeper(config, parts, reports)
        gauges, queue = _review_queue(config, parts)
        review = _review_parts(config, parts, queue)
        if config.ui.enabled:
            shown = _page_context(
                config, parts, made, pipeline, trials=trials, incidents=incidents, reports=reports, review=review
            )
            mount(shown, config.ui)
        running, runtime = parts.running, parts.running.runtime
        runtime.events.info(Event.STARTED, "starting", version=__version__)
        started(running)
        canary, tracker = _canary(config, parts), await _open_incidents(config, incidents)
        diagnosed = DiagnosedAlerts(partial(_diagnose, reports, tracker, config), runtime)
        watched = partial(run_alerts, _engine(config, parts, tracker), config.notify, runtime, diagnosed=diagnosed)
        async with anyio.create_task_group() as beside:
            beside.start_soon(partial(watched, every=alerts_every, show=running.show))
            beside.start_soon(MemoryWatch(plan.limit, runtime).run)
            beside.start_soon(calibration.watch, config.storage.path, parts.versions, runtime, gauges)
            beside.start_soon(queue.run)
            beside.start_soon(_learn, config, parts, made.learned, replay)
            beside.start_soon(canary.run)
            beside.start_soon(incidents.run)
            beside.start_soon(DigestSender(config, runtime).run)
            beside.start_soon(topics.run)
            beside.start_soon(parts.followers.run)
            beside.start_soon(made.backfill.run, backfill_context(config, parts, made, topics))
            if made.severe is not None:
                beside.start_soon(made.severe.run)
            if trials is not None:
                beside.start_soon(trials.run)
            beside.start_soon(up, runtime, parts.listening)
            await pipeline.run(ending.asked, parts.arrived)
            await parts.followers.drain(runtime.stop.left("sinks"))
            if not ending.reloads:
                runtime.events.info(Event.STOPPING, "drained")
            beside.cancel_scope.cancel()
    if not ending.reloads:
        runtime.events.info(Event.STOPPED, "stopped")


async def _restore(config: Config, parts: Parts, made: ScoringParts) -> None:
    """Restore from the history: windows, baselines, generations, the names of apps and external evaluators."""
    running, now = parts.running, parts.running.runtime.clock.now()
    history, label = running.history, running.runtime.metrics.app
    named = [policy.app for policy in config.alerts if policy.app is not None]
    apps = await warm_start.label_apps(label, history, running.windows, now, first=named)
    seen = await warm_start.fill(
        running.windows, history, now, parts.versions, apps, ruled=running.ruled, restore=made.external.restore
    )
    await warm_start.recount(parts.checks.on_history, history, now, parts.unknown, apps)
    with contextlib.suppress(MonitorError):
        known = await history.generations(apps)
        running.generations.restore(one._replace(app=apps[one.app]) for one in known)
    for app in sorted(seen):
        made.evaluation.prepare(app)
    for app, evaluator in running.windows.keys():  # noqa: SIM118 - not a mapping
        made.external.prepare(app, evaluator)


async def _replayed_results(
    config: Config, parts: Parts, made: ScoringParts
) -> Callable[[], Coroutine[Any, Any, None]] | None:
    """Replay past results to the samplers: from the history at once, else return the task that keeps replaying.

    Everything in the history was published, even if a crash came before the spool had recorded that.
    """
    history = parts.running.history
    with contextlib.suppress(MonitorError):
        made.publisher.remember(await history.newest_ids(_PUBLISHED_LAST))
    memory = next(
        (sink for sink in config.sinks if sink.memory == "fleet"), history
    )  # only one source, or results would count twice
    on_result = partial(made.evaluation.on_past_result, delivered=memory is not history)
    replay = partial(warm_start.replay_results, memory, on_result, parts.running.runtime)
    if memory is history:
        await replay()
        return None
    return replay


async def _learn(
    config: Config,
    parts: Parts,
    learned: LearnedOrder | None,
    replay: Callable[[], Coroutine[Any, Any, None]] | None,
) -> None:
    """Learn from other replicas, if they share results, and from people's labels, if an evaluator learns; forever."""
    async with anyio.create_task_group() as tasks:
        if replay is not None:
            tasks.start_soon(replay)
        if learned is not None and learned.teacher:
            version = parts.versions[learned.teacher]
            tasks.start_soon(LabelLessons(learned, config.storage.path, version).run)


def _pipeline(config: Config, parts: Parts, made: ScoringParts, assembly: Assembly) -> Pipeline:
    runtime = parts.running.runtime
    return Pipeline(
        sources=config.sources,
        conventions=registry.conventions(),
        workers=build_workers(config, parts),
        assembly=assembly,
        evaluation=made.evaluation,
        spool=parts.spool,
        runtime=runtime,
        rate=config.sampling.traces,
        in_hand_limit=parts.memory.in_hand,
        arrivals_at_most=parts.memory.cache("arrivals"),
        traffic=TrafficRules(config.traffic, config.sampling.salt, runtime),
        alerts=parts.checks,
        recorder=parts.recorder,
        private=parts.private,
        processor=made.processor,
        guard=parts.guard,
        when_sent=parts.followers.when_sent,
    )


def _canary(config: Config, parts: Parts) -> Canary:
    return Canary(
        config.canary,
        parts.running.evaluators,
        judges=parts.judges,
        cases=load_canary(config.canary.cases) if config.canary.interval is not None else {},
        runtime=parts.running.runtime,
        path=config.storage.path / "canary.json",
        on_run=parts.checks.on_canary_run,
    )


def _topic_keeper(config: Config, parts: Parts) -> TopicKeeper:
    storage, runtime = config.storage, parts.running.runtime
    hashed = None if storage.texts == "all" else pseudonyms.at_hand(storage.path).word
    return TopicKeeper(storage.path / files.HISTORY, runtime.kept, runtime.clock, hashed=hashed)


def _incident_keeper(config: Config, parts: Parts, reports: HistoryReports) -> IncidentKeeper:
    storage = config.storage
    scales = {one.evaluator.name: one.evaluator.scale for one in config.configured_evaluators}
    history = HistoryReader(storage.path / files.HISTORY)
    return IncidentKeeper(
        storage.path,
        Investigation(history, scales, own_rules(config.alerts)),
        parts.running.runtime,
        diagnose=reports.diagnose,
        retention=storage.incidents_retention,
        texts_retention=storage.texts_retention,
    )


async def _open_incidents(config: Config, keeper: IncidentKeeper) -> IncidentTracker:
    """Continue the incidents that were open when an earlier process stopped."""
    page = config.ui.url if config.ui.enabled else ""
    tracker = IncidentTracker(config.alerts, page=page, changed=keeper.changed)
    tracker.restore(await keeper.load_open())
    return tracker


def _engine(config: Config, parts: Parts, incidents: IncidentTracker) -> AlertEngine:
    runtime = parts.running.runtime
    tracker = runtime.carried.take(_ALERTS, AlertTracker)
    if tracker is None:
        tracker = restored(runtime.kept.load(_ALERTS), runtime.clock.now())
    tracker.on_reload(config.runbooks_url)
    runtime.carried.leave(_ALERTS, tracker)
    runtime.kept.follow(_ALERTS, kept_of(tracker))
    return AlertEngine(
        config.alerts,
        parts.running.windows,
        ruled=parts.running.ruled,
        severe=parts.running.severe,
        defects={one.evaluator.name: one.defect.predicate for one in config.configured_evaluators},
        checks=parts.checks,
        versions={USER_FEEDBACK: ScoreSource.FEEDBACK.value, **parts.versions},
        changed=parts.running.generations.latest,
        page=config.ui.url if config.ui.enabled else "",
        incidents=incidents,
        qualities=partial(qualities, parts.running.runtime.metrics, parts.versions),
        tracker=tracker,
    )


async def _diagnose(
    reports: HistoryReports, tracker: IncidentTracker, config: Config, state: AlertState
) -> DiagnosisLine | None:
    """Diagnose the rate of an alert, by the looks of its incident."""
    incident = tracker.of(state)
    if incident is None:
        return None
    name = incident.defect_rule
    rule = next((one for one in own_rules(config.alerts).get(state.evaluator, ()) if one.name == name), None)
    found = await reports.diagnose(alert_request(incident, rule))
    text = alert_line(found)
    return DiagnosisLine(text, looked=found.found.looked is not None) if text else None


def _page_context(
    config: Config,
    parts: Parts,
    scoring: ScoringParts,
    pipeline: Pipeline,
    *,
    trials: TrialQueue | None,
    incidents: IncidentKeeper,
    reports: HistoryReports,
    review: ReviewParts | None,
) -> PageContext:
    """Return everything that the UI shows; without `trials`, it offers no trials."""
    running = parts.running
    diagnostics = Diagnostics(config, running.runtime.clock, pipeline)
    judged = [one for one in running.evaluators if one.evaluator.cost == "judge"]
    return PageContext(
        runtime=running.runtime,
        windows=running.windows,
        history=running.history,
        alerts=lambda: running.alerts,
        policies=config.alerts,
        ruled=running.ruled,
        configured=config.configured_evaluators,
        idle=tuple(one.evaluator.name for one in config.configured_evaluators if not config.works(one)),
        versions=parts.versions,
        models={one.evaluator.name: parts.judges[one.judge].model for one in judged},
        statuses=running.statuses.current,
        changed=running.generations.latest,
        sliced=scoring.slicing.recent,
        slices=config.slices,
        explain_trace=diagnostics.live_trace,
        explain_evaluator=diagnostics.live_evaluator,
        missed=scoring.backfill.missed,
        retention=config.storage.retention,
        keeps_texts=config.storage.texts == "all",
        incidents=incidents,
        trials=trials,
        reports=reports,
        learned=scoring.learned,
        review=review,
    )


def _review_queue(config: Config, parts: Parts) -> tuple[calibration.CalibrationGauges, ReviewQueue]:
    """Make the review queue, and the gauges that show the results of labels."""
    storage = config.storage
    gauges = calibration.CalibrationGauges(parts.running.runtime.metrics)
    queue = ReviewQueue(
        storage.path,
        {one.evaluator.name: one.evaluator.scale for one in config.configured_evaluators},
        parts.versions,
        parts.running.runtime,
        retention=storage.retention,
        texts_retention=storage.texts_retention,
        blind=config.review.blind,
        slices=config.slices,
        gauges=gauges,
    )
    return gauges, queue


def _trial_queue(config: Config, parts: Parts) -> TrialQueue | None:
    """Make the queue that runs trials; None if the UI offers none."""
    per_hour = config.ui.max_trials_per_hour
    if not (config.ui.enabled and per_hour):
        return None
    running = parts.running
    return TrialQueue(per_hour, running.evaluators, config.all_judges, runtime=running.runtime)


def _review_parts(config: Config, parts: Parts, queue: ReviewQueue) -> ReviewParts | None:
    """Return what the review pages need; None if review is off. Raises `ConfigError` without reviewers."""
    path, runtime = config.review.reviewers.token_file, parts.running.runtime
    if not config.review.enabled or path is None:
        return None
    return ReviewParts(queue, Reviewers(path, runtime.clock, runtime.events), config.review.blind)
