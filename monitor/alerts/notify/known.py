"""Keeps what each receiver was sent: across a reload in memory, and across a restart in the state file.

A delivery is recorded there before it is made. So after a process is killed in the middle, a receiver may be notified
twice, but never not at all.
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
"""Seconds for which a delivery waits to be recorded on disk. A disk that hangs cannot delay an alert for longer."""


class KnownAlerts:
    """What the configured receivers know. `receivers`: how many there are; each place of a receiver counts.

    Once all of them have begun, entries of other receivers are dropped: they are no longer configured.
    """

    def __init__(self, runtime: Runtime, receivers: int) -> None:
        self._runtime = runtime
        self._receivers = receivers
        self._begun: dict[str, DeliveryState] = {}
        found = (runtime.kept.load(_STATE) or {}).get(_STATE)
        self._found: Mapping[str, object] = found if isinstance(found, Mapping) else {}
        runtime.kept.follow(_STATE, self._state)

    def begin(self, kind: str, identity: str, delivery: DeliveryState) -> None:
        """Restore to `delivery` what the receiver was sent before, and keep it from now on.

        `identity`, such as the whole URL, distinguishes the receiver from others of its kind; only a hash of it is
        kept. Two entries with the same identity are distinguished by their order.
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
        """Write changes to the disk, if it accepts them."""
        with anyio.move_on_after(_LONGEST_WRITE):
            await self._runtime.kept.flush(_STATE)

    def _state(self) -> StateValue:
        waiting = self._found if len(self._begun) < self._receivers else {}
        begun = {name: delivery.kept() for name, delivery in self._begun.items()}
        return {_STATE: {**waiting, **{name: kept for name, kept in begun.items() if kept}}}
