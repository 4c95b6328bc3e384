"""`rag-monitor demo`: watch the monitor on recorded traffic that gets worse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
from rich.console import Console

from monitor.cli.console.live_view import open_terminal
from monitor.cli.console.view import ConsoleView
from monitor.cli.demo.embedded import Started, start
from monitor.operations.event_loop import run_async, stop_on_signal


def demo() -> None:
    """Watch the monitor detect that recorded traffic gets worse, until Ctrl-C. Needs no key and no network."""
    run_demo(start)


def run_demo(
    start: Callable[[], AbstractAsyncContextManager[Started]],
    *,
    until: Callable[[ConsoleView], bool] | None = None,
    console: Console | None = None,
) -> None:
    """Start a monitor, feed it and show it until `until` returns true for a view, or until Ctrl-C or SIGTERM.

    Then the monitor drains and stops; further signals change nothing. A `MonitorError` of the monitor or the feeder is
    raised unchanged.
    """

    async def main() -> None:
        async with stop_on_signal() as stop, start() as started:
            await show(started.next_view, started.feed, until, console, stop=stop)

    run_async(main)


async def show(
    next_view: Callable[[], ConsoleView],
    feed: Callable[[], Awaitable[object]],
    until: Callable[[ConsoleView], bool] | None = None,
    console: Console | None = None,
    *,
    every: float = 0.5,
    stop: anyio.Event | None = None,
) -> None:
    """Run `feed` and draw `next_view()` every `every` seconds, until `until` returns true for a view or `stop` is set.

    Draws a live table on a terminal; elsewhere prints one plain line for each change, and one from time to time as a
    sign of life. A feed may end without ending the show; one that raises ends it.
    """
    stop = stop or anyio.Event()

    async def run_feed() -> None:
        await feed()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_feed)
        with open_terminal(console) as draw:
            while not stop.is_set():
                view = next_view()
                draw(view)
                if until is not None and until(view):
                    break
                with anyio.move_on_after(every):
                    await stop.wait()
        tasks.cancel_scope.cancel()
