"""The composition root: from a configuration to a running monitor. The only module that knows everything."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
from prometheus_client import Gauge, GCCollector, PlatformCollector, ProcessCollector

from monitor import __version__, calibration, registry, restore
from monitor.alerts import run as alerting
from monitor.alerts.engine import ALERT_NAME, AlertEngine, AlertState
from monitor.alerts.policy import longest_window, needs_baselines, policy_for
from monitor.alerts.trouble import Troubles
from monitor.assembly import Assembly
from monitor.canary.cases import load as load_canary
from monitor.canary.run import Canary
from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import MonitorError
from monitor.estimates.windows import Windows
from monitor.judge.client import open_judge
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import Judged, Score, Standing
from monitor.page import mounting
from monitor.page.facts import Facts
from monitor.pipeline.assignment import Assignment, versions
from monitor.pipeline.counting import Counting
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.generations import Generations
from monitor.pipeline.results import Results
from monitor.pipeline.run import Pipeline
from monitor.pipeline.slicing import Slicing
from monitor.pipeline.traffic import TrafficRules
from monitor.selfwatch.run import open_telemetry
from monitor.sinks.history import History
from monitor.spool import open_spool
from monitor.stages import Component, Deliver, Judge, Runtime, Source, type_name
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import UNKNOWN_APP, Metrics

_HOUR = 3600.0
_WAITING_FOR_THE_JUDGE = 64 * 1024 * 1024  # characters of cases, before judgements are given up as overloaded


@dataclass(slots=True)
class Running:
    """A running monitor, for whoever shows it."""

    runtime: Runtime
    windows: Windows
    history: History
    assignments: Sequence[Assignment]
    generations: Generations
    alerts: Sequence[AlertState] = field(default_factory=tuple)

    def show(self, states: Sequence[AlertState]) -> None:
        """The alerts as they stand now."""
        self.alerts = states


async def run(
    config: Config,
    stop: anyio.Event,
    *,
    clock: Clock | None = None,
    started: Callable[[Running], None] = lambda _: None,
    alerts_every: float = alerting.EVERY,
) -> None:
    """Run the monitor until `stop` is set, then drain.

    `started` is called once, before the receivers listen. `alerts_every`: seconds between two looks at the alerts.
    Raises `ConfigError` (perhaps within an exception group) when it can never work: a port in use, a folder that cannot
    be written, a model without a price under a budget.
    """
    clock = clock if clock is not None else SystemClock()
    metrics = _metrics()
    windows = Windows(clock, longest=longest_window(config.alerts), baselines=needs_baselines(config.alerts))
    troubles = Troubles(clock, partial(_value, metrics.oldest_pending))
    history = History(
        path=config.storage.path / "history.db", keep=config.storage.keep, keep_texts=config.storage.keep_texts
    )
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(_open_runtime(config, clock, metrics))
        spool = await stack.enter_async_context(
            open_spool(
                config.storage.path / "spool.db",
                at_most=config.storage.at_most,
                keep=config.storage.keep,
                clock=clock,
                metrics=metrics,
                events=runtime.events,
            )
        )
        listening = anyio.Event()
        arrivals = _arrivals(config, runtime, listening)  # before anything is served that says whether all is ready
        judges: dict[str, Judge] = {}
        for name, settings in config.all_judges.items():
            if settings.model is not None:
                opening = open_judge(settings, runtime, rng=random.Random(), begin=listening)
                judges[name] = await stack.enter_async_context(opening)
        sinks: dict[str, Deliver] = {"windows": _into(windows, troubles, metrics)}
        sinks["storage"] = await stack.enter_async_context(history.open(runtime))
        for name, sink in _named(config.sinks):
            sinks[name] = await stack.enter_async_context(sink.open(runtime))
        running = Running(runtime, windows, history, _active(config, runtime), Generations(runtime))
        current = versions(running.assignments, judges)
        seen = await restore.fill(windows, history, clock.now(), current)
        await restore.recount(
            troubles.expectations, history, clock.now(), {one.evaluator.name for one in config.assignments}
        )
        with contextlib.suppress(MonitorError):
            known = await history.generations()
            running.generations.restore(one._replace(app=metrics.app(one.app or UNKNOWN_APP)) for one in known)
        evaluation = Evaluation(
            running.assignments,
            judges=judges,
            sinks=sinks,
            counting=Counting(metrics, Slicing(config.slices, metrics, clock)),
            delivered=spool,
            draws=spool.draws,
            runtime=runtime,
            salt=config.sampling.salt,
            waiting_limit=_WAITING_FOR_THE_JUDGE,
            repeat={name: settings.repeat for name, settings in config.all_judges.items()},
            turns={name: _turns(settings) for name, settings in config.all_judges.items()},
            shares=config.traffic.shares,
            quotas=config.traffic.quotas,
            results=Results(
                runtime,
                slices=config.slices,
                late_after=config.traffic.late_after,
                generations=running.generations,
            ),
        )
        pipeline = Pipeline(
            sources=config.sources,
            conventions=registry.conventions(),
            reading=config.reading,
            assembly=Assembly(config.assembly),
            evaluation=evaluation,
            spool=spool,
            runtime=runtime,
            rate=config.sampling.traces,
            traffic=TrafficRules(config.traffic, config.sampling.salt, runtime),
            received=troubles.expectations.received,
        )
        for app in sorted(seen):
            evaluation.prepare(app)
        memory = next((sink for sink in config.sinks if sink.memory == "fleet"), history)  # only one: else twice
        recall = partial(restore.recall, memory, partial(evaluation.heard, delivered=memory is not history), runtime)
        if memory is history:
            await recall()
        if config.page.enabled:
            mounting.mount(_facts(config, running, current, judges), config.page)
        runtime.events.info(Event.STARTED, "starting", version=__version__)
        started(running)
        canary = Canary(
            config.canary,
            running.assignments,
            judges=judges,
            cases=load_canary(config.canary.cases) if config.canary.every is not None else {},
            runtime=runtime,
            path=config.storage.path / "canary.json",
            heard=troubles.canaries.ran,
        )
        engine = AlertEngine(
            config.alerts,
            windows,
            runbooks=config.runbooks,
            troubles=troubles,
            versions=current,
            changed=running.generations.latest,
            page=config.page.url if config.page.enabled else "",
        )
        async with anyio.create_task_group() as beside:
            look = partial(alerting.run, engine, config.notify, runtime, every=alerts_every, show=running.show)
            beside.start_soon(look)
            beside.start_soon(calibration.watch, config.storage.path, current, runtime)
            if memory is not history:
                beside.start_soon(recall)
            beside.start_soon(canary.run)
            await pipeline.run(stop, arrivals)
            runtime.events.info(Event.STOPPING, "drained")
            beside.cancel_scope.cancel()
    runtime.events.info(Event.STOPPED, "stopped")


@contextlib.asynccontextmanager
async def _open_runtime(config: Config, clock: Clock, metrics: Metrics) -> AsyncIterator[Runtime]:
    events = Events(metrics)
    own = open_telemetry(config.telemetry, clock=clock, metrics=metrics, events=events, rng=random.Random())
    async with own as tracer:
        yield Runtime(clock=clock, metrics=metrics, events=events, health=Health(), tracer=tracer)


def _arrivals(config: Config, runtime: Runtime, all_listen: anyio.Event) -> Callable[[Source, str], None]:
    """Waits for all sources to listen; returns what each is to tell its address to."""
    names = {id(source): name for name, source in _named(config.sources)}
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


C = TypeVar("C", bound=Component)


def _named(components: Sequence[C]) -> list[tuple[str, C]]:
    """Each component under its type; a second one of a type under `type_2` and so on."""
    found: dict[str, C] = {}
    for one in components:
        name, number = type_name(one), 1
        while name in found:
            number += 1
            name = f"{type_name(one)}_{number}"
        found[name] = one
    return list(found.items())


def _metrics() -> Metrics:
    metrics = Metrics()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=metrics.registry)
    return metrics


def _value(gauge: Gauge) -> float:
    """What a gauge without labels exports now."""
    return float(next(iter(next(iter(gauge.collect())).samples)).value)


def _into(windows: Windows, troubles: Troubles, metrics: Metrics) -> Deliver:
    """A sink that feeds the alerts in process with what is live, as the rules see it.

    A verdict belongs to the time of the answer, where that is known.
    """

    async def deliver(judged: Judged) -> None:
        app = metrics.app(judged.case.app or UNKNOWN_APP)
        if judged.standing is not Standing.LIVE:
            return
        troubles.saw(judged, app)
        if isinstance(judged.outcome, Score):
            at = judged.case.answered_at or judged.judged_at
            windows.add(app, judged.evaluator, at, judged.weight, judged.defect)

    return deliver


def _facts(config: Config, running: Running, current: Mapping[str, str], judges: Mapping[str, Judge]) -> Facts:
    """What the page looks at."""

    def thresholds(app: str, evaluator: str) -> Mapping[str, float]:
        policy = policy_for(config.alerts, app, evaluator)
        return {severity.value: rate for severity, rate in policy.thresholds.items()} if policy is not None else {}

    judged = [one for one in running.assignments if one.evaluator.cost == "judge"]
    return Facts(
        runtime=running.runtime,
        windows=running.windows,
        results=running.history,
        alerts=lambda: running.alerts,
        assigned=config.assignments,
        versions=current,
        models={one.evaluator.name: judges[one.judge].model for one in judged},
        idle=tuple(one.evaluator.name for one in config.assignments if not config.works(one)),
        thresholds=thresholds,
        decisive=ALERT_NAME,
        changed=running.generations.latest,
        keeps=config.storage.keep,
        keeps_texts=config.storage.keep_texts,
    )


def _turns(judge: JudgeSettings) -> int:
    """How many cases may be at a judge at once: enough to keep it busy, few enough that nobody waits long behind them.

    Two for each call it takes at once, since some wait to try again and make no call. Under a pace no more than fit
    into the time that one call may take.
    """
    busy, pace = 2 * judge.concurrency, judge.budget.requests_per_minute
    return busy if pace is None else max(1, min(busy, math.ceil(pace / 60 * judge.timeout)))


def _active(config: Config, runtime: Runtime) -> tuple[Assignment, ...]:
    """The evaluators that can work; says once which cannot, and why."""
    active = []
    for assignment in config.assignments:
        if not config.works(assignment):
            runtime.events.info(
                Event.EVALUATOR_OFF,
                "a judged evaluator is off: its judge has no model",
                evaluator=assignment.evaluator.name,
            )
        else:
            active.append(assignment)
    return tuple(active)
