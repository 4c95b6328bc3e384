"""`rag-monitor run`: run the monitor until it is asked to stop."""

from __future__ import annotations

import functools
import gc
import logging
from pathlib import Path

import anyio

from monitor import app
from monitor import config as configuration
from monitor.cli._options import ConfigPath
from monitor.config import Loaded
from monitor.errors.deprecation import deprecated_options
from monitor.operations.event_loop import end_process, run_async, stop_on_signal
from monitor.stages.stop_deadline import STOP_WITHIN
from monitor.telemetry import logs

_log = logging.getLogger(__name__)


def run(config: ConfigPath = None) -> None:
    """Receive traces, evaluate answers, export metrics, raise alerts.

    On SIGHUP it reloads the configuration. On SIGTERM or Ctrl-C it finishes what is in progress and stops within ten
    seconds.
    """
    loaded = Loaded.read(config)
    logs.configure(loaded.config.log.level, loaded.config.log.style)
    for warning in (*configuration.readable_secrets(config), *deprecated_options(loaded.config)):
        _log.warning(warning)
    run_async(functools.partial(_run_until_signal, config, loaded))
    end_process()


async def _run_until_signal(path: Path | None, loaded: Loaded) -> None:
    # Everything loaded so far lives as long as the process; traffic makes many small, short-lived objects. So the
    # garbage collector need not scan the former again (nor run often: see `__main__`).
    gc.collect()
    gc.freeze()
    async with stop_on_signal(STOP_WITHIN) as stop, anyio.create_task_group() as tasks:
        reloader = app.Reloader(path, loaded)
        tasks.start_soon(reloader.run)
        await app.run(loaded.config, stop, reloader=reloader)
        tasks.cancel_scope.cancel()
