"""The composition root: from a configuration to a running monitor. The only module that knows everything."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
from prometheus_client import Gauge, GCCollector, PlatformCollector, ProcessCollector

from monitor import __version__, registry
from monitor.alerts import run as alerting
from monitor.alerts.engine import AlertEngine, AlertState
from monitor.alerts.policy import longest_window, needs_baselines
from monitor.alerts.trouble import Troubles
from monitor.assembly import Assembly
from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import MonitorError
from monitor.estimates.rates import Sums
from monitor.estimates.windows import Windows
from monitor.judge.client import open_judge
from monitor.judge.settings import JudgeSettings
from monitor.model.outcome import Judged, Score, Standing
from monitor.pipeline.assignment import Assignment
from monitor.pipeline.counting import Counting
from monitor.pipeline.evaluate import Evaluation
from monitor.pipeline.generations import Generations
from monitor.pipeline.results import Results
from monitor.pipeline.run import Pipeline
from monitor.pipeline.slicing import Slicing
from monitor.pipeline.traffic import TrafficRules
from monitor.sinks.history import History
from monitor.spool import open_spool
from monitor.stages import Component, Deliver, Judge, Runtime, Source, type_name
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import UNKNOWN_APP, Metrics

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
    runtime = Runtime(clock=clock, metrics=metrics, events=Events(metrics), health=Health())
    windows = Windows(clock, longest=longest_window(config.alerts), baselines=needs_baselines(config.alerts))
    troubles = Troubles(clock, partial(_value, metrics.oldest_pending))
    history = History(
        path=config.storage.path / "history.db", keep=config.storage.keep, keep_texts=config.storage.keep_texts
    )
    async with AsyncExitStack() as stack:
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
        await _restore(windows, history, clock.now())
        running = Running(runtime, windows, history, _active(config, runtime), Generations(runtime))
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
        )
        for app, _ in windows.keys():  # noqa: SIM118 - not a mapping
            evaluation.prepare(app)
        runtime.events.info(Event.STARTED, "starting", version=__version__)
        started(running)
        engine = AlertEngine(
            config.alerts,
            windows,
            runbooks=config.runbooks,
            troubles=troubles,
            changed=running.generations.latest,
        )
        async with anyio.create_task_group() as beside:
            look = partial(alerting.run, engine, config.notify, runtime, every=alerts_every, show=running.show)
            beside.start_soon(look)
            await pipeline.run(stop, arrivals)
            runtime.events.info(Event.STOPPING, "drained")
            beside.cancel_scope.cancel()
    runtime.events.info(Event.STOPPED, "stopped")


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


async def _restore(windows: Windows, history: History, now: float) -> None:
    """Fill the windows with what was judged before a restart; without a history that can be read they begin empty."""
    since, minutes = now - windows.remembered, now - windows.longest
    with contextlib.suppress(MonitorError):
        hours = await history.hourly_sums(since, minutes) if since < minutes else []
        for row in [*hours, *await history.sums_since(minutes // 3600 * 3600)]:
            squares = row.weight_squares
            defects = (row.judged, row.weight, squares, 0.0) if row.defect else (0, 0.0, 0.0, squares)
            sums = Sums(row.judged, defects[0], row.weight, *defects[1:])
            windows.add_sums(row.app or UNKNOWN_APP, row.evaluator, float(row.at), sums)


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
