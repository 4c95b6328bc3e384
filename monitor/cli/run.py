"""`rag-monitor run`: the monitor, until it is told to stop."""

from __future__ import annotations

import functools
import gc
import importlib.util
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer

from monitor.errors import ConfigError

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
    in_event_loop(functools.partial(until_signal, loaded))


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


def in_event_loop(main: Callable[[], Awaitable[None]]) -> None:
    """Run an async function to its end, on uvloop where it is installed; a `ConfigError` inside comes out as itself."""
    uvloop = importlib.util.find_spec("uvloop") is not None
    try:
        anyio.run(main, backend_options={"use_uvloop": uvloop})
    except BaseExceptionGroup as group:
        found = _first_config_error(group)
        if found is None:
            raise
        raise found from None


def _first_config_error(group: BaseException) -> ConfigError | None:
    """The configuration error inside a task group's exception, if that is what ended it."""
    if isinstance(group, ConfigError):
        return group
    if isinstance(group, BaseExceptionGroup):
        with suppress(StopIteration):
            return next(found for one in group.exceptions if (found := _first_config_error(one)) is not None)
    return None
