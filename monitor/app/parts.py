"""Everything that is open during a life of the monitor: storage, judges, sinks, and what they share."""

from __future__ import annotations

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from prometheus_client import GCCollector, PlatformCollector, ProcessCollector

from monitor.alerts.policy import longest_window, needs_baselines
from monitor.alerts.rule_windows import RuleWindows
from monitor.alerts.self_alert import AlertFeed, Observed, SelfAlertChecks
from monitor.alerts.severe import SevereLog
from monitor.alerts.state import AlertState
from monitor.app.reload import Reloader
from monitor.clock import Clock
from monitor.config import Config
from monitor.config.limits import MemoryPlan
from monitor.config.sections import StorageSettings
from monitor.errors import ConfigError, MonitorError
from monitor.errors.explanation import placed
from monitor.jobs.self_telemetry.run import open_telemetry
from monitor.judge.client import JudgeClient, open_judge
from monitor.judge.pause import Pause
from monitor.judge.setup import place_of
from monitor.model.outcome import EvaluationResult
from monitor.model.severe import SevereCase
from monitor.operations.event_loop import unwrap_errors
from monitor.operations.storage_folder import refuse_newer
from monitor.pipeline.configured_evaluator import ConfiguredEvaluator
from monitor.pipeline.followers import Followers
from monitor.pipeline.introspection.evaluator_status import StatusTracker, TrackedEvaluator
from monitor.pipeline.privacy import PrivacyFilter
from monitor.pipeline.scoring import versions
from monitor.pipeline.service_versions import ServiceVersions
from monitor.privacy import pseudonyms
from monitor.privacy.audit import Audit
from monitor.privacy.erasure import ErasureMarks
from monitor.privacy.redaction import Redactor
from monitor.sinks.history import HistorySink
from monitor.stages import Deliver, Runtime, Sink, Source, named
from monitor.stages.doors import Doors
from monitor.stages.reloads import Carried
from monitor.stages.stop_deadline import StopDeadline
from monitor.statistics.windows import Windows
from monitor.storage import files, folder
from monitor.storage.history.feed import Feed
from monitor.storage.request_log import Recorder, recording
from monitor.storage.severe_cases import SevereCaseFile
from monitor.storage.spool import PoisonGuard, Spool, open_spool
from monitor.storage.state_file import open_state
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import Metrics, samples, total


@dataclass(frozen=True, slots=True)
class Process:
    """The parts that outlive a reload of the configuration."""

    clock: Clock
    doors: Doors
    reloads: Reloader
    carried: Carried = field(default_factory=Carried)


