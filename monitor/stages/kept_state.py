"""Small values that outlive the process: budgets, pacers' traffic statistics, notifications sent to receivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

StateValue: TypeAlias = Mapping[str, object]
"""Numbers, strings and lists of them by name, as in JSON."""


class KeptState:
    """Stores values by name. This class stores nothing: outside a running monitor each process starts from zero."""

    def load(self, name: str) -> StateValue | None:  # noqa: ARG002 - the contract's signature
        """Return the last value stored under `name`, by this process or the previous one; None if there is none."""
        return None

    def follow(self, name: str, current: Callable[[], StateValue]) -> None:
        """Store what `current` returns: about every second if it has changed, and at the end."""

    async def flush(self, name: str) -> None:
        """Write the value followed under `name`; returns when it is durable, or when the disk has refused it."""

    def part(self, prefix: str) -> KeptState:
        """Return a view in which all names begin with `prefix`."""
        return _Prefixed(self, prefix)


class _Prefixed(KeptState):
    def __init__(self, whole: KeptState, prefix: str) -> None:
        self._whole = whole
        self._prefix = prefix

    def load(self, name: str) -> StateValue | None:
        return self._whole.load(self._prefix + name)

    def follow(self, name: str, current: Callable[[], StateValue]) -> None:
        self._whole.follow(self._prefix + name, current)

    async def flush(self, name: str) -> None:
        await self._whole.flush(self._prefix + name)
