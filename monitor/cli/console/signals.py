"""Ending a command early: SIGTERM and Ctrl-C set an event instead of killing the process."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


@asynccontextmanager
async def stop_on_signal() -> AsyncIterator[anyio.Event]:
    """Give an event that is set by the first SIGTERM or SIGINT; further signals change nothing."""
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_wait, stop)
        yield stop
        tasks.cancel_scope.cancel()


async def _wait(stop: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for _ in received:
            stop.set()
