"""Runs a real monitor for the demo: on free ports, in a temporary folder, fed with recorded traffic."""

from __future__ import annotations

import functools
import logging
import random
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from monitor import app, config
from monitor.cli.console.output import trouble_lines
from monitor.cli.console.view import ConsoleView
from monitor.cli.demo import feeder, view
from monitor.clock import Clock, SystemClock
from monitor.telemetry import logs

TRACES_PER_SECOND = 12.0
_HOST = "127.0.0.1"


def settings(folder: Path, ports: Sequence[int]) -> dict[str, Any]:
    """Return the configuration of the demo: the defaults with other ports, another folder, and short alert windows."""
    http, grpc, metrics = ports
    return {
        "sources": [{"type": "otlp_http", "port": http}, {"type": "otlp_grpc", "port": grpc}],
        "sinks": [{"type": "prometheus", "port": metrics}],
        "assembly": {"grace_period": "500ms"},
        "storage": {"path": str(folder), "texts": "all"},
        "evaluators": [{"type": "overlap_groundedness"}],
        "context_rates": False,
        "alerts": [
            {
                "evaluator": "overlap_groundedness",
                "warning": "10%",
                "critical": "25%",
                "windows": [{"window": "30s", "z": 3.09}, {"window": "2m", "z": 2.58}],
                "resolve_after": "30s",
            }
        ],
    }


@dataclass(frozen=True, slots=True)
class Started:
    """A running monitor: what to show of it now, and the function that feeds it with traffic."""

    next_view: Callable[[], ConsoleView]
    feed: Callable[[], Awaitable[object]]


@asynccontextmanager
async def start(
    schedule: feeder.Schedule = feeder.SCHEDULES[feeder.DEGRADING],
    traces_per_second: float = TRACES_PER_SECOND,
    clock: Clock | None = None,
) -> AsyncIterator[Started]:
    """Start the monitor; its log is written to its folder. Leaving the context drains it and removes the folder.

    `schedule` applies to the service whose answers get worse; `traces_per_second` is for both services together.
    """
    clock = clock if clock is not None else SystemClock()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rag-monitor-demo-")))
        log = stack.enter_context((folder / "monitor.log").open("w", encoding="utf-8"))
        root = logging.getLogger()
        stack.callback(root.handlers.__setitem__, slice(None), root.handlers[:])
        logs.configure("INFO", "text", log)
        async with _running(folder, clock, schedule, traces_per_second) as started:
            yield started


@asynccontextmanager
async def _running(
    folder: Path, clock: Clock, schedule: feeder.Schedule, traces_per_second: float
) -> AsyncIterator[Started]:
    ports = [_port(preferred) for preferred in (4318, 4317, 9464)]
    latest = view.Latest()
    parsed = config.parse(settings(folder, ports))
    parsed = parsed.model_copy(update={"sinks": (*parsed.sinks, latest)})
    stop, up = anyio.Event(), anyio.Event()
    monitors: list[app.Running] = []

    def started(running: app.Running) -> None:
        monitors.append(running)
        up.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(functools.partial(app.run, parsed, stop, clock=clock, started=started, alerts_every=1.0))
        await up.wait()
        began = clock.monotonic()

        def current() -> ConsoleView:
            now, elapsed, running, (http, grpc, metrics) = clock.now(), clock.monotonic() - began, monitors[0], ports
            return ConsoleView(
                elapsed=elapsed,
                phase=phase(schedule, elapsed),
                window=view.SHOWN_WINDOW,
                rates=view.rates(running.windows, running.alerts, now),
                alerts=view.alerts(running.alerts, now),
                worst=latest.worst(now - view.SHOWN_WINDOW),
                ledger=view.ledger(running.runtime.metrics),
                addresses={
                    "page": f"http://{_HOST}:{metrics}/?window=10m",
                    "metrics": f"http://{_HOST}:{metrics}/metrics",
                    "OTLP": f"{_HOST}:{http} (HTTP), {grpc} (gRPC)",
                },
                notes=tuple(trouble_lines(running.statuses.current())),
            )

        feed = functools.partial(
            feeder.feed,
            f"http://{_HOST}:{ports[0]}/v1/traces",
            clock,
            random.Random(),
            traces_per_second=traces_per_second,
            schedules={**feeder.SCHEDULES, feeder.DEGRADING: schedule},
        )
        try:
            yield Started(current, feed)
        finally:
            stop.set()


def phase(schedule: feeder.Schedule, elapsed: float) -> str:
    """Say what the feeder does at `elapsed` seconds."""
    if elapsed < schedule.healthy:
        return "replaying healthy traffic"
    if elapsed < schedule.healthy + schedule.growing:
        return f"{feeder.DEGRADING} starts to make answers up"
    return f"{feeder.DEGRADING} makes up {schedule.high:.0%} of its answers"


def _port(preferred: int) -> int:
    """Return `preferred` if it is free on loopback, else any free port."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("there is no free port on loopback")
