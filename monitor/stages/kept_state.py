"""Small values that outlive the process: budgets, what pacers know of the traffic, what receivers were told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

StateValue: TypeAlias = Mapping[str, object]
"""Numbers, texts and lists of them by name, as JSON holds them."""


class KeptState:
    """Keeps values by name. This one keeps nothing: outside a running monitor each process begins at zero."""

    def load(self, name: str) -> StateValue | None:  # noqa: ARG002 - the contract's signature
        """Return what was kept under `name` last, by this process or the one before; None if nothing."""
        return None

    def follow(self, name: str, current: Callable[[], StateValue]) -> None:
        """Keep what `current` returns, written about every second when it has changed, and at the end."""

    async def flush(self, name: str) -> None:
        """Write the value that is followed under `name`; returns when it is durable, or refused by the disk."""

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
