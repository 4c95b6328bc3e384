"""A spool on a real file, opened repeatedly, and a process that ends without closing it."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from monitor.clock import Clock, ManualClock, SystemClock
from monitor.storage.spool import Spool, SpoolRecord, open_spool
from monitor.telemetry.events import Events
from monitor.telemetry.metrics import Metrics


class SpoolFile:
    """The file of a spool, with a clock and metrics that outlive each opening."""

    def __init__(self, path: Path, clock: Clock | None = None, metrics: Metrics | None = None) -> None:
        self.path = path
        self.clock = clock if clock is not None else ManualClock()
        self.metrics = metrics if metrics is not None else Metrics()
        self.events = Events(self.metrics, logging.getLogger("monitor.test"))

    def open(self, **options: Any) -> AbstractAsyncContextManager[Spool]:
        chosen: dict[str, Any] = {"at_most": 64 * 1024 * 1024, "keep": 3600.0, **options}
        return open_spool(self.path, clock=self.clock, metrics=self.metrics, events=self.events, **chosen)

    def record(self, payload: bytes, **fields: Any) -> SpoolRecord:
        return SpoolRecord(
            **{"source": "otlp_http", "signal": "traces", "received_at": self.clock.now(), **fields}, payload=payload
        )

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    async def left(self) -> list[bytes]:
        """Return the payloads that the next start finds."""
        async with self.open() as spool:
            return [one.record.payload async for one in spool.replay()]

    def asides(self) -> list[Path]:
        """Return the damaged files that were kept."""
        return sorted(self.path.parent.glob("*damaged-*"))


@asynccontextmanager
async def killed(file: SpoolFile) -> AsyncIterator[Spool]:
    """A spool whose process ends without closing it: its files are restored to their state at the end of the body."""
    async with file.open() as spool:
        yield spool
        images = {path: path.read_bytes() for path in file.path.parent.iterdir()}
    for path in file.path.parent.iterdir():
        path.unlink()
    for path, image in images.items():
        path.write_bytes(image)


def opened(path: Path, metrics: Metrics | None = None) -> AbstractAsyncContextManager[Spool]:
    """Open a spool on the system's clock, like a separate process would."""
    return SpoolFile(path, SystemClock(), metrics).open(at_most=1 << 28)


def record(payload: bytes) -> SpoolRecord:
    return SpoolRecord("otlp_http", "traces", time.time(), payload)


async def left(path: Path, metrics: Metrics | None = None) -> list[bytes]:
    """Return the payloads that the next start finds, on the system's clock."""
    async with opened(path, metrics) as spool:
        return [one.record.payload async for one in spool.replay()]
