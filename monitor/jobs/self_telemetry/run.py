"""Runs the monitor's own telemetry: sends spans and log records in the background, and delays nothing."""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.errors import MonitorError, Overloaded
from monitor.jobs.self_telemetry import TelemetrySettings
from monitor.stages.stop_deadline import StopDeadline
from monitor.telemetry.events import Event, Events
from monitor.telemetry.metrics import Metrics
from monitor.telemetry.tracing import Tracer
from monitor.transport.otlp.exporter import Item, OtlpSender, Signal, Target
from monitor.transport.otlp.exporter_settings import RESOURCE

EVERY: Final = 1.0
"""Seconds between two attempts to send."""

LIMIT: Final = 4096
"""The most queued items of one signal. Further ones are dropped and counted."""

_AT_ONCE: Final = 512
_LAST_PAUSE: Final = 60.0  # seconds; doubled from `EVERY` after each failure


class Outbox:
    """The items of one signal to send. `put` is called from any thread, the rest on the event loop.

    `on_attempt` is called after each attempt: with None on success, else with the reason for the failure.
    """

    def __init__(
        self,
        signal: Signal,
        target: Target,
        *,
        clock: Clock,
        metrics: Metrics,
        on_attempt: Callable[[Signal, MonitorError | None], None],
    ) -> None:
        self._signal = signal
        self._target = target
        self._clock = clock
        self._on_attempt = on_attempt
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
        """Drop and count the items that are still queued."""
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
        except Exception as unexpected:  # noqa: BLE001 - the SDK may raise anything; the monitor goes on without spans
            error = MonitorError(f"the exporter failed: {type(unexpected).__name__}")
            self._dropped.inc(len(batch))
        except BaseException:  # cancelled: `close` counts it
            self._waiting.extendleft(reversed(batch))
            raise
        else:
            self._sent.inc(len(batch))
        self._pause = min(max(2 * self._pause, EVERY), _LAST_PAUSE) if error is not None else 0.0
        self._not_before = self._clock.monotonic() + self._pause if error is not None else 0.0
        self._on_attempt(self._signal, error)


_LAST_WORDS: Final = 1.5  # seconds at shutdown to send queued items


@asynccontextmanager
async def open_telemetry(
    settings: TelemetrySettings,
    *,
    clock: Clock,
    metrics: Metrics,
    events: Events,
    rng: random.Random,
    stop: StopDeadline,
) -> AsyncIterator[Tracer]:
    """Open the tracer for the life of the context, and send `events` too. Without an endpoint nothing is sent.

    Raises `ConfigError` if a file of `telemetry.tls` cannot be used.
    """
    if settings.endpoint is None:
        yield Tracer()
        return
    target = settings.target("telemetry")
    await anyio.to_thread.run_sync(_load)
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - loaded above, in a thread

    from monitor.jobs.self_telemetry.spans import RecordingTracer, record  # noqa: PLC0415

    resource = Resource.create({**RESOURCE, "service.instance.id": str(uuid.uuid4())})
    reach = _Reach(urlsplit(settings.endpoint).netloc, events)
    signals: tuple[Signal, ...] = ("traces", "logs") if settings.logs else ("traces",)
    boxes = {one: Outbox(one, target, clock=clock, metrics=metrics, on_attempt=reach.on_attempt) for one in signals}
    if settings.logs:
        put = boxes["logs"].put

        def on_event(level: int, event: Event, message: str, fields: Mapping[str, object]) -> None:
            put(record(level, event, message, fields, at=clock.now(), resource=resource))

        events.also(on_event)
    stopping = anyio.Event()
    try:
        async with anyio.create_task_group() as beside:
            for box in boxes.values():
                beside.start_soon(_keep_sending, box, stopping)
            yield RecordingTracer(boxes["traces"].put, resource, rate=settings.traces, clock=clock, rng=rng)
            stopping.set()
            beside.cancel_scope.deadline = anyio.current_time() + min(_LAST_WORDS, stop.left("connections"))
    finally:
        for box in boxes.values():
            box.close()


def _load() -> None:
    """Import slow modules, away from the event loop."""
    from monitor.jobs.self_telemetry import spans  # noqa: F401, PLC0415


async def _keep_sending(box: Outbox, stopping: anyio.Event) -> None:
    while not stopping.is_set():
        with anyio.move_on_after(EVERY):
            await stopping.wait()
        await box.send()


class _Reach:
    """Reports once that the receiver cannot be reached, and once that it is back."""

    def __init__(self, where: str, events: Events) -> None:
        self._where = where
        self._events = events
        self._failing: set[Signal] = set()

    def on_attempt(self, signal: Signal, error: MonitorError | None) -> None:
        before = bool(self._failing)
        if error is None:
            self._failing.discard(signal)
        else:
            self._failing.add(signal)
        if error is not None and not before:
            message = "the monitor's own telemetry cannot be sent; this is reported once"
            self._events.warning(Event.TELEMETRY_FAILED, message, signal=signal, receiver=self._where, error=str(error))
        elif before and not self._failing:
            self._events.info(Event.TELEMETRY_BACK, "the monitor's own telemetry is sent again", receiver=self._where)
