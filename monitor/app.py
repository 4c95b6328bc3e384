"""The composition root: from a configuration to a running monitor. The only module that knows everything."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import anyio
from prometheus_client import GCCollector, PlatformCollector, ProcessCollector

from monitor import __version__, registry
from monitor.alerts import run as alerting
from monitor.alerts.engine import AlertEngine, AlertState
from monitor.alerts.notify import Log, Notifier
from monitor.assembly import Assembly
from monitor.clock import Clock, SystemClock
from monitor.config import Config
from monitor.errors import MonitorError
from monitor.estimates.rates import Sums
from monitor.estimates.windows import Windows
from monitor.judge.client import open_judge
from monitor.model.outcome import Judged, Score
from monitor.pipeline.counting import Counting
from monitor.pipeline.evaluate import Assignment, Evaluation
from monitor.pipeline.run import Pipeline
from monitor.sinks.history import History
from monitor.spool import open_spool
from monitor.stages import Deliver, Judge, Runtime, Source, type_name
from monitor.telemetry.events import Event, Events
from monitor.telemetry.health import Health
from monitor.telemetry.metrics import UNKNOWN_APP, Metrics


@dataclass(slots=True)
class Running:
    """A running monitor, for whoever shows it: nothing here changes it."""

    runtime: Runtime
    windows: Windows
    history: History
    assignments: Sequence[Assignment]
    alerts: Sequence[AlertState] = field(default_factory=tuple)


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
    windows = Windows(
        clock, longest=max([86400.0, *(one.window for policy in config.alerts for one in policy.windows)])
    )
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
        judge: Judge | None = None
        if config.judge.model is not None:
            judge = await stack.enter_async_context(open_judge(config.judge, runtime, rng=random.Random()))
        sinks: dict[str, Deliver] = {"windows": _into(windows, metrics)}
        sinks["history"] = await stack.enter_async_context(history.open(runtime))
        for number, sink in enumerate(config.sinks):
            name = type_name(sink)
            sinks[name if name not in sinks else f"{name}_{number}"] = await stack.enter_async_context(
                sink.open(runtime)
            )
        await _restore(windows, history, clock.now())
        running = Running(runtime, windows, history, _active(config, runtime))
        pipeline = Pipeline(
            sources=config.sources,
            conventions=registry.conventions(),
            assembly=Assembly(config.assembly),
            evaluation=Evaluation(
                running.assignments,
                judge=judge,
                sinks=sinks,
                counting=Counting(metrics),
                delivered=spool,
                runtime=runtime,
                salt=config.sampling.salt,
                waiting_limit=64 * 1024 * 1024,
            ),
            spool=spool,
            runtime=runtime,
            rate=config.sampling.traces,
        )
        started(running)
        await _run(config, running, pipeline, stop, alerts_every)
    runtime.events.info(Event.STOPPED, "stopped")


async def _run(
    config: Config,
    running: Running,
    pipeline: Pipeline,
    stop: anyio.Event,
    alerts_every: float,
) -> None:
    runtime = running.runtime
    for source in config.sources:
        runtime.health.expect(type_name(source))

    def listening(source: Source, address: str) -> None:
        name = type_name(source)
        runtime.events.info(Event.LISTENING, "listening for traces", source=name, address=address)
        runtime.health.addresses[name] = address
        runtime.health.up(name)

    def show(states: Sequence[AlertState]) -> None:
        running.alerts = tuple(states)

    runtime.events.info(Event.STARTED, "starting", version=__version__)
    engine = AlertEngine(config.alerts, running.windows)
    async with anyio.create_task_group() as beside:
        notifiers = (Log(), *config.notify)
        beside.start_soon(_alerting, engine, notifiers, runtime, alerts_every, show)
        await pipeline.run(stop, listening)
        runtime.events.info(Event.STOPPING, "drained")
        beside.cancel_scope.cancel()


async def _alerting(
    engine: AlertEngine,
    notifiers: Sequence[Notifier],
    runtime: Runtime,
    every: float,
    show: Callable[[Sequence[AlertState]], None],
) -> None:
    await alerting.run(engine, notifiers, runtime, every=every, show=show)


def _metrics() -> Metrics:
    metrics = Metrics()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=metrics.registry)
    return metrics


def _into(windows: Windows, metrics: Metrics) -> Deliver:
    """A sink that feeds the alerts in process. A verdict belongs to the time of the answer, where that is known."""

    async def deliver(judged: Judged) -> None:
        if isinstance(judged.outcome, Score):
            at = judged.case.answered_at or judged.judged_at
            app = metrics.app(judged.case.app or UNKNOWN_APP)
            windows.add(app, judged.evaluator, at, judged.weight, judged.defect)

    return deliver


async def _restore(windows: Windows, history: History, now: float) -> None:
    """Fill the windows with what was judged before a restart; without a history that can be read they begin empty."""
    with contextlib.suppress(MonitorError):
        for row in await history.sums_since(now - windows.longest):
            defects = (row.judged, row.weight, row.weight_squares) if row.defect else (0, 0.0, 0.0)
            sums = Sums(row.judged, defects[0], row.weight, defects[1], defects[2])
            windows.add_sums(row.app or UNKNOWN_APP, row.evaluator, float(row.at), sums)


def _active(config: Config, runtime: Runtime) -> tuple[Assignment, ...]:
    """The evaluators that can work; says once which cannot, and why."""
    active = []
    for assignment in config.assignments:
        if assignment.evaluator.cost == "judge" and config.judge.model is None:
            runtime.events.info(
                Event.EVALUATOR_OFF,
                "a judged evaluator is off: no judge.model is configured",
                evaluator=assignment.evaluator.name,
            )
        else:
            active.append(assignment)
    return tuple(active)
