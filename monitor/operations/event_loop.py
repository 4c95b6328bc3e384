"""Runs coroutines from code without an event loop, and unwraps errors from task groups."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import NoReturn, TypeVar

import anyio
from anyio.abc import TaskStatus

from monitor.errors import MonitorError

T = TypeVar("T")


def run_async(main: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end, on uvloop if that is installed, and return its result.

    Raises as `unwrap_errors` does.
    """
    uvloop = importlib.util.find_spec("uvloop") is not None
    with unwrap_errors():
        return anyio.run(main, backend_options={"use_uvloop": uvloop})


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Raise a `MonitorError` from inside task groups directly, without the exception groups around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        found = first_error(group)
        if found is None:
            raise
        raise found from None


def first_error(group: BaseException) -> MonitorError | None:
    """Return the first `MonitorError` in an exception group, or the exception if it is one; None if there is none."""
    if isinstance(group, MonitorError):
        return group
    if isinstance(group, BaseExceptionGroup):
        return next((found for one in group.exceptions if (found := first_error(one)) is not None), None)
    return None


@asynccontextmanager
async def stop_on_signal(within: float | None = None) -> AsyncIterator[anyio.Event]:
    """Yield an event that is set by the first SIGTERM or SIGINT; further signals change nothing.

    The process ends `within` seconds after that signal, even with work left to do, unless that is None.
    """
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(_wait, stop, within)
        yield stop
        tasks.cancel_scope.cancel()


async def _wait(stop: anyio.Event, within: float | None, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        task_status.started()
        async for _ in received:
            if within is not None and not stop.is_set():
                last = threading.Timer(within, _end)
                last.daemon = True
                last.start()
            stop.set()


def _end() -> None:
    """End the process. Everything acknowledged is on disk; the next process continues with it."""
    logging.getLogger("monitor").warning("not all work in progress was finished in time; it continues after a restart")
    end_process()


def end_process() -> NoReturn:
    """End the process at once, with status 0, without the finalizers of Python and of libraries.

    They take a tenth of a second of processor time, seconds on a busy machine, and hang if a thread is still importing.
    """
    logging.shutdown()
    with suppress(OSError, ValueError):  # it is closed, or no one reads it
        sys.stdout.flush()
    os._exit(0)
