"""Running a coroutine from code that has no event loop."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from monitor.errors import ConfigError

T = TypeVar("T")


def run_async(main: Callable[[], Awaitable[T]]) -> T:
    """Run an async function to its end, on uvloop where that is installed, and return its result.

    Raises a `ConfigError` from inside a task group as itself, without the exception group around it.
    """
    uvloop = importlib.util.find_spec("uvloop") is not None
    try:
        return anyio.run(main, backend_options={"use_uvloop": uvloop})
    except BaseExceptionGroup as group:
        found = _first_config_error(group)
        if found is None:
            raise
        raise found from None


def _first_config_error(group: BaseException) -> ConfigError | None:
    if isinstance(group, ConfigError):
        return group
    if isinstance(group, BaseExceptionGroup):
        return next((found for one in group.exceptions if (found := _first_config_error(one)) is not None), None)
    return None
