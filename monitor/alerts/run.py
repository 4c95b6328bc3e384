"""Looks at the alerts at regular times and tells the receivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from monitor.alerts.engine import AlertEngine, AlertState
from monitor.alerts.notify import Inbox, Notifier
from monitor.alerts.policy import export_thresholds
from monitor.stages import Runtime

EVERY = 15.0

Show = Callable[[Sequence[AlertState]], None]


async def run(
    engine: AlertEngine,
    notifiers: Sequence[Notifier],
    runtime: Runtime,
    *,
    every: float = EVERY,
    show: Show | None = None,
) -> None:
    """Evaluate every `every` seconds until cancelled, at once to begin with.

    Exports the thresholds of apps as they appear. `show` gets each list of states, for the page; it must not block.
    """
    apps: tuple[str, ...] | None = None
    async with anyio.create_task_group() as receivers:
        inboxes = [Inbox() for _ in notifiers]
        for notifier, inbox in zip(notifiers, inboxes, strict=True):
            receivers.start_soon(notifier.run, inbox, runtime)
        while True:
            if apps != (apps := engine.apps()):
                export_thresholds(engine.policies, apps, runtime.metrics)
            states = engine.evaluate(runtime.clock.now())
            for inbox in inboxes:
                inbox.put(states)
            if show is not None:
                show(states)
            await anyio.sleep(every)
