"""`rag-monitor run`: the monitor, until it is told to stop."""

from __future__ import annotations

import functools
import gc
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from monitor.operations.event_loop import run_async

if TYPE_CHECKING:
    from monitor.config import Config

ConfigPath = Annotated[
    Path | None, typer.Option("--config", "-c", help="The YAML file. Without it, everything has its default.")
]


def run(config: ConfigPath = None) -> None:
    """Receive traces, judge them, export metrics, raise alerts. SIGTERM or Ctrl-C drains and ends in ten seconds."""
    from monitor import config as configuration  # noqa: PLC0415
    from monitor.telemetry import logs  # noqa: PLC0415

    loaded = configuration.load(config)
    logs.configure(loaded.log.level, loaded.log.style)
    run_async(functools.partial(until_signal, loaded))


async def until_signal(config: Config) -> None:
    """Run the monitor until SIGTERM or SIGINT."""
    from monitor import app  # noqa: PLC0415

    # What is loaded by now lives as long as the process, and what comes in is many small objects that are soon gone:
    # looking through them seldom is enough.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stop_on_signal, stop)
        await app.run(config, stop)
        tasks.cancel_scope.cancel()
    gc.freeze()  # what is left ends with the process: to look through a judge's libraries once more takes a second


async def _stop_on_signal(stop: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            stop.set()  # draining is bounded in time: further signals change nothing