@dataclass(slots=True)
class Running:
    """The parts of a running monitor, for the UI and the live view."""

    runtime: Runtime
    windows: Windows
    ruled: RuleWindows
    severe: SevereLog | None
    history: HistorySink
    evaluators: Sequence[ConfiguredEvaluator]
    generations: ServiceVersions
    statuses: StatusTracker
    alerts: Sequence[AlertState] = field(default_factory=tuple)

    def show(self, states: Sequence[AlertState]) -> None:
        """Show the current states of the alerts."""
        self.alerts = states


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that is open. `judges` and `sinks` are by name; `versions` are those of active evaluators, by name.

    `unknown` names the evaluators whose earlier scores `checks` still has to learn.

    `sinks` are those that take a result at once, the history first; all others are `followers` of the history.

    Each source reports its address to `arrived`; `listening` is set when all have. `recorder` writes the request log;
    None: it is off. `severe_file` stores severe cases; None: no alert needs them. `memory` is what each part may use.
    """

    running: Running
    checks: SelfAlertChecks
    unknown: Collection[str]
    listeners: Sequence[Callable[[EvaluationResult], None]]
    spool: Spool
    guard: PoisonGuard
    judges: Mapping[str, JudgeClient]
    sinks: Mapping[str, Deliver]
    followers: Followers
    private: PrivacyFilter
    recorder: Recorder | None
    severe_file: SevereCaseFile | None
    versions: Mapping[str, str]
    arrived: Callable[[Source, str], None]
    listening: anyio.Event
    memory: MemoryPlan


async def open_parts(config: Config, process: Process, plan: MemoryPlan, stack: AsyncExitStack) -> Parts:
    """Open everything, until `stack` exits. Raises `ConfigError` if it can never work."""
    clock = process.clock
    await anyio.to_thread.run_sync(_take_over, config.storage.path)
    metrics = _metrics()
    windows = Windows(clock, longest=longest_window(config.alerts), baselines=needs_baselines(config.alerts))
    ruled = RuleWindows(config.alerts, clock)
    runtime = await stack.enter_async_context(_open_runtime(config, process, metrics))
    spool = await stack.enter_async_context(
        open_spool(
            config.storage.path / files.SPOOL,
            at_most=config.storage.max_size,
            keep=config.storage.retention,
            retain=config.storage.spool_retention,
            erase=config.storage.texts == "none",
            waiting_at_most=plan.requests,
            results_at_most=plan.cache("results"),
            draws_at_most=plan.cache("draws"),
            clock=clock,
            metrics=metrics,
            events=runtime.events,
        )
    )
    guard = PoisonGuard(config.storage.path, keep=config.storage.retention, clock=clock)
    stack.callback(guard.close)
    listening = anyio.Event()
    arrived = _arrivals(config, runtime, listening)  # before anything is served that reports readiness
    judges = await _open_judges(config, runtime, listening, stack)
    statuses = _statuses(config, judges, runtime)
    observed = Observed(
        clock,
        partial(total, metrics.oldest_pending),
        statuses.pauses,
        replaced_workers=partial(samples, metrics.workers_replaced),
        failing_databases=partial(samples, metrics.database_failing),
        unwritten_records=partial(samples, metrics.database_unwritten),
        judges_as_good=partial(samples, metrics.judge_as_good),
        reload_failed=process.reloads.why_failed,
    )
    own = {one.evaluator.name for one in config.configured_evaluators}
    checks, known = _checks(observed, own, process.carried)
    history = HistorySink.in_folder(config.storage.path, config.storage)
    private = _private(config, runtime)
    runtime.events.also(Audit(config.storage.path, clock, runtime.events).on_event)
    sinks, followers = await _open_sinks(config, history, private, runtime, stack)
    recorder = await stack.enter_async_context(_recording(config.storage, runtime))
    severe_file = _severe_file(config, runtime, stack)
    log = SevereLog(config.alerts, config.severe_rules, _load(severe_file, runtime)) if severe_file else None
    running = Running(
        runtime, windows, ruled, log, history, _active(config, runtime), ServiceVersions(runtime), statuses
    )
    return Parts(
        running=running,
        checks=checks,
        unknown=own - known,
        listeners=(statuses.on_result, AlertFeed(windows, ruled, checks, metrics.app).on_result),
        spool=spool,
        guard=guard,
        judges=judges,
        sinks=sinks,
        followers=followers,
        private=private,
        recorder=recorder,
        severe_file=severe_file,
        versions=versions(running.evaluators, {name: judge.model for name, judge in judges.items()}),
        arrived=arrived,
        listening=listening,
        memory=plan,
    )


def _checks(
    observed: Observed, evaluators: Collection[str], carried: Carried
) -> tuple[SelfAlertChecks, frozenset[str]]:
    """Continue the alerts on the monitor itself; also return the evaluators that they already know."""
    before = carried.take("self alerts", SelfAlertChecks)
    known = (before.evaluators if before is not None else None) or frozenset()
    checks = before if before is not None else SelfAlertChecks(observed)
    checks.on_reload(observed, evaluators)
    carried.leave("self alerts", checks)
    return checks, known


async def _open_sinks(
    config: Config, history: HistorySink, private: PrivacyFilter, runtime: Runtime, stack: AsyncExitStack
) -> tuple[dict[str, Deliver], Followers]:
    """Open the history and all sinks until `stack` exits: those that take results at once, and the followers."""
    sinks: dict[str, Deliver] = {}
    following: dict[str, tuple[Sink, Deliver]] = {}
    places = ["storage", *(f"sinks[{number}]" for number in range(len(config.sinks)))]
    for place, (name, sink) in zip(places, [("storage", history), *named(config.sinks).items()], strict=True):
        try:
            with unwrap_errors():
                opened = await stack.enter_async_context(sink.open(runtime))
        except ConfigError as error:
            raise ConfigError(placed(error, place, type(sink).model_fields)) from None
        if sink.follows:
            following[name] = sink, opened
        else:
            sinks[name] = private.over(opened)
    followers = Followers(Feed(config.storage.path / files.HISTORY), following, runtime, rng=random.Random())
    await followers.begin()
    sinks["storage"] = followers.after(sinks["storage"])
    return sinks, followers


def _take_over(path: Path) -> None:
    """Record that this version now writes the folder. Raises `ConfigError` if a file in it is from a newer version."""
    refuse_newer(path)
    folder.mark(path)


@contextlib.asynccontextmanager
async def _open_runtime(config: Config, process: Process, metrics: Metrics) -> AsyncIterator[Runtime]:
    clock, events = process.clock, Events(metrics)
    stop = StopDeadline(clock)
    own = open_telemetry(config.telemetry, clock=clock, metrics=metrics, events=events, rng=random.Random(), stop=stop)
    health = Health()
    events.also(health.on_event)
    state = open_state(config.storage.path / files.STATE, clock=clock, metrics=metrics, events=events)
    process.reloads.show(metrics, clock.now())
    async with own as tracer, state as kept:
        yield Runtime(
            clock=clock,
            metrics=metrics,
            events=events,
            health=health,
            tracer=tracer,
            kept=kept,
            stop=stop,
            doors=process.doors,
            reloads=process.reloads,
            carried=process.carried,
        )


async def _open_judges(
    config: Config, runtime: Runtime, begin: anyio.Event, stack: AsyncExitStack
) -> dict[str, JudgeClient]:
    """Open the judges that have a model, by name, until `stack` exits."""
    found = {}
    for name, settings in config.judges_with_models.items():
        pause = Pause.of(name, settings, runtime)
        place = place_of(name)
        opening = open_judge(settings, runtime, rng=random.Random(), begin=begin, pause=pause, place=place)
        found[name] = await stack.enter_async_context(opening)
    return found


def _arrivals(config: Config, runtime: Runtime, all_listen: anyio.Event) -> Callable[[Source, str], None]:
    """Wait for all sources to listen; return the function to which each reports its address."""
    names = {id(source): name for name, source in named(config.sources).items()}
    for name in names.values():
        runtime.health.expect(name)
    if not names:
        all_listen.set()

    def is_listening(source: Source, address: str) -> None:
        name = names[id(source)]
        runtime.events.info(Event.LISTENING, "listening for traces", source=name, address=address)
        runtime.health.addresses[name] = address
        runtime.health.up(name)
        if runtime.health.ready:
            all_listen.set()

    return is_listening


def _metrics() -> Metrics:
    metrics = Metrics()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=metrics.registry)
    return metrics


def _statuses(config: Config, judges: Mapping[str, JudgeClient], runtime: Runtime) -> StatusTracker:
    """Track the status of all configured evaluators."""
    known = [
        TrackedEvaluator(
            one.evaluator.name, one.judge if one.evaluator.cost == "judge" else None, off=config.why_off(one)
        )
        for one in config.configured_evaluators
    ]
    return StatusTracker(known, judges, runtime.clock, runtime.metrics)


def _private(config: Config, runtime: Runtime) -> PrivacyFilter:
    """Return the filter that drops requests to be forgotten, and masks personal data."""
    users = pseudonyms.at_hand(config.storage.path)
    return PrivacyFilter(
        Redactor(config.redaction, users, runtime.metrics), users, ErasureMarks(config.storage.path, runtime.clock)
    )


def _active(config: Config, runtime: Runtime) -> tuple[ConfiguredEvaluator, ...]:
    """Return the evaluators that can work; log once which ones cannot, and why."""
    active = []
    for configured in config.configured_evaluators:
        why = config.why_off(configured)
        if why:
            say = runtime.events.warning if configured.optional else runtime.events.info
            say(Event.EVALUATOR_OFF, f"an evaluator is off: {why}", evaluator=configured.evaluator.name)
        else:
            active.append(configured)
    return tuple(active)


def _severe_file(config: Config, runtime: Runtime, stack: AsyncExitStack) -> SevereCaseFile | None:
    """Make the file of severe cases; None if no alert needs them. It is opened on first use."""
    if not config.severe_rules:
        return None
    made = SevereCaseFile(config.storage.path / files.SEVERE_CASES, config.storage.retention, runtime)
    stack.callback(made.close)
    return made


def _load(file: SevereCaseFile, runtime: Runtime) -> list[SevereCase]:
    try:
        return file.load()
    except MonitorError as error:
        runtime.events.error(Event.SINK_FAILED, "the severe cases of earlier days cannot be read", error=str(error))
        return []


def _recording(storage: StorageSettings, runtime: Runtime) -> AbstractAsyncContextManager[Recorder | None]:
    """Record in the request log, as configured; None if it is off."""
    if storage.request_log <= 0:
        return nullcontext()
    return recording(
        storage.path / files.REQUEST_LOG,
        runtime,
        retention=storage.request_log,
        sums_retention=max(storage.retention, storage.request_log),
        at_most=storage.request_log_max_size,
    )
