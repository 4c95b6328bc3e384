"""Keeps what each receiver was told: over a reload in memory, and over a restart in the state file.

A delivery is noted there before it is made. So a process that is killed in the middle tells a receiver something twice
rather than never.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import anyio

from monitor.alerts.notify.delivery_state import DeliveryState
from monitor.stages import Runtime
from monitor.stages.kept_state import StateValue

_STATE: Final = "receivers"
_LONGEST_WRITE: Final = 2.0
"""Seconds for which a delivery waits until it is noted on the disk. A disk that hangs delays no alert for longer."""


class KnownAlerts:
    """What the receivers of one life know. `receivers`: how many there are; each place of one counts.

    Once all of them have begun, what is kept of others is dropped: they are no longer configured.
    """

    def __init__(self, runtime: Runtime, receivers: int) -> None:
        self._runtime = runtime
        self._receivers = receivers
        self._begun: dict[str, DeliveryState] = {}
        found = (runtime.kept.load(_STATE) or {}).get(_STATE)
        self._found: Mapping[str, object] = found if isinstance(found, Mapping) else {}
        runtime.kept.follow(_STATE, self._state)

    def begin(self, kind: str, identity: str, delivery: DeliveryState) -> None:
        """Give `delivery` what the receiver was told before, and keep it from now on.

        `identity` tells it from others of its kind, such as its whole URL: only a hash is kept. Two entries with the
        same are told apart by their order.
        """
        hashed = hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()
        carried = self._runtime.carried
        name = carried.own(f"{kind} {hashed}")
        before = carried.take(name, DeliveryState)
        if before is not None:
            delivery.resume(before)
        else:
            clock = self._runtime.clock
            delivery.restore(self._found.get(name), clock.monotonic(), clock.now())
        carried.leave(name, delivery)
        self._begun[name] = delivery

    async def flush(self) -> None:
        """Write what has changed to the disk, if it takes it."""
        with anyio.move_on_after(_LONGEST_WRITE):
            await self._runtime.kept.flush(_STATE)

    def _state(self) -> StateValue:
        waiting = self._found if len(self._begun) < self._receivers else {}
        begun = {name: delivery.kept() for name, delivery in self._begun.items()}
        return {_STATE: {**waiting, **{name: kept for name, kept in begun.items() if kept}}}
