"""Runs the monitor's own telemetry: sends spans and log records in the background, and delays nothing."""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from monitor.clock import Clock
from monitor.errors import MonitorError
from monitor.jobs.self_telemetry.outbox import EVERY, Outbox
from monitor.jobs.self_telemetry.settings import TelemetrySettings
from monitor.telemetry.events import Event, Events
from monitor.telemetry.metrics import Metrics
from monitor.telemetry.tracing import Tracer
from monitor.transport.otlp.exporter import Signal
from monitor.transport.otlp.exporter_settings import RESOURCE

_LAST_WORDS: Final = 1.5  # seconds at shutdown to send what is queued


@asynccontextmanager
async def open_telemetry(
    settings: TelemetrySettings, *, clock: Clock, metrics: Metrics, events: Events, rng: random.Random
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

    from monitor.jobs.self_telemetry.records import record  # noqa: PLC0415
    from monitor.jobs.self_telemetry.spans import RecordingTracer  # noqa: PLC0415

    resource = Resource.create({**RESOURCE, "service.instance.id": str(uuid.uuid4())})
    reach = _Reach(urlsplit(settings.endpoint).netloc, events)
    signals: tuple[Signal, ...] = ("traces", "logs") if settings.logs else ("traces",)
    boxes = {one: Outbox(one, target, clock=clock, metrics=metrics, told=reach.told) for one in signals}
    if settings.logs:
        put = boxes["logs"].put

        def heard(level: int, event: Event, message: str, fields: Mapping[str, object]) -> None:
            put(record(level, event, message, fields, at=clock.now(), resource=resource))

        events.also(heard)
    stopping = anyio.Event()
    try:
        async with anyio.create_task_group() as beside:
            for box in boxes.values():
                beside.start_soon(_keep_sending, box, stopping)
            yield RecordingTracer(boxes["traces"].put, resource, rate=settings.traces, clock=clock, rng=rng)
            stopping.set()
            beside.cancel_scope.deadline = anyio.current_time() + _LAST_WORDS
    finally:
        for box in boxes.values():
            box.close()


def _load() -> None:
    """Import slow modules, away from the event loop."""
    from monitor.jobs.self_telemetry import records, spans  # noqa: F401, PLC0415


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

    def told(self, signal: Signal, error: MonitorError | None) -> None:
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
