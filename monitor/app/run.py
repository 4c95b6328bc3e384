"""Runs the monitor in this process: one life after another, each with the configuration that was loaded last.

Listening servers outlive a reload, so that no sender is refused. The next life restores what a life leaves in the
spool, in the history and in the state file, as after a restart.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import Final

import anyio

from monitor.alerts.engine import CHECK_INTERVAL
from monitor.app.life import live
from monitor.app.memory import give_back_memory, keep_freed_memory
from monitor.app.parts import Process, Running
from monitor.app.reload import Ending, Reloader
from monitor.clock import Clock, SystemClock
from monitor.config import Config, Loaded
from monitor.stages.doors import Doors
from monitor.stages.reloads import Carried

_SWITCH_INTERVAL: Final = 0.001
"""Seconds after which a thread that reads something large yields to the receivers. Python's default is 5 ms."""


async def run(
    config: Config,
    stop: anyio.Event,
    *,
    clock: Clock | None = None,
    started: Callable[[Running], None] = lambda _: None,
    alerts_every: float = CHECK_INTERVAL,
    reloader: Reloader | None = None,
) -> None:
    """Run the monitor until `stop` is set, then drain.

    `started` is called before the receivers listen, and again after each reload. `alerts_every`: seconds between two
    checks of the alerts. `reloader` decides when to reload; None: never. Raises `ConfigError` (possibly within an
    exception group) if it can never work: a port in use, a folder that cannot be written, a model without a price under
    a budget.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    give_back = give_back_memory()
    reloads = reloader if reloader is not None else Reloader(None, Loaded.of(config))
    doors, carried = Doors(), Carried()
    try:
        current: Config | None = config
        while current is not None:
            keep_freed_memory(max((source.reads_at_once() for source in current.sources), default=0))
            ending, failed = Ending(), False
            process = Process(clock if clock is not None else SystemClock(), doors, reloads, carried)
            doors.keep = True
            watching = asyncio.create_task(_end_for_good(stop, ending, doors))
            up = reloads.rises(ending)
            try:
                await live(current, process, ending, started=started, up=up, alerts_every=alerts_every)
            except Exception as error:  # noqa: BLE001 - any error: the previous configuration worked
                failed = True
                current = reloads.after_error(error, stopping=stop.is_set())
            else:
                current = reloads.after_end(stopping=stop.is_set())
            finally:
                watching.cancel()
            carried = carried.next(failed=failed)
            gc.collect()
            give_back()
    finally:
        reloads.stopped()
        await doors.close()


async def _end_for_good(stop: anyio.Event, ending: Ending, doors: Doors) -> None:
    await stop.wait()
    doors.keep_none()
    ending.stop()
