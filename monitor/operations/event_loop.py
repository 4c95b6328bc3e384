"""Running coroutines from code that has no event loop, and errors that come out of task groups as themselves."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

from monitor.errors import MonitorError

T = TypeVar("T")


def run_async(main: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end, on uvloop where that is installed, and return its result.

    Raises as `unwrap_errors` does.
    """
    uvloop = importlib.util.find_spec("uvloop") is not None
    with unwrap_errors():
        return anyio.run(main, backend_options={"use_uvloop": uvloop})


@contextmanager
def unwrap_errors() -> Iterator[None]:
    """Raise a `MonitorError` from inside task groups as itself, without the exception groups around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        found = _first_error(group)
        if found is None:
            raise
        raise found from None


def _first_error(group: BaseException) -> MonitorError | None:
    if isinstance(group, MonitorError):
        return group
    if isinstance(group, BaseExceptionGroup):
        return next((found for one in group.exceptions if (found := _first_error(one)) is not None), None)
    return None
