"""Shows a running monitor in the terminal while it is fed."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import anyio
from rich.console import Console

from monitor.cli.console.terminal import open_terminal
from monitor.cli.console.view import ConsoleView
from monitor.cli.demo.embedded import Started
from monitor.errors import MonitorError

REDRAW = 0.5  # seconds

Start: TypeAlias = Callable[[], AbstractAsyncContextManager[Started]]
"""Starts a monitor; leaving the context drains and stops it."""


def run_demo(
    start: Start, *, until: Callable[[ConsoleView], bool] | None = None, console: Console | None = None
) -> None:
    """Start a monitor, feed it and show it until `until` holds of what is shown, or until Ctrl-C or SIGTERM.

    Then the monitor drains and stops; further signals change nothing. Raises a `MonitorError` of the monitor or the
    feeder as itself.
    """

    async def leave_on_signal(showing: anyio.CancelScope) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
            async for _ in received:
                showing.cancel()

    async def main() -> None:
        showing = anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave_on_signal, showing)
            async with start() as started:
                with showing:
                    await show(started.next_view, started.feed, until, console)
            tasks.cancel_scope.cancel()

    try:
        anyio.run(main)
    except BaseExceptionGroup as group:
        expected = _only(group)
        if expected is None:
            raise
        raise expected from None


async def show(
    next_view: Callable[[], ConsoleView],
    feed: Callable[[], Awaitable[object]],
    until: Callable[[ConsoleView], bool] | None = None,
    console: Console | None = None,
    *,
    every: float = REDRAW,
) -> None:
    """Run `feed` and draw `next_view()` every `every` seconds, until `until` holds of a view or the caller cancels.

    On a terminal a live table; elsewhere one plain line for each change, and one now and then as a sign of life. A feed
    that ends is let end; one that raises ends the show.
    """

    async def run_feed() -> None:
        await feed()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_feed)
        with open_terminal(console) as draw:
            while True:
                view = next_view()
                draw(view)
                if until is not None and until(view):
                    break
                await anyio.sleep(every)
        tasks.cancel_scope.cancel()


def _only(group: BaseExceptionGroup[Any]) -> MonitorError | None:
    """The one expected error in a group, if there is nothing else in it."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    return inner if isinstance(inner, MonitorError) else None
