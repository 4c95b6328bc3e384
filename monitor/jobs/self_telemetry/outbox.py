"""A bounded queue of items to send: an unreachable receiver costs some memory and nothing else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.errors import MonitorError, Overloaded
from monitor.telemetry.metrics import Metrics
from monitor.transport.otlp.exporter import Item, OtlpSender, Signal, Target

EVERY: Final = 1.0
"""Seconds between two attempts to send."""

LIMIT: Final = 4096
"""The most items of one signal that wait. Further ones are dropped and counted."""

_AT_ONCE: Final = 512
_LAST_PAUSE: Final = 60.0  # seconds; doubled from `EVERY` after each failure


class Outbox:
    """The items of one signal to send. `put` is called from any thread, the rest on the event loop.

    `told` is called after each attempt: with None on success, else with the reason of the failure.
    """

    def __init__(
        self,
        signal: Signal,
        target: Target,
        *,
        clock: Clock,
        metrics: Metrics,
        told: Callable[[Signal, MonitorError | None], None],
    ) -> None:
        self._signal = signal
        self._target = target
        self._clock = clock
        self._told = told
        self._waiting: deque[Item] = deque()
        self._sender: OtlpSender | None = None
        self._pause = 0.0
        self._not_before = 0.0
        self._sent = metrics.telemetry_items.labels(signal, "sent")
        self._dropped = metrics.telemetry_items.labels(signal, "dropped")

    def put(self, item: Item) -> None:
        """Queue an item. Never waits."""
        if len(self._waiting) < LIMIT:
            self._waiting.append(item)
        else:
            self._dropped.inc()

    async def send(self) -> None:
        """Send all queued items, unless the receiver was unreachable a moment ago."""
        while self._waiting and self._clock.monotonic() >= self._not_before:
            await self._send_some()

    def close(self) -> None:
        """Drop and count what is still queued."""
        self._dropped.inc(len(self._waiting))
        self._waiting.clear()
        if self._sender is not None:
            self._sender.close()

    async def _send_some(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _AT_ONCE))]
        error: MonitorError | None = None
        try:
            if self._sender is None:
                self._sender = await anyio.to_thread.run_sync(OtlpSender, self._target, self._signal)
            await self._sender.send(batch)
        except Overloaded as away:
            error = away
            self._waiting.extendleft(reversed(batch))
        except MonitorError as refused:
            error = refused
            self._dropped.inc(len(batch))
        except Exception as unexpected:  # noqa: BLE001 - the SDK may raise anything; the monitor goes on without its spans
            error = MonitorError(f"the exporter failed: {type(unexpected).__name__}")
            self._dropped.inc(len(batch))
        except BaseException:  # cancelled: `close` counts it
            self._waiting.extendleft(reversed(batch))
            raise
        else:
            self._sent.inc(len(batch))
        self._pause = min(max(2 * self._pause, EVERY), _LAST_PAUSE) if error is not None else 0.0
        self._not_before = self._clock.monotonic() + self._pause if error is not None else 0.0
        self._told(self._signal, error)
